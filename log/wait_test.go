package log

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCancelTwice: a subscription that is ended again takes nobody else's place.
func TestCancelTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, Config{})
		cancel := b.l.Subscribe(FrontierHighWatermark, 1, make(chan struct{}, 1))
		cancel()
		cancel()
		done := make(chan error, 1)
		go func() { done <- b.l.Wait(t.Context(), FrontierHighWatermark, 1) }()
		synctest.Wait()
		b.append(plain(1, "x"))
		synctest.Wait()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("not woken at %+v", b.l.Frontiers())
			_ = b.l.Abandon()
			<-done
		}
	})
}

// TestAbandonWithAFlushDue: an embedding program is not told of an I/O error
// where there was none.
func TestAbandonWithAFlushDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, Config{})
		if _, err := b.l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := NewWorkers(1)
		defer w.Close()
		var latched atomic.Int32
		b.o.Workers, b.o.Events = w, func(e Event) {
			if e.Kind == EventLatched {
				latched.Add(1)
			}
		}
		b.open()
		if _, err := b.l.Append(t.Context(), plain(1, "x"), AppendOptions{NoWait: true}); err != nil {
			t.Fatal(err)
		}
		if err := b.l.Abandon(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * flushDelay)
		synctest.Wait()
		if latched.Load() > 0 || b.l.Failed() != nil {
			t.Errorf("latched: %v", b.l.Failed())
		}
		if err := b.l.writeBack(true); err != ErrClosed {
			t.Errorf("write back: %v", err)
		}
	})
}

// TestStrengthenedWithoutWaiting: an append that asks for more than its topic
// does gets its flush, though nobody waits for it yet.
func TestStrengthenedWithoutWaiting(t *testing.T) {
	for _, backed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newDirectBed(t, Config{Durability: DurabilityOS})
			if backed {
				b.back()
			} else {
				w := NewWorkers(1)
				defer w.Close()
				b.o.Workers = w
				b.reopen()
			}
			b.append(plain(1, "x"))
			a, err := b.l.Append(t.Context(), plain(1, "x"), AppendOptions{NoWait: true, Durability: DurabilityFsync})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * flushDelay)
			synctest.Wait()
			if f := b.l.Frontiers(); f.Durable <= a.LastOffset {
				t.Errorf("backed %v: %+v, appended at %d", backed, f, a.LastOffset)
				_ = b.l.Abandon()
			}
			if err := b.l.Wait(t.Context(), FrontierDurable, a.LastOffset+1); err != nil && !t.Failed() {
				t.Error(err)
			}
		})
	}
}
