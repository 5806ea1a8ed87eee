package index

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestOffsetAppend(t *testing.T) {
	const base = 1000
	for _, c := range []struct {
		name string
		have []OffsetEntry
		add  OffsetEntry
		want error
	}{
		{"first", nil, OffsetEntry{1000, 1}, nil},
		{"next", []OffsetEntry{{1001, 60}}, OffsetEntry{1002, 61}, nil},
		{"largest", nil, OffsetEntry{base + math.MaxInt32, math.MaxInt32}, nil},
		{"position of the first batch", nil, OffsetEntry{1000, 0}, ErrUnordered},
		{"same offset", []OffsetEntry{{1001, 60}}, OffsetEntry{1001, 61}, ErrUnordered},
		{"same position", []OffsetEntry{{1001, 60}}, OffsetEntry{1002, 60}, ErrUnordered},
		{"smaller position", []OffsetEntry{{1001, 60}}, OffsetEntry{1002, 6}, ErrUnordered},
		{"negative position", nil, OffsetEntry{1001, -5}, ErrUnordered},
		{"below base", nil, OffsetEntry{999, 61}, ErrOverflow},
		{"offset too far", nil, OffsetEntry{base + math.MaxInt32 + 1, 61}, ErrOverflow},
		{"offset much too far", nil, OffsetEntry{math.MaxInt64, 61}, ErrOverflow},
		{"offset far below", nil, OffsetEntry{math.MinInt64, 61}, ErrOverflow},
		{"position too far", nil, OffsetEntry{1001, math.MaxInt32 + 1}, ErrOverflow},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := NewOffset(base)
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

// TestLoadOffset has files whose end is not known.
func TestLoadOffset(t *testing.T) {
	whole := []OffsetEntry{{10, 100}, {20, 200}, {30, 300}}
	x := NewOffset(5)
	for _, e := range whole {
		if err := x.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	b := x.AppendTo(nil, 0)
	zeros := make([]byte, 800)
	for _, c := range []struct {
		name              string
		bytes             []byte
		endOffset, endPos int64
		want              int
	}{
		{"whole", b, 1000, 1000, 3},
		{"zero tail", slices.Concat(b, zeros), 1000, 1000, 3},
		{"zeros alone", zeros, 1000, 1000, 0},
		{"nothing", nil, 1000, 1000, 0},
		{"torn", b[:len(b)-1], 1000, 1000, 2},
		{"half an entry behind", slices.Concat(b, zeros[:4]), 1000, 1000, 3},
		{"end offset on an entry", b, 20, 1000, 1},
		{"end offset behind it", b, 21, 1000, 2},
		{"end position on an entry", b, 1000, 300, 2},
		{"end position behind it", b, 1000, 301, 3},
		{"end below base", b, 0, 1000, 0},
		{"old bytes behind", slices.Concat(b, b), 1000, 1000, 3},
		{"noise behind", slices.Concat(b, []byte("\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8")), 1000, 1000, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := LoadOffset(5, c.bytes, c.endOffset, c.endPos)
			if got := collect(x.Len(), x.At); !slices.Equal(got, whole[:c.want]) {
				t.Errorf("got %v, want %v", got, whole[:c.want])
			}
			if err := x.Append(OffsetEntry{40, 400}); err != nil {
				t.Errorf("append after load: %v", err)
			}
		})
	}
}

// TestOffsetForms compares the three forms with a slice that is searched from
// the front.
func TestOffsetForms(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{0, 1, 2, 15, 16, 17, 100, 9000} {
		base := r.Int64N(1 << 40)
		var naive []OffsetEntry
		made := NewOffset(base)
		e := OffsetEntry{base - 1, 0}
		for range n {
			e.Offset += 1 + r.Int64N(30)
			e.Pos += 1 + r.Int64N(9000)
			naive = append(naive, e)
			if err := made.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		b := made.AppendTo(nil, 0)
		view, err := ViewOffset(base, b)
		if err != nil {
			t.Fatal(err)
		}
		forms := map[string]*Offset{"made": made, "view": view, "loaded": LoadOffset(base, slices.Concat(b, make([]byte, 80)), math.MaxInt64, math.MaxInt64)}
		for name, x := range forms {
			t.Run(fmt.Sprintf("n=%d/%s", n, name), func(t *testing.T) {
				checkOffset(t, r, x, base, e, naive)
			})
		}
	}
}

func checkOffset(t *testing.T, r *rand.Rand, x *Offset, base int64, last OffsetEntry, naive []OffsetEntry) {
	if got := collect(x.Len(), x.At); !slices.Equal(got, naive) {
		t.Fatalf("got %v, want %v", got, naive)
	}
	if got, ok := x.Last(); ok != (len(naive) > 0) || ok && got != last {
		t.Fatalf("last: %v, %v", got, ok)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	offsets := []int64{math.MinInt64, -1, base - 1, base, base + 1, last.Offset, last.Offset + 1, base + math.MaxInt32, base + math.MaxInt32 + 1, math.MaxInt64}
	positions := []int64{math.MinInt64, -1, 0, last.Pos - 1, last.Pos, last.Pos + 1, math.MaxInt32, math.MaxInt64}
	for range 200 {
		offsets = append(offsets, base+r.Int64N(last.Offset-base+3))
		positions = append(positions, r.Int64N(last.Pos+2))
	}
	for _, offset := range offsets {
		want := OffsetEntry{Offset: base}
		for _, e := range naive {
			if e.Offset <= offset {
				want = e
			}
		}
		if got := x.Lookup(offset); got != want {
			t.Errorf("Lookup(%d) = %v, want %v", offset, got, want)
		}
	}
	for _, pos := range positions {
		i := slices.IndexFunc(naive, func(e OffsetEntry) bool { return e.Pos > pos })
		got, ok := x.AfterPos(pos)
		if ok != (i >= 0) || ok && got != naive[i] {
			t.Errorf("AfterPos(%d) = %v, %v, want number %d", pos, got, ok, i)
		}
	}
	for _, offset := range offsets[:30] {
		var want []OffsetEntry
		for _, e := range naive {
			if e.Offset < offset {
				want = append(want, e)
			}
		}
		cut := x.Truncated(offset)
		if got := collect(cut.Len(), cut.At); !slices.Equal(got, want) {
			t.Errorf("Truncated(%d): got %v, want %v", offset, got, want)
		}
		if last.Offset < math.MaxInt64 && cut.Append(OffsetEntry{last.Offset + 1, last.Pos + 1}) != nil {
			t.Errorf("Truncated(%d) does not grow", offset)
		}
	}
	if got := x.AppendTo(nil, len(naive)/2); !bytes.Equal(got, x.AppendTo(nil, 0)[len(naive)/2*OffsetEntrySize:]) {
		t.Error("second half differs")
	}
}
