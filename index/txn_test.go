package index

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestTxnAppend(t *testing.T) {
	for _, c := range []struct {
		name string
		have []AbortedTxn
		add  AbortedTxn
		want error
	}{
		{"first", nil, AbortedTxn{1, 100, 105, 106}, nil},
		{"begun in an earlier segment", nil, AbortedTxn{1, 7, 105, 106}, nil},
		{"marker at the base", nil, AbortedTxn{1, 7, 100, 101}, nil},
		{"next", []AbortedTxn{{1, 100, 105, 100}}, AbortedTxn{2, 90, 106, 107}, nil},
		{"marker below the base", nil, AbortedTxn{1, 7, 99, 100}, ErrUnordered},
		{"same marker", []AbortedTxn{{1, 100, 105, 106}}, AbortedTxn{2, 101, 105, 106}, ErrUnordered},
		{"empty", nil, AbortedTxn{1, 105, 105, 106}, ErrUnordered},
		{"backwards", nil, AbortedTxn{1, 106, 105, 106}, ErrUnordered},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := NewTxn(100)
			for _, e := range c.have {
				if err := x.Append(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := x.Append(c.add); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			want := c.have
			if c.want == nil {
				want = append(want, c.add)
			}
			if got := collect(x.Len(), x.At); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestLoadTxn(t *testing.T) {
	whole := []AbortedTxn{{1, 100, 105, 100}, {2, 90, 106, 107}, {3, 110, 120, 121}}
	b := txnBytes(t, 100, whole)
	newer := slices.Concat(b, b[:TxnEntrySize])
	newer[len(b)+1] = 1
	for _, c := range []struct {
		name      string
		bytes     []byte
		endOffset int64
		want      int
	}{
		{"whole", b, 1000, 3},
		{"zero tail", slices.Concat(b, make([]byte, 340)), 1000, 3},
		{"zeros alone", make([]byte, 340), 1000, 0},
		{"nothing", nil, 1000, 0},
		{"torn", b[:len(b)-1], 1000, 2},
		{"end on a marker", b, 106, 1},
		{"end behind it", b, 107, 2},
		{"old bytes behind", slices.Concat(b, b), 1000, 3},
		{"unknown version behind", newer, 1000, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := LoadTxn(100, c.bytes, c.endOffset)
			if got := collect(x.Len(), x.At); !slices.Equal(got, whole[:c.want]) {
				t.Errorf("got %v, want %v", got, whole[:c.want])
			}
			if err := x.Append(AbortedTxn{4, 1, 130, 131}); err != nil {
				t.Errorf("append after load: %v", err)
			}
		})
	}
}

func TestTxnTruncated(t *testing.T) {
	whole := []AbortedTxn{{1, 100, 105, 100}, {2, 90, 106, 107}, {3, 110, 120, 121}}
	view, err := ViewTxn(100, txnBytes(t, 100, whole))
	if err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[int64]int{0: 0, 105: 0, 106: 1, 107: 2, 120: 2, 121: 3, math.MaxInt64: 3} {
		x := view.Truncated(offset)
		if got := collect(x.Len(), x.At); !slices.Equal(got, whole[:want]) {
			t.Errorf("Truncated(%d): got %v, want %v", offset, got, whole[:want])
		}
		if err := x.Append(AbortedTxn{4, 1, 130, 131}); err != nil {
			t.Errorf("Truncated(%d) does not grow: %v", offset, err)
		}
	}
}

func txnBytes(t testing.TB, base int64, entries []AbortedTxn) []byte {
	t.Helper()
	x := NewTxn(base)
	for _, e := range entries {
		if err := x.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	return x.AppendTo(nil, 0)
}

// TestTxnCheck has views with one entry in the middle that is not sound: Check
// names it, and a search answers what reading all entries one by one does.
func TestTxnCheck(t *testing.T) {
	const n, broken = 1000, 500
	for name, change := range map[string]func(b []byte){
		"unknown version":       func(b []byte) { b[posTxnVersion+1] = 1 },
		"marker too low":        func(b []byte) { copy(b[posTxnLast:], make([]byte, 8)) },
		"empty":                 func(b []byte) { copy(b[posTxnFirst:], b[posTxnLast:posTxnLastStable]) },
		"last stable too low":   func(b []byte) { copy(b[posTxnLastStable:], make([]byte, 8)) },
		"last stable very high": func(b []byte) { b[posTxnLastStable] = 0x7f },
	} {
		t.Run(name, func(t *testing.T) {
			var entries []AbortedTxn
			for i := range int64(n) {
				entries = append(entries, AbortedTxn{i, 10 * i, 10*i + 9, 10*i + 10})
			}
			b := txnBytes(t, 0, entries)
			change(b[broken*TxnEntrySize:][:TxnEntrySize])
			x, err := ViewTxn(0, b)
			if err != nil {
				t.Fatal(err)
			}
			bad, ok := errors.AsType[*FormatError](x.Check())
			if !ok || bad.Kind != kindTxn || bad.Pos != broken*TxnEntrySize && bad.Pos != (broken+1)*TxnEntrySize {
				t.Errorf("got %v, want a FormatError at %d", bad, broken*TxnEntrySize)
			}
			all := collect(x.Len(), x.At)
			for from := int64(0); from < 10*n+20; from += 7 {
				checkOverlapping(t, x, all, from, from+30)
			}
		})
	}
}

// TestTxnAppendUnordered: entries whose last stable offsets fall, which no log
// produces, are still all found.
func TestTxnAppendUnordered(t *testing.T) {
	x := NewTxn(0)
	entries := []AbortedTxn{{1, 0, 9, 10}, {2, 10, 19, 15}, {3, 5, 29, 3}, {4, 30, 39, 40}}
	for _, e := range entries {
		if err := x.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	for from := range int64(45) {
		for upper := from; upper < 45; upper++ {
			checkOverlapping(t, x, entries, from, upper)
		}
	}
}

// naiveOverlapping is what Apache Kafka does: it reads the file from the front.
func naiveOverlapping(all []AbortedTxn, from, upper int64) (found []AbortedTxn, complete bool) {
	for _, e := range all {
		if e.Last >= from && e.First < upper {
			found = append(found, e)
		}
		if e.LastStable >= upper {
			return found, true
		}
	}
	return found, false
}

func checkOverlapping(t *testing.T, x *Txn, all []AbortedTxn, from, upper int64) {
	t.Helper()
	want, wantComplete := naiveOverlapping(all, from, upper)
	got, complete := x.Overlapping(nil, from, upper)
	if complete != wantComplete || !slices.Equal(got, want) {
		t.Fatalf("Overlapping(%d, %d): got %d, complete %v, want %d, complete %v\n got %v\nwant %v",
			from, upper, len(got), complete, len(want), wantComplete, got, want)
	}
}

func TestOverlappingEdges(t *testing.T) {
	x := NewTxn(100)
	if got, complete := x.Overlapping(nil, 0, 1000); got != nil || complete || x.MinFirst() != math.MaxInt64 {
		t.Errorf("empty: got %v, %v, %d", got, complete, x.MinFirst())
	}
	entry := AbortedTxn{9, 100, 105, 106}
	if err := x.Append(entry); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, upper int64
		found       bool
		complete    bool
	}{
		{0, 100, false, true},    // the range ends where it begins
		{0, 101, true, true},     // its first record
		{105, 106, true, true},   // its marker
		{106, 200, false, false}, // behind its marker
		{0, 106, true, true},     // all below was decided
		{0, 107, true, false},    // not what came after
		{math.MinInt64, math.MaxInt64, true, false},
		{math.MaxInt64, math.MinInt64, false, true},
	} {
		t.Run(fmt.Sprintf("from=%d,upper=%d", c.from, c.upper), func(t *testing.T) {
			got, complete := x.Overlapping(nil, c.from, c.upper)
			if len(got) == 1 != c.found || complete != c.complete {
				t.Errorf("got %v, %v", got, complete)
			}
		})
	}
	keep := []AbortedTxn{{1, 2, 3, 4}}
	if got, _ := x.Overlapping(keep, 0, 200); !slices.Equal(got, []AbortedTxn{keep[0], entry}) {
		t.Errorf("dst was not appended to: %v", got)
	}
}
