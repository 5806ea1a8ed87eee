package log

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// TestConcurrent lets writers, readers and maintenance loose on one log: every
// reader sees every batch once and in order, and each only after it is safe.
func TestConcurrent(t *testing.T) {
	for _, level := range []Durability{DurabilityOS, DurabilityFsync} {
		t.Run(level.String(), func(t *testing.T) {
			b := newDirectBed(t, Config{Durability: level, SegmentBytes: 8 << 10, IndexIntervalBytes: 512})
			b.o.Workers, b.o.Files = NewWorkers(2), segment.NewFiles(3)
			b.o.Events = nil
			b.reopen()
			const writers, each, records = 8, 150, 3
			const total = writers * each * records
			var group, keepers sync.WaitGroup
			for w := range writers {
				group.Go(func() {
					p := batch.Producer{ID: int64(w)}
					for i := range each {
						v := idempotent(p, int32(i*records), records)
						a, err := b.l.Append(t.Context(), v, AppendOptions{NoWait: i%3 == 0})
						if err != nil {
							t.Errorf("writer %d: %v", w, err)
							return
						}
						if f := b.l.Frontiers(); i%3 != 0 && f.HighWatermark <= a.LastOffset {
							t.Errorf("acknowledged %d at high watermark %d", a.LastOffset, f.HighWatermark)
						}
						if again, err := b.l.Append(t.Context(), v, AppendOptions{}); err != nil || !again.Duplicate || again.BaseOffset != a.BaseOffset {
							t.Errorf("duplicate of %d: %+v, %v", a.BaseOffset, again, err)
						}
					}
				})
			}
			for range 4 {
				group.Go(func() { readThrough(t, b.l, total) })
			}
			stop := make(chan struct{})
			keepers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := b.l.Checkpoint(t.Context()); err != nil {
						t.Error(err)
					}
					if _, err := b.l.OffsetForTime(1_700_000_000_001, ReadUncommitted); err != nil {
						t.Error(err)
					}
					b.l.Metrics()
				}
			})
			group.Wait()
			close(stop)
			keepers.Wait()
			if err := b.l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.reopen()
			if f := b.l.Frontiers(); f.HighWatermark != total {
				t.Fatalf("reopened: %+v, want %d", f, total)
			}
			readThrough(t, b.l, total)
			b.o.Workers.Close()
		})
	}
}

// readThrough reads a log from its first offset to end, waiting for more.
func readThrough(t *testing.T, l *Log, end int64) {
	for at := int64(0); at < end; {
		if err := l.Wait(t.Context(), FrontierHighWatermark, at+1); err != nil {
			t.Error(err)
			return
		}
		f, err := l.Read(at, ReadOptions{BytesMax: 2000})
		if err != nil {
			t.Error(err)
			return
		}
		for v := range f.Batches() {
			if v.BaseOffset() != at {
				t.Errorf("read offset %d, want %d", v.BaseOffset(), at)
			}
			at = v.NextOffset()
		}
		if at > f.HighWatermark {
			t.Errorf("read up to %d, above the high watermark %d", at, f.HighWatermark)
		}
		f.Close()
	}
}

// TestSharedFlush: appends that wait at the same time share flushes.
func TestSharedFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, Config{})
		b.fs = faultfs.New(b.fs, faultfs.Plan{Hook: func(op faultfs.Op) error {
			if op.Kind == faultfs.Sync {
				time.Sleep(time.Millisecond)
			}
			return nil
		}})
		b.o.FS = b.fs
		b.reopen()
		before := b.l.Metrics().Flushes
		var group sync.WaitGroup
		const writers, each = 64, 10
		for range writers {
			group.Go(func() {
				for range each {
					if _, err := b.l.Append(t.Context(), plain(1, "x"), AppendOptions{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		// One flush covers everybody who waits, and those who come meanwhile
		// share the next: two rounds of flushes a round of appends at most.
		if n := b.l.Metrics().Flushes - before; n > 2*each+1 {
			t.Errorf("%d flushes for %d appends of %d writers", n, writers*each, writers)
		}
	})
}

// TestUnwaitedFlush: an append that nobody waits for becomes visible anyway.
func TestUnwaitedFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, Config{})
		b.o.Workers = NewWorkers(1)
		b.reopen()
		a, err := b.l.Append(t.Context(), plain(3, "x"), AppendOptions{NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		if f := b.l.Frontiers(); f.HighWatermark != 0 || f.LogEnd != 3 {
			t.Fatalf("published: %+v", f)
		}
		start := time.Now()
		if err := b.l.Wait(t.Context(), FrontierHighWatermark, a.LastOffset+1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > flushDelay {
			t.Errorf("visible after %v, due after %v", took, flushDelay)
		}
		b.o.Workers.Close()
	})
}

// TestOutcomeUnknown: a context that ends during the flush says that the
// append may be there, not that it failed; the log goes on.
func TestOutcomeUnknown(t *testing.T) {
	b := newDirectBed(t, Config{})
	release := make(chan struct{})
	var slow atomic.Bool
	b.o.FS = faultfs.New(b.fs, faultfs.Plan{Hook: func(op faultfs.Op) error {
		if op.Kind == faultfs.Sync && slow.Load() {
			<-release
		}
		return nil
	}})
	b.reopen()
	slow.Store(true)
	done := make(chan error)
	go func() {
		_, err := b.l.Append(context.Background(), plain(1, "leads the flush"), AppendOptions{})
		done <- err
	}()
	for b.l.Frontiers().LogEnd == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for b.l.Frontiers().LogEnd < 2 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := b.l.Append(ctx, plain(1, "gives up"), AppendOptions{})
	if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	slow.Store(false)
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if a := b.append(plain(1, "after")); a.BaseOffset != 2 {
		t.Errorf("next append at %d, want 2", a.BaseOffset)
	}
}

// TestAbandonedWait: an append whose caller gives up while another's flush
// runs becomes visible anyway.
func TestAbandonedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newDirectBed(t, Config{})
		release := make(chan struct{})
		var slow atomic.Bool
		b.o.FS = faultfs.New(b.fs, faultfs.Plan{Hook: func(op faultfs.Op) error {
			if op.Kind == faultfs.Sync && slow.Load() {
				<-release
			}
			return nil
		}})
		b.o.Workers = NewWorkers(1)
		b.reopen()
		slow.Store(true)
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := b.l.Append(t.Context(), plain(1, "leads the flush"), AppendOptions{}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			if _, err := b.l.Append(ctx, plain(1, "gives up"), AppendOptions{}); !errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		slow.Store(false)
		close(release)
		group.Wait()
		if err := b.l.Wait(t.Context(), FrontierHighWatermark, 2); err != nil {
			t.Error(err)
		}
		b.o.Workers.Close()
	})
}

// TestFailedFlushLatches: everyone who waits hears of a failed flush, nothing
// is acknowledged after it, a second flush that would succeed counts for
// nothing, and reading goes on below the high watermark.
func TestFailedFlushLatches(t *testing.T) {
	b := newDirectBed(t, Config{})
	fault := faultfs.New(b.fs, faultfs.Plan{})
	b.o.FS = fault
	b.reopen()
	b.append(plain(2, "safe"))
	fault.SetPlan(faultfs.FailNth(0, syscall.EIO, faultfs.Sync))
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			if _, err := b.l.Append(t.Context(), plain(1, fmt.Sprint(i)), AppendOptions{}); !errors.Is(err, ErrLatched) || !errors.Is(err, syscall.EIO) {
				t.Errorf("append %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if _, err := b.l.Append(t.Context(), plain(1, "later"), AppendOptions{}); !errors.Is(err, ErrLatched) {
		t.Errorf("later append: %v", err)
	}
	if err := b.l.Sync(t.Context()); !errors.Is(err, ErrLatched) {
		t.Errorf("sync: %v", err)
	}
	if f := b.l.Frontiers(); f.HighWatermark != 2 || f.Durable != 2 {
		t.Errorf("frontiers %+v", f)
	}
	if got := b.read(0, ReadOptions{}); len(got) != 1 {
		t.Errorf("read %v", got)
	}
}

// TestWaiters: a closed log lets nobody wait for ever, and a context ends a
// wait.
func TestWaiters(t *testing.T) {
	b := newBed(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	go func() { errs <- b.l.Wait(ctx, FrontierLastStable, 1) }()
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, f := range []Frontier{FrontierHighWatermark, FrontierLogStart} {
		go func() { errs <- b.l.Wait(context.Background(), f, 1) }()
	}
	if _, err := b.l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}
