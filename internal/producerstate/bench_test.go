package producerstate

import (
	"fmt"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

var benchSizes = []int{1_000, million}

// BenchmarkDuplicate asks about a batch that is stored: the last, and the
// oldest of the five.
func BenchmarkDuplicate(b *testing.B) {
	for _, n := range benchSizes {
		table := fill(n, batchesMax)
		for _, back := range []int32{0, 4} {
			b.Run(fmt.Sprintf("producers=%d/back=%d", n, back), func(b *testing.B) {
				b.ReportAllocs()
				h := batch.Header{BaseSequence: 4 - back}
				for i := 0; b.Loop(); i++ {
					h.Producer.ID = spread(i * 7919 % n)
					if v, err := table.Check(Request{Header: &h}); err != nil || v.Kind != Duplicate {
						b.Fatal(v, err)
					}
				}
			})
		}
	}
}

// BenchmarkNewBatch asks about the next batch of a known producer and records
// it.
func BenchmarkNewBatch(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("producers=%d", n), func(b *testing.B) {
			table := fill(n, batchesMax)
			b.ReportAllocs()
			h := batch.Header{BaseOffset: int64(n) * batchesMax, BaseSequence: batchesMax}
			at := 0
			for b.Loop() {
				h.Producer.ID = spread(at)
				if v, err := table.Check(Request{Header: &h}); err != nil || v.Kind != Accept {
					b.Fatal(v, err)
				}
				table.Apply(&h, nil, h.BaseOffset)
				h.BaseOffset++
				if at++; at == n {
					at = 0
					h.BaseSequence++
				}
			}
		})
	}
}

// BenchmarkNewProducer records the first batch of producers that come and, by
// the bound on their number, go.
func BenchmarkNewProducer(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("producers=%d", n), func(b *testing.B) {
			table := fill(n, 1)
			table.SetProducersMax(n)
			b.ReportAllocs()
			h := batch.Header{BaseOffset: int64(n)}
			for i := n; b.Loop(); i++ {
				h.Producer.ID = spread(i)
				if v, err := table.Check(Request{Header: &h}); err != nil || v.Kind != Accept {
					b.Fatal(v, err)
				}
				table.Apply(&h, nil, h.BaseOffset)
				h.BaseOffset++
			}
		})
	}
}

// BenchmarkTransaction verifies, writes one batch and a marker, among others
// that stay open.
func BenchmarkTransaction(b *testing.B) {
	for _, open := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("open=%d", open), func(b *testing.B) {
			table := New(Options{})
			h := batch.Header{Attributes: bitTransactional}
			for i := range open {
				h.Producer.ID, h.BaseOffset = spread(i), int64(i)
				table.Apply(&h, nil, 0)
			}
			b.ReportAllocs()
			offset := int64(open)
			for i := 0; b.Loop(); i++ {
				p := batch.Producer{ID: spread(million + i%1000), Epoch: int16(i / 1000 % 16_000)}
				g, _ := table.Verify(p, 0, false, 0)
				h := batch.Header{BaseOffset: offset, Producer: p, Attributes: bitTransactional}
				if i < 16_000*1000 {
					if v, err := table.Check(Request{Header: &h, Guard: g}); err != nil || v.Kind != Accept {
						b.Fatal(v, err)
					}
				}
				table.Apply(&h, nil, 0)
				p.Epoch++
				m := batch.Marker{Producer: p, Commit: i%2 == 0}
				h = batch.Header{BaseOffset: offset + 1, Producer: p, Attributes: bitTransactional | bitControl}
				if c, ok := table.Apply(&h, &m, 0); !ok || open > 0 && c.LastStable != 0 {
					b.Fatal(c, ok)
				}
				offset += 2
			}
		})
	}
}

// BenchmarkEmptyMarker records markers of transactions without data here.
func BenchmarkEmptyMarker(b *testing.B) {
	table := fill(1000, 1)
	b.ReportAllocs()
	h := batch.Header{Attributes: bitTransactional | bitControl}
	m := batch.Marker{}
	for i := 0; b.Loop(); i++ {
		h.Producer.ID, h.BaseOffset = spread(i%1000), int64(i)
		table.Apply(&h, &m, 0)
	}
}

func BenchmarkAppendSnapshot(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("producers=%d", n), func(b *testing.B) {
			table := fill(n, 1)
			file := table.AppendSnapshot(nil)
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				file = table.AppendSnapshot(file[:0])
			}
		})
	}
}

func BenchmarkLoadSnapshot(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("producers=%d", n), func(b *testing.B) {
			file := fill(n, 1).AppendSnapshot(nil)
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := LoadSnapshot(Options{}, file, 0, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkExpire forgets one producer and learns a new one.
func BenchmarkExpire(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("producers=%d", n), func(b *testing.B) {
			table := fill(n, 1)
			b.ReportAllocs()
			h := batch.Header{BaseOffset: int64(n)}
			for i := n; b.Loop(); i++ {
				if gone := table.Expire(int64(i), int64(n)); gone != 1 {
					b.Fatal(gone)
				}
				h.Producer.ID = spread(i)
				table.Apply(&h, nil, int64(i))
				h.BaseOffset++
			}
		})
	}
}
