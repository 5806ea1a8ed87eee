package index

import (
	"fmt"
	"testing"
)

func BenchmarkOffsetAppend(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(OffsetEntrySize)
	x := NewOffset(0)
	for i := int64(0); b.Loop(); i++ {
		if i == 1<<31-2 {
			i, x = 0, NewOffset(0)
		}
		if err := x.Append(OffsetEntry{i, i + 1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOffsetLookup(b *testing.B) {
	for _, n := range []int64{1e3, 1e6} {
		made := NewOffset(0)
		for i := range n {
			if err := made.Append(OffsetEntry{10 * i, i + 1}); err != nil {
				b.Fatal(err)
			}
		}
		view, err := ViewOffset(0, made.AppendTo(nil, 0))
		if err != nil {
			b.Fatal(err)
		}
		for _, form := range []struct {
			name string
			x    *Offset
		}{{"memory", made}, {"view", view}} {
			b.Run(fmt.Sprintf("form=%s,entries=%d", form.name, n), func(b *testing.B) {
				b.ReportAllocs()
				offset := int64(1)
				for b.Loop() {
					offset = (offset*6364136223846793005 + 1442695040888963407) & (1<<62 - 1)
					if e := form.x.Lookup(offset % (10 * n)); e.Offset > 10*n {
						b.Fatal(e)
					}
				}
			})
		}
	}
}

func BenchmarkTxnAppend(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(TxnEntrySize)
	x := NewTxn(0)
	for i := int64(0); b.Loop(); i++ {
		if i%10_000_000 == 0 {
			x = NewTxn(0)
		}
		if err := x.Append(AbortedTxn{1, 2 * i, 2*i + 1, 2*i + 2}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOverlapping is what a read_committed fetch pays for aborted
// transactions that are not in its range: the time must not follow their
// number.
func BenchmarkOverlapping(b *testing.B) {
	// The range is two offsets in the middle.
	sets := []struct {
		name string
		make func(n int64) []AbortedTxn
	}{
		// Others before and behind the range.
		{"outside", func(n int64) (all []AbortedTxn) {
			for i := range n + 1 {
				all = append(all, AbortedTxn{i, 2 * i, 2*i + 1, 2*i + 2})
			}
			return all
		}},
		// One transaction open over all others; it holds the last stable
		// offset down, so that none of them ends a search.
		{"one-long", func(n int64) (all []AbortedTxn) {
			for i := range n {
				all = append(all, AbortedTxn{i + 1, 2*i + 1, 2*i + 2, 0})
			}
			return append(all, AbortedTxn{0, 0, 2*n + 1, 2*n + 2})
		}},
	}
	for _, set := range sets {
		for _, n := range []int64{1, 1e3, 1e6} {
			all := set.make(n)
			made := NewTxn(0)
			for _, e := range all {
				if err := made.Append(e); err != nil {
					b.Fatal(err)
				}
			}
			view, err := ViewTxn(0, made.AppendTo(nil, 0))
			if err != nil {
				b.Fatal(err)
			}
			for _, form := range []struct {
				name string
				x    *Txn
			}{{"memory", made}, {"view", view}} {
				b.Run(fmt.Sprintf("%s/form=%s,aborted=%d", set.name, form.name, n), func(b *testing.B) {
					from := n / 2 * 2
					dst := make([]AbortedTxn, 0, 16)
					form.x.Overlapping(dst, from, from+2) // a view builds its minima
					b.ReportAllocs()
					found := 0
					for b.Loop() {
						got, _ := form.x.Overlapping(dst, from, from+2)
						found = len(got)
					}
					if found == 0 || found > 3 {
						b.Fatalf("found %d", found)
					}
					b.ReportMetric(float64(found), "found")
				})
			}
		}
	}
}

// BenchmarkViewTxn is the first search in a sealed index, which reads all of
// it.
func BenchmarkViewTxn(b *testing.B) {
	made := NewTxn(0)
	for i := range int64(1e6) {
		if err := made.Append(AbortedTxn{i, 2 * i, 2*i + 1, 2*i + 2}); err != nil {
			b.Fatal(err)
		}
	}
	file := made.AppendTo(nil, 0)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		x, err := ViewTxn(0, file)
		if err != nil {
			b.Fatal(err)
		}
		if x.MinFirst() != 0 {
			b.Fatal("wrong")
		}
	}
}
