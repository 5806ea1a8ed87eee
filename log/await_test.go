package log

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/oncelog/oncelog/batch"
)

// TestAwait: what nobody waited for becomes visible without any time passing,
// though nothing else flushes.
func TestAwait(t *testing.T) {
	eitherWay(t, Config{Durability: DurabilityFsync}, func(t *testing.T, b *bed) {
		a, err := b.l.Append(t.Context(), plain(3, "x"), AppendOptions{NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.l.Await(t.Context(), a.LastOffset+1, DurabilityDefault); err != nil {
			t.Fatal(err)
		}
		if f := b.l.Frontiers(); f.HighWatermark != 3 || f.Durable != 3 {
			t.Errorf("frontiers %+v", f)
		}
		if err := b.l.Await(t.Context(), 4, DurabilityDefault); !errors.Is(err, ErrTruncated) {
			t.Errorf("behind the log end: %v", err)
		}
	})
}

// TestAwaitStrengthened: visible at once, and durable only if that is asked for.
func TestAwaitStrengthened(t *testing.T) {
	eitherWay(t, Config{Durability: DurabilityOS}, func(t *testing.T, b *bed) {
		end := b.append(plain(1, "x")).LastOffset + 1
		for _, c := range []struct {
			level Durability
			want  int64
		}{{DurabilityDefault, 0}, {DurabilityFsync, end}} {
			if err := b.l.Await(t.Context(), end, c.level); err != nil {
				t.Fatal(err)
			}
			if f := b.l.Frontiers(); f.HighWatermark != end || f.Durable != c.want {
				t.Errorf("level %s: frontiers %+v, want durable %d", c.level, f, c.want)
			}
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	b := newDirectBed(t, Config{Durability: DurabilityFsync})
	if _, err := b.l.Append(t.Context(), plain(1, "x"), AppendOptions{NoWait: true}); err != nil {
		t.Fatal(err)
	}
	b.l.flushMu.Lock() // somebody is at it, for ever
	defer b.l.flushMu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.l.Await(ctx, 1, DurabilityDefault); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%v, want that it is not known", err)
	}
}

// TestMarkerTries: a marker that is told to does not wait while appends are kept
// out, and one that is not does.
func TestMarkerTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, Config{})
		m := batch.Marker{Producer: batch.Producer{ID: 1}, Timestamp: b.now.UnixMilli()}
		b.l.Freeze()
		if _, err := b.l.AppendMarker(t.Context(), m, MarkerOptions{Try: true}); !errors.Is(err, ErrBusy) {
			t.Errorf("%v, want that it is busy", err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := b.l.AppendMarker(t.Context(), m, MarkerOptions{})
			done <- err
		}()
		synctest.Wait()
		if end := b.l.Frontiers().LogEnd; end != 0 {
			t.Errorf("the log ends at %d meanwhile", end)
		}
		b.l.Thaw()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if a, err := b.l.AppendMarker(t.Context(), m, MarkerOptions{Try: true}); err != nil || a.BaseOffset != 1 {
			t.Errorf("then %+v, %v", a, err)
		}
	})
}
