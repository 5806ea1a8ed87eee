package txn

import (
	"fmt"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
)

// wide is a bed with n partitions of topic w.
func wide(t testing.TB, n int) (*bed, []topic.Partition) {
	b := newBed(t, Options{})
	var list []topic.Partition
	for i := range n {
		list = append(list, part("w", int32(i)))
		b.openLog(list[i])
	}
	return b, list
}

// transact is one transaction over all of list, added one by one.
func (b *bed) transact(id string, p batch.Producer, list []topic.Partition) batch.Producer {
	for i := range list {
		if err := b.c.Enlist(ctx, id, p, list[i:i+1]); err != nil {
			b.t.Fatal(err)
		}
	}
	return b.mustEnd(id, p, true)
}

// BenchmarkTransaction is what the coordinator takes for a transaction, markers
// included, without its data and without a device.
func BenchmarkTransaction(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) {
			bed, list := wide(b, n)
			p := bed.init("x")
			b.ReportAllocs()
			for b.Loop() {
				if p = bed.transact("x", p, list); p.Epoch > 30_000 {
					p = bed.init("x")
				}
			}
		})
	}
}

// BenchmarkAmong is a transaction beside others that are open, and ids that are
// known.
func BenchmarkAmong(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("open=%d", n), func(b *testing.B) {
			bed, list := wide(b, 1)
			for i := range n {
				id := fmt.Sprint("other-", i)
				if err := bed.c.Enlist(ctx, id, bed.init(id), list); err != nil {
					b.Fatal(err)
				}
			}
			p := bed.init("x")
			b.ReportAllocs()
			for b.Loop() {
				p = bed.transact("x", p, list)
			}
		})
	}
}

// BenchmarkLook is one look for transactions that took too long.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("ids=%d", n), func(b *testing.B) {
			bed, _ := wide(b, 0)
			for i := range n {
				bed.init(fmt.Sprint("other-", i))
			}
			for b.Loop() {
				bed.c.Work(ctx)
			}
		})
	}
}
