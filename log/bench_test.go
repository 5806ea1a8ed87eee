package log

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// diskBed is a log under test on the machine's file system.
func diskBed(t testing.TB, c Config) *bed {
	t.Helper()
	b := &bed{t: t, fs: vfs.Machine(), now: time.UnixMilli(1_700_000_000_000)}
	b.o = Options{Dir: t.TempDir(), Partition: topic.Partition{Topic: "t"}, Config: c, OwnOnly: true, Now: func() time.Time { return b.now }}
	b.open()
	t.Cleanup(func() { _ = b.l.Abandon() })
	return b
}

// sized is a batch of n records of size bytes in all, about.
func sized(o batch.BuilderOptions, n, size int) batch.Batch {
	return build(o, n, strings.Repeat("x", max(size/n-20, 1)))
}

func BenchmarkAppend(b *testing.B) {
	for _, level := range []Durability{DurabilityOS, DurabilityFsync} {
		for _, size := range []int{100, 1 << 10, 16 << 10} {
			b.Run(fmt.Sprintf("level=%s/bytes=%d", level, size), func(b *testing.B) {
				t := diskBed(b, Config{Durability: level, SegmentBytes: 256 << 20})
				v := sized(batch.Plain, 1, size)
				b.SetBytes(int64(len(v)))
				b.ReportAllocs()
				ctx := b.Context()
				for b.Loop() {
					if _, err := t.l.Append(ctx, v, AppendOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAppendIdempotent(b *testing.B) {
	for _, producers := range []int{1, 1000, 1_000_000} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			t := diskBed(b, Config{Durability: DurabilityOS, SegmentBytes: 256 << 20})
			ctx := b.Context()
			v := idempotent(batch.Producer{}, 0, 1)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p := batch.Producer{ID: int64(i % producers)}
				batch.Retarget(v, p, int32(i/producers))
				if _, err := t.l.Append(ctx, v, AppendOptions{}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

func BenchmarkDuplicate(b *testing.B) {
	t := diskBed(b, Config{Durability: DurabilityOS})
	v := idempotent(batch.Producer{ID: 1}, 0, 1)
	ctx := b.Context()
	t.append(v)
	b.ReportAllocs()
	for b.Loop() {
		if a, err := t.l.Append(ctx, v, AppendOptions{}); err != nil || !a.Duplicate {
			b.Fatal(a, err)
		}
	}
}

// BenchmarkRead measures the sequential, CRC-checked read of cached log beside
// its floor in the same run: preads of the same size and one CRC over them.
// The metric of-floor is the ratio of the two rates.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			t := diskBed(b, Config{Durability: DurabilityOS, SegmentBytes: 1 << 30})
			v := sized(batch.Plain, 1, size)
			for t.l.active.Size() < 64<<20 {
				t.append(v)
			}
			end := t.l.Frontiers().LogEnd
			h, err := t.l.active.Acquire()
			if err != nil {
				b.Fatal(err)
			}
			defer h.Release()
			total := t.l.active.Size()
			buffer := make([]byte, DefaultReadBytes)
			var floor, work time.Duration
			b.SetBytes(total)
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				for pos := int64(0); pos < total; pos += int64(len(buffer)) {
					n, _ := h.File.ReadAt(buffer, pos)
					batch.CRC(batch.Batch(buffer[:n]))
				}
				middle := time.Now()
				for at := int64(0); at < end; {
					f, err := t.l.Read(at, ReadOptions{})
					if err != nil {
						b.Fatal(err)
					}
					at = f.NextOffset()
					f.Close()
				}
				floor, work = floor+middle.Sub(start), work+time.Since(middle)
			}
			b.ReportMetric(floor.Seconds()/work.Seconds(), "of-floor")
		})
	}
}

// BenchmarkReadCommitted measures one read_committed fetch with aborted
// transactions elsewhere in the log.
func BenchmarkReadCommitted(b *testing.B) {
	for _, spanning := range []bool{false, true} {
		for _, n := range []int{1, 1000, 1_000_000} {
			if testing.Short() && n > 1000 {
				continue
			}
			b.Run(fmt.Sprintf("aborted=%d/spanned=%t", n, spanning), func(b *testing.B) {
				t := diskBed(b, Config{Durability: DurabilityOS, SegmentBytes: 1 << 30})
				long := batch.Producer{ID: 1 << 40}
				if spanning {
					t.append(transactional(long, 0, 1))
				}
				first := t.append(plain(1, "wanted"))
				v := transactional(batch.Producer{}, 0, 1)
				for i := range n {
					batch.Retarget(v, batch.Producer{ID: int64(i)}, 0)
					t.append(v)
					t.mark(batch.Producer{ID: int64(i)}, false)
				}
				if spanning {
					t.mark(long, false)
				}
				b.ReportAllocs()
				for b.Loop() {
					f, err := t.l.Read(first.BaseOffset, ReadOptions{Isolation: ReadCommitted, BytesMax: 1})
					if err != nil || len(f.Bytes()) == 0 {
						b.Fatal(err)
					}
					f.Close()
				}
			})
		}
	}
}
