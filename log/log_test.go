package log

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// bed is a log under test on a file system in memory.
type bed struct {
	t      testing.TB
	fs     vfs.FS
	o      Options
	l      *Log
	now    time.Time
	events []Event
}

// newBed is a log that is open; with -backed appends land in memory, with a
// journal behind.
func newBed(t testing.TB, c Config) *bed {
	t.Helper()
	b := newDirectBed(t, c)
	if *backed {
		b.back()
	}
	return b
}

var backed = flag.Bool("backed", false, "appends land in memory, with a journal behind")

// newDirectBed is one whose appends go straight into the segments: for tests of
// just that, and for those that say themselves when there is more.
func newDirectBed(t testing.TB, c Config) *bed {
	t.Helper()
	mem := vfs.NewMem()
	b := &bed{t: t, fs: mem, now: time.UnixMilli(1_700_000_000_000)}
	if err := mem.Mkdir("d", 0o755); err != nil {
		t.Fatal(err)
	}
	b.o = Options{FS: mem, Dir: "d", Partition: topic.Partition{Topic: "t"}, Config: c, OwnOnly: true,
		Now: func() time.Time { return b.now }, Events: func(e Event) { b.events = append(b.events, e) }}
	b.open()
	return b
}

func (b *bed) open() {
	b.t.Helper()
	l, err := Load(b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	if !b.o.ReadOnly {
		if _, err := l.Recover(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	}
	b.l = l
}

// reopen closes the log cleanly and opens it again.
func (b *bed) reopen() {
	b.t.Helper()
	p, err := b.l.Close(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	b.o.Points, b.o.Clean = p, true
	b.open()
}

// plain is a batch of n records without a producer.
func plain(n int, value string) batch.Batch {
	return build(batch.Plain, n, value)
}

func build(o batch.BuilderOptions, n int, value string) batch.Batch {
	var w batch.Builder
	w.Reset(nil, o)
	for i := range n {
		w.Add(1_700_000_000_000+int64(i), fmt.Appendf(nil, "k%d", i), []byte(value))
	}
	b, err := w.Finish()
	if err != nil {
		panic(err)
	}
	return b
}

func idempotent(p batch.Producer, sequence int32, n int) batch.Batch {
	o := batch.Plain
	o.Producer, o.BaseSequence = p, sequence
	return build(o, n, "idempotent")
}

func transactional(p batch.Producer, sequence int32, n int) batch.Batch {
	o := batch.Plain
	o.Producer, o.BaseSequence, o.Transactional = p, sequence, true
	return build(o, n, "transactional")
}

func (b *bed) append(v batch.Batch) Appended {
	b.t.Helper()
	o := AppendOptions{}
	if v.IsTransactional() {
		g, _, err := b.l.Guard(v.Producer(), v.BaseSequence(), false)
		if err != nil {
			b.t.Fatal(err)
		}
		o.Guard = g
	}
	a, err := b.l.Append(b.t.Context(), v, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b *bed) mark(p batch.Producer, commit bool) Appended {
	b.t.Helper()
	a, err := b.l.AppendMarker(b.t.Context(), batch.Marker{Producer: p, Commit: commit, Timestamp: b.now.UnixMilli()}, MarkerOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// read gives the base offsets of all batches that a reader sees, following
// NextOffset.
func (b *bed) read(from int64, o ReadOptions) (bases []int64) {
	b.t.Helper()
	for {
		f, err := b.l.Read(from, o)
		if err != nil {
			b.t.Fatal(err)
		}
		for v := range f.Batches() {
			bases = append(bases, v.BaseOffset())
		}
		next := f.NextOffset()
		f.Close()
		if next == from {
			return bases
		}
		from = next
	}
}

func TestAppendReadReopen(t *testing.T) {
	for _, level := range []Durability{DurabilityFsync, DurabilityOS} {
		t.Run(level.String(), func(t *testing.T) {
			b := newBed(t, Config{Durability: level, SegmentBytes: 4096, IndexIntervalBytes: 200})
			var want []int64
			next := int64(0)
			for i := range 60 {
				n := i%7 + 1
				if a := b.append(plain(n, "value")); a.BaseOffset != next || a.LastOffset != next+int64(n)-1 {
					t.Fatalf("append %d: got %+v, want base %d", i, a, next)
				}
				want = append(want, next)
				next += int64(n)
			}
			for range 2 {
				if got := b.read(0, ReadOptions{BytesMax: 700}); !slices.Equal(got, want) {
					t.Fatalf("read %v, want %v", got, want)
				}
				if f := b.l.Frontiers(); f.HighWatermark != next || f.LogEnd != next || f.LastStable != next {
					t.Fatalf("frontiers %+v, want all %d", f, next)
				}
				b.reopen()
			}
		})
	}
}

func TestTransactions(t *testing.T) {
	b := newBed(t, Config{SegmentBytes: 2048, IndexIntervalBytes: 200})
	p1, p2 := batch.Producer{ID: 1}, batch.Producer{ID: 2}
	b.append(transactional(p1, 0, 5)) // 0–4
	b.append(plain(3, "plain"))       // 5–7
	b.append(transactional(p2, 0, 2)) // 8–9
	if f := b.l.Frontiers(); f.LastStable != 0 || f.HighWatermark != 10 {
		t.Fatalf("open transactions: %+v", f)
	}
	b.mark(p1, false) // 10
	if f := b.l.Frontiers(); f.LastStable != 8 {
		t.Fatalf("last stable %d, want 8", f.LastStable)
	}
	b.reopen()
	if f := b.l.Frontiers(); f.LastStable != 8 || f.HighWatermark != 11 {
		t.Fatalf("after reopening: %+v", f)
	}
	b.mark(p2, true) // 11
	f, err := b.l.Read(0, ReadOptions{Isolation: ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.LastStable != 12 || len(f.Aborted) != 1 || f.Aborted[0].First != 0 || f.Aborted[0].Last != 10 || f.Aborted[0].ProducerID != 1 || f.Aborted[0].LastStable != 8 {
		t.Fatalf("aborted %+v, last stable %d", f.Aborted, f.LastStable)
	}
}
