package index

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// history makes the aborted transactions of a log in which producers begin and
// end transactions at random. openMax is how many are open at a time; one in
// longEvery stays open for long, over thousands of others; 0: none does.
func history(r *rand.Rand, n, openMax, longEvery int) []AbortedTxn {
	type open struct {
		id, first int64
		until     int // entries in the history before it may end
	}
	var (
		all      []AbortedTxn
		ongoing  []open
		offset   int64
		producer int64
	)
	for len(all) < n {
		offset += r.Int64N(3)
		if len(ongoing) < openMax && r.IntN(3) > 0 {
			producer++
			o := open{id: producer, first: offset}
			if longEvery > 0 && r.IntN(longEvery) == 0 {
				o.until = len(all) + r.IntN(n)
			}
			ongoing = append(ongoing, o)
			offset++
			continue
		}
		if len(ongoing) == 0 {
			continue
		}
		i := r.IntN(len(ongoing))
		ended := ongoing[i]
		if ended.until > len(all) && r.IntN(100) > 0 {
			continue
		}
		ongoing = slices.Delete(ongoing, i, i+1)
		if r.IntN(4) > 0 { // one in four commits
			lastStable := offset + 1
			for _, o := range ongoing {
				lastStable = min(lastStable, o.first)
			}
			all = append(all, AbortedTxn{ended.id, ended.first, offset, lastStable})
		}
		offset++
	}
	return all
}

func TestOverlappingRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct{ n, openMax, longEvery int }{
		{1, 1, 0}, {2, 2, 0}, {15, 3, 4}, {16, 3, 4}, {17, 3, 4}, {255, 5, 10}, {256, 5, 10}, {257, 1, 0},
		{4095, 10, 100}, {4096, 10, 100}, {5000, 2, 3}, {5000, 50, 1000}, {20_000, 4, 5000},
	} {
		all := history(r, c.n, c.openMax, c.longEvery)
		made := NewTxn(0)
		for _, e := range all {
			if err := made.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if made.unordered.Load() {
			t.Fatal("the history is no history of a log")
		}
		b := made.AppendTo(nil, 0)
		view, err := ViewTxn(0, b)
		if err != nil {
			t.Fatal(err)
		}
		loaded := LoadTxn(0, slices.Concat(b, make([]byte, 100)), math.MaxInt64)
		end := all[len(all)-1].Last + 2
		for name, x := range map[string]*Txn{"made": made, "view": view, "loaded": loaded} {
			t.Run(fmt.Sprintf("n=%d,open=%d,long=%d/%s", c.n, c.openMax, c.longEvery, name), func(t *testing.T) {
				if got := collect(x.Len(), x.At); !slices.Equal(got, all) {
					t.Fatal("entries differ")
				}
				if err := x.Check(); err != nil {
					t.Error(err)
				}
				checkLowest(t, x, all)
				for range 100 {
					from := r.Int64N(end + 1)
					checkOverlapping(t, x, all, from, from+r.Int64N(1+r.Int64N(end)))
					checkOverlapping(t, x, all, r.Int64N(end+1), r.Int64N(end+1)) // also ranges that are none
				}
			})
		}
	}
}

func checkLowest(t *testing.T, x *Txn, all []AbortedTxn) {
	t.Helper()
	want := int64(math.MaxInt64)
	for _, e := range all {
		want = min(want, e.First)
	}
	if got := x.MinFirst(); got != want {
		t.Errorf("MinFirst: got %d, want %d", got, want)
	}
}

// TestOverlappingGrowing asks after every append, so that every mix of whole
// and partial blocks is seen.
func TestOverlappingGrowing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := history(r, 1200, 8, 50)
	x := NewTxn(0)
	for i, e := range all {
		if err := x.Append(e); err != nil {
			t.Fatal(err)
		}
		checkLowest(t, x, all[:i+1])
		for range 4 {
			from := r.Int64N(e.Last + 2)
			checkOverlapping(t, x, all[:i+1], from, from+1+r.Int64N(20))
		}
	}
}

// TestManyReaders appends to the three indexes while readers look at them. It
// is worth most under the race detector.
func TestManyReaders(t *testing.T) {
	const n = 12_000
	all := history(rand.New(rand.NewPCG(3, 4)), n, 8, 500)
	x, y, z := NewOffset(0), NewTime(0), NewTxn(0)
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			var dst []AbortedTxn
			for {
				seen := z.Len()
				if seen == 0 {
					continue
				}
				last := all[seen-1].Last
				from := r.Int64N(last + 1)
				upper := from + 1 + r.Int64N(50)
				want, complete := naiveOverlapping(all[:seen], from, upper)
				got, gotComplete := z.Overlapping(dst[:0], from, upper)
				dst = got
				// More may have been appended since: those come behind.
				if len(got) < len(want) || !slices.Equal(got[:len(want)], want) || complete && (!gotComplete || len(got) != len(want)) {
					t.Errorf("Overlapping(%d, %d) of %d: got %v, want %v", from, upper, seen, got, want)
					return
				}
				e := x.Lookup(from)
				if e.Offset > from || e.Pos != 2*e.Offset {
					t.Errorf("Lookup(%d): got %v", from, e)
					return
				}
				if e := y.Lookup(from); e.Timestamp > from || e.Offset != max(e.Timestamp, 0) {
					t.Errorf("Lookup time %d: got %v", from, e)
					return
				}
				if len(x.AppendTo(nil, seen/2)) < (seen-seen/2)*OffsetEntrySize {
					t.Error("AppendTo lost entries")
					return
				}
				if seen == n {
					return
				}
			}
		})
	}
	for _, e := range all {
		_, err := y.MaybeAppend(TimeEntry{e.Last, e.Last})
		if err != nil || x.Append(OffsetEntry{e.Last, 2 * e.Last}) != nil || z.Append(e) != nil {
			t.Fatal(e)
		}
	}
	readers.Wait()
}

// TestViewManyReaders: the minima of a view are built once, whoever comes
// first.
func TestViewManyReaders(t *testing.T) {
	all := history(rand.New(rand.NewPCG(6, 7)), 5000, 8, 500)
	b := txnBytes(t, 0, all)
	for range 20 {
		x, err := ViewTxn(0, b)
		if err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		for i := range 8 {
			readers.Go(func() {
				if i == 0 {
					checkLowest(t, x, all)
				}
				from := all[i*600].First
				want, wantComplete := naiveOverlapping(all, from, from+100)
				if got, complete := x.Overlapping(nil, from, from+100); complete != wantComplete || !slices.Equal(got, want) {
					t.Errorf("reader %d: got %v, want %v", i, got, want)
				}
			})
		}
		readers.Wait()
	}
}
