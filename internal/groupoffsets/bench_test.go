package groupoffsets

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Nothing is allocated for what comes again and again.
func TestAllocations(t *testing.T) {
	if raced {
		return // it makes pools forget
	}
	b := newBed(t, 1, log.Options{})
	commits := []Commit{{Partition: part(0), Offset: 1, Metadata: "as before"}, at(1, 2)}
	partitions := []topic.Partition{part(0), part(1), part(2)}
	dst := make([]Committed, 0, len(partitions))
	b.stage("g", 1, commits...)
	b.end("g", 1, true)
	for name, c := range map[string]struct {
		most float64
		do   func()
	}{
		"commit": {0, func() { b.commit("g", commits...) }},
		"fetch":  {0, func() { dst, _ = b.s.Fetch(ctx, dst[:0], "g", partitions, FetchOptions{RequireStable: true}) }},
		"transaction": {0, func() {
			b.stage("g", 1, commits...)
			b.end("g", 1, true)
			dst, _ = b.s.Fetch(ctx, dst[:0], "g", partitions, FetchOptions{RequireStable: true})
		}},
	} {
		if got := testing.AllocsPerRun(1000, c.do); got > c.most {
			t.Errorf("%s: %v allocations, want %v", name, got, c.most)
		}
	}
}

// BenchmarkCommit is one commit to a log in memory, with the fold of the one
// before.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("offsets=%d", n), func(b *testing.B) {
			bed := newBed(b, 1, log.Options{})
			var commits []Commit
			for i := range n {
				commits = append(commits, at(int32(i), 1))
			}
			b.ReportAllocs()
			for b.Loop() {
				bed.commit("g", commits...)
			}
		})
	}
}

// BenchmarkFetch asks a group among many for offsets.
func BenchmarkFetch(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("offsets=%d", n), func(b *testing.B) {
			bed := newBed(b, 1, log.Options{})
			many(bed, 1000, 100)
			var partitions []topic.Partition
			for i := range n {
				partitions = append(partitions, part(int32(i)))
			}
			var dst []Committed
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = bed.s.Fetch(ctx, dst[:0], "group-7", partitions, FetchOptions{RequireStable: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// many commits offsets of groups, each in a batch.
func many(b *bed, groups, each int) {
	var commits []Commit
	for i := range each {
		commits = append(commits, at(int32(i), 1))
	}
	for i := range groups {
		if _, err := b.s.Commit(ctx, fmt.Sprint("group-", i), commits, log.AppendOptions{NoWait: true}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// BenchmarkCatchUp reads a million offsets at the start, all live, or nearly none.
func BenchmarkCatchUp(b *testing.B) {
	const offsets = 1_000_000
	for _, live := range []int{offsets, 1000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			bed := newBed(b, 1, log.Options{})
			for range offsets / live {
				many(bed, live/100, 100)
			}
			bytes := int64(0)
			for s := range bed.logs[0].Segments() {
				bytes += s.Bytes
			}
			b.SetBytes(bytes)
			b.ReportAllocs()
			var before, after runtime.MemStats
			for b.Loop() {
				b.StopTimer()
				bed.s = bed.store()
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.StartTimer()
				if err := bed.s.CatchUp(ctx); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if n := bed.s.Metrics().Offsets; n != live {
				b.Fatalf("%d offsets, want %d", n, live)
			}
			b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(live), "B/offset")
			b.ReportMetric(float64(offsets)*float64(b.N)/b.Elapsed().Seconds(), "offsets/s")
		})
	}
}
