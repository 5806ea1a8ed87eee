package index

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// The golden vectors were parsed with a decoder that is not this one.
const (
	goldenOffset = "00 00 00 39  00 00 10 73"
	goldenTime   = "00 00 01 8b cf e5 68 00  00 00 00 39"
	goldenTxn    = "00 00  00 00 00 00 00 00 23 28  00 00 00 00 00 00 00 64  00 00 00 00 00 00 00 69  00 00 00 00 00 00 00 6a"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenOffset(t *testing.T) {
	b := unhex(t, goldenOffset)
	want := OffsetEntry{Offset: 1057, Pos: 4211}
	view, err := ViewOffset(1000, b)
	if err != nil {
		t.Fatal(err)
	}
	made := NewOffset(1000)
	if err := made.Append(want); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*Offset{"view": view, "made": made, "loaded": LoadOffset(1000, b, 1058, 4212)} {
		if got, ok := x.Last(); !ok || got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if got := x.AppendTo(nil, 0); !bytes.Equal(got, b) {
			t.Errorf("%s: got % x, want % x", name, got, b)
		}
	}
}

func TestGoldenTime(t *testing.T) {
	b := unhex(t, goldenTime)
	want := TimeEntry{Timestamp: 1700000000000, Offset: 1057}
	view, err := ViewTime(1000, b)
	if err != nil {
		t.Fatal(err)
	}
	made := NewTime(1000)
	if added, err := made.MaybeAppend(want); !added || err != nil {
		t.Fatal(added, err)
	}
	for name, x := range map[string]*Time{"view": view, "made": made, "loaded": LoadTime(1000, b, 1058)} {
		if got, ok := x.Last(); !ok || got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if got := x.AppendTo(nil, 0); !bytes.Equal(got, b) {
			t.Errorf("%s: got % x, want % x", name, got, b)
		}
	}
}

func TestGoldenTxn(t *testing.T) {
	b := unhex(t, goldenTxn)
	want := AbortedTxn{ProducerID: 9000, First: 100, Last: 105, LastStable: 106}
	view, err := ViewTxn(100, b)
	if err != nil {
		t.Fatal(err)
	}
	made := NewTxn(100)
	if err := made.Append(want); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*Txn{"view": view, "made": made, "loaded": LoadTxn(100, b, 106)} {
		if got, ok := x.Last(); !ok || got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if got := x.AppendTo(nil, 0); !bytes.Equal(got, b) {
			t.Errorf("%s: got % x, want % x", name, got, b)
		}
	}
}

// TestViewRefuses has what a view must not take for an index.
func TestViewRefuses(t *testing.T) {
	zeros := strings.Repeat("00", 34)
	for _, c := range []struct {
		name string
		kind string
		hex  string
		pos  int64
	}{
		{"half an entry", kindOffset, goldenOffset + "00 00 00 3a", 8},
		{"zero tail", kindOffset, goldenOffset + zeros[:32], 16},
		{"zeros alone", kindOffset, zeros[:16], 0},
		{"offset below base", kindOffset, "ff ff ff ff 00 00 10 73", 0},
		{"position below zero", kindOffset, "00 00 00 39 ff ff ff ff", 0},
		{"last before first", kindOffset, goldenOffset + "00 00 00 38 00 00 10 74", 8},
		{"half an entry", kindTime, goldenTime + "00", 12},
		{"zero tail", kindTime, goldenTime + zeros[:24], 12},
		{"zeros alone", kindTime, zeros[:48], 12},
		{"offset below base", kindTime, "00 00 01 8b cf e5 68 00 ff ff ff ff", 0},
		{"no timestamp", kindTime, "ff ff ff ff ff ff ff ff 00 00 00 39", 0},
		{"version 1", kindTxn, "00 01" + goldenTxn[5:], 0},
		{"version 1 behind", kindTxn, goldenTxn + "00 01" + goldenTxn[5:], 34},
		{"zero tail", kindTxn, goldenTxn + zeros, 34},
	} {
		t.Run(c.kind+"/"+c.name, func(t *testing.T) {
			b := unhex(t, c.hex)
			var err error
			switch c.kind {
			case kindOffset:
				_, err = ViewOffset(50, b)
			case kindTime:
				_, err = ViewTime(50, b)
			case kindTxn:
				_, err = ViewTxn(50, b)
			}
			bad, ok := errors.AsType[*FormatError](err)
			if !ok {
				t.Fatalf("got %v, want a FormatError", err)
			}
			if bad.Kind != c.kind || bad.Pos != c.pos || bad.Reason == "" {
				t.Errorf("got %v, want %s at %d", bad, c.kind, c.pos)
			}
		})
	}
}

func TestViewTxnBelowSegment(t *testing.T) {
	if _, err := ViewTxn(106, unhex(t, goldenTxn)); err == nil {
		t.Error("a marker below the segment was taken")
	}
	torn := unhex(t, goldenTxn+"00 00 01")
	x, err := ViewTxn(100, torn)
	if err != nil || x.Len() != 1 {
		t.Errorf("torn entry: got %v, %v; want one entry", x, err)
	}
	if got := x.AppendTo(nil, 0); !bytes.Equal(got, torn[:TxnEntrySize]) {
		t.Errorf("got % x", got)
	}
}

func TestViewIsReadOnly(t *testing.T) {
	x, _ := ViewOffset(0, nil)
	y, _ := ViewTime(0, nil)
	z, _ := ViewTxn(0, nil)
	_, err := y.MaybeAppend(TimeEntry{1, 1})
	for _, err := range []error{x.Append(OffsetEntry{1, 1}), err, z.Append(AbortedTxn{1, 1, 2, 3})} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("got %v, want %v", err, ErrReadOnly)
		}
	}
}
