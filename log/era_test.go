package log

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// TestEra: what was cut since, over any number of truncations.
func TestEra(t *testing.T) {
	var l Log
	first := l.era()
	if first.ended() || first.took(1<<40) {
		t.Error("the first era began ended")
	}
	for i, cut := range []int64{50, 80, 30, 90} {
		before := l.era()
		l.endEraLocked(cut)
		if !before.ended() || !before.took(cut+1) || before.took(cut) || l.era().ended() {
			t.Errorf("truncation %d", i)
		}
		least := min(cut, 50)
		if i >= 2 {
			least = 30
		}
		if !first.took(least+1) || first.took(least) {
			t.Errorf("after truncation %d the first era does not know of %d", i, least)
		}
	}
}

// TestTruncatedAppendIsNotAcknowledged: an append waits to be safe, is truncated
// away, and another takes its offset and becomes safe.
func TestTruncatedAppendIsNotAcknowledged(t *testing.T) {
	eitherWay(t, Config{}, func(t *testing.T, b *bed) {
		b.replicated()
		b.replicate(plain(1, "stays"), ReplicaOptions{})
		b.replicate(plain(1, "goes"), ReplicaOptions{NoWait: true})
		late := b.l.upTo() // as who appended just now, and waits a little later
		stays := promise{1, late.era}
		if err := b.l.Truncate(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := b.l.waitDurable(t.Context(), late); !errors.Is(err, ErrTruncated) {
				t.Errorf("truncated: %v", err)
			}
			if err := b.l.waitDurable(t.Context(), stays); err != nil {
				t.Errorf("left in place: %v", err)
			}
			b.replicate(plain(2, "takes its place"), ReplicaOptions{})
		}
		if err := b.l.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestTruncationWakesWaiters: an append that waits for a flush ends when it is
// truncated, not when the flush comes.
func TestTruncationWakesWaiters(t *testing.T) {
	b := newDirectBed(t, Config{})
	b.replicated()
	b.l.flushMu.Lock() // a flush is under way
	defer b.l.flushMu.Unlock()
	done := make(chan error, 1)
	v := plain(1, "goes")
	v.Stamp(0, 0)
	go func() {
		_, err := b.l.AppendReplica(context.Background(), v, ReplicaOptions{})
		done <- err
	}()
	for b.l.waitingCount.Load() == 0 {
		runtime.Gosched()
	}
	b.l.lockAppend()
	b.l.endEraLocked(0)
	b.l.appendMu.Unlock()
	b.l.wakeAll()
	if err := <-done; !errors.Is(err, ErrTruncated) {
		t.Errorf("ended with %v", err)
	}
}

// TestReadersBesideTruncation: whoever reads what stays, or copies the log, or
// looks something up, is not disturbed by a suffix that comes and goes.
func TestReadersBesideTruncation(t *testing.T) {
	for _, level := range []Durability{DurabilityOS, DurabilityFsync} {
		c := Config{SegmentBytes: 4000, IndexIntervalBytes: 100, Durability: level}
		t.Run(level.String(), func(t *testing.T) {
			eitherWay(t, c, readersBesideTruncation)
		})
	}
}

func readersBesideTruncation(t *testing.T, b *bed) {
	b.o.Events = nil
	b.replicated()
	for range 40 {
		b.replicate(plain(1, "stays"), ReplicaOptions{})
	}
	b.l.AdvanceHighWatermark(40)
	var group sync.WaitGroup
	stop := make(chan struct{})
	loop := func(f func()) {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	loop(func() { b.readWhole(0, 40, ReadOptions{Isolation: ReadCommitted}) })
	loop(func() {
		end := b.l.Frontiers().LogEnd
		b.readWhole(end-1, end, ReadOptions{Replica: true, Unchecked: true})
	})
	loop(func() { lookUp(t, b.l) })
	loop(func() {
		if _, err := b.l.Checkpoint(context.Background()); err != nil {
			t.Error(err)
		}
		if f := b.l.Frontiers(); f.LastStable > f.HighWatermark || f.HighWatermark > f.LogEnd {
			t.Errorf("%+v", f)
		}
	})
	for i := range 60 {
		for range 30 {
			b.replicate(plain(1, "goes, after a while, and others come"), ReplicaOptions{NoWait: true})
		}
		if err := b.l.Truncate(context.Background(), 40+int64(i%5)); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	group.Wait()
}

// replicated opens the log again with a high watermark that is moved from
// outside.
func (b *bed) replicated() {
	b.t.Helper()
	b.o.Replicated = true
	b.reopen()
}

// replicate appends a batch as a leader stored it.
func (b *bed) replicate(v batch.Batch, o ReplicaOptions) {
	b.t.Helper()
	v = batch.Batch(bytes.Clone(v))
	v.Stamp(b.l.Frontiers().LogEnd, 0)
	if _, err := b.l.AppendReplica(context.Background(), v, o); err != nil {
		b.t.Fatal(err)
	}
}

// readWhole reads [from, to) in one go, and expects whole batches. Of a replica's
// read the log end may have moved back.
func (b *bed) readWhole(from, to int64, o ReadOptions) {
	f, err := b.l.Read(from, o)
	if o.Replica && errors.Is(err, ErrOffsetOutOfRange) {
		return
	}
	if err != nil {
		b.t.Errorf("read from %d: %v", from, err)
		return
	}
	defer f.Close()
	next := from
	for v := range f.Batches() {
		if err := v.Check(); err != nil || v.BaseOffset() != next {
			b.t.Errorf("read from %d: batch at %d, %v", from, v.BaseOffset(), err)
		}
		next = v.NextOffset()
	}
	if next == from && !o.Replica {
		b.t.Errorf("nothing at %d", from)
	}
}
