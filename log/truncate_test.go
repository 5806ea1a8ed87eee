package log

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// follower is a log whose high watermark is moved from outside: 0.
func follower(t *testing.T, c Config, n int) *machine {
	m := newMachine(t, c)
	m.o.Replicated = true
	m.ok(m.close())
	m.ok(m.open())
	m.ok(m.replicate(n))
	return m
}

// TestTruncateEverywhere truncates at every batch, appends, and reopens: state,
// indexes and files are those of the batches that are left.
func TestTruncateEverywhere(t *testing.T) {
	for n := range 38 {
		for _, how := range []string{"close", "kill", "go on"} {
			m := follower(t, small, 37)
			if n%2 == 0 {
				m.ok(m.checkpoint())
			}
			m.ok(m.truncate(n))
			m.l.AdvanceHighWatermark(m.end())
			m.compare()
			if n%3 == 0 {
				m.ok(m.replicate(9))
			}
			switch how {
			case "close":
				m.ok(m.close())
				m.sound(true)
				m.ok(m.open())
			case "kill":
				m.kill()
				m.ok(m.open())
				m.sound(false)
			}
			m.compare()
			m.ok(m.replicate(5))
			m.l.AdvanceHighWatermark(m.end())
			m.compare()
			m.sound(false)
			if t.Failed() {
				t.Fatalf("truncated to batch %d, %s", n, how)
			}
		}
	}
}

// TestTruncateRefused: inside a batch, below what readers saw, below the log
// start; behind the end it does nothing.
func TestTruncateRefused(t *testing.T) {
	m := follower(t, small, 30)
	m.l.AdvanceHighWatermark(m.batches[9].NextOffset())
	m.ok(m.deleteRecords(m.batches[3].BaseOffset()))
	inside := 12
	for m.batches[inside].BaseOffset() == m.batches[inside].LastOffset() {
		inside++
	}
	offsetError := (*OffsetError)(nil)
	if err := m.l.Truncate(t.Context(), m.batches[inside].BaseOffset()+1); !errors.Is(err, ErrNotBatchBoundary) {
		t.Errorf("inside a batch: %v", err)
	}
	if err := m.l.Truncate(t.Context(), m.batches[8].BaseOffset()); !errors.Is(err, ErrBelowHighWatermark) {
		t.Errorf("below the high watermark: %v", err)
	}
	if err := m.l.Truncate(t.Context(), m.batches[1].BaseOffset()); !errors.As(err, &offsetError) {
		t.Errorf("below the log start: %v", err)
	}
	for _, beyond := range []int64{m.end(), m.end() + 100} {
		m.ok(m.l.Truncate(t.Context(), beyond))
	}
	m.compare()
	if m.l.Failed() != nil {
		t.Error("a caller's mistake latched the log")
	}
}

// TestTruncateToSegmentBase leaves an empty active segment, to which appends
// go on over many rolls.
func TestTruncateToSegmentBase(t *testing.T) {
	m := follower(t, small, 60)
	segments := bases(m.l)
	base := segments[2]
	n := 0
	for m.batches[n].BaseOffset() != base {
		n++
	}
	m.ok(m.truncate(n))
	if got := bases(m.l); !slices.Equal(got, segments[:3]) {
		t.Errorf("segments %v, want %v", got, segments[:3])
	}
	m.ok(m.replicate(200))
	if got := bases(m.l); !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("segments %v", got)
	}
	m.compare()
	m.goOn()
}

// TestTruncateTransactions: the last stable offset is right at once, at each
// step back through open and ended transactions.
func TestTruncateTransactions(t *testing.T) {
	m := follower(t, small, 30)
	for n := 29; n >= 0; n-- {
		m.ok(m.truncate(n))
		var want fold
		for _, b := range m.batches {
			want.apply(b)
		}
		f := m.l.Frontiers()
		if f.LogEnd != m.end() || f.LastStable > f.HighWatermark {
			t.Errorf("%+v at %d", f, m.end())
		}
		ongoing := m.l.Ongoing()
		if first := want.firstOpen(); len(ongoing) == 0 && first < m.end() || len(ongoing) > 0 && ongoing[0].First != first {
			t.Errorf("after %d batches open %+v, want from %d", n, ongoing, first)
		}
	}
	m.ok(m.replicate(30))
	m.l.AdvanceHighWatermark(m.end())
	m.compare()
}

// TestTruncateEpochs: epochs that began in what is cut never were.
func TestTruncateEpochs(t *testing.T) {
	m := follower(t, small, 10)
	m.epoch = 3
	m.ok(m.replicate(6))
	m.epoch = 5
	m.ok(m.replicate(6))
	at := func(n int) int64 { return nextOf(m.batches[:n]) }
	want := []checkpoint.EpochEntry{{Epoch: 0, Start: 0}, {Epoch: 3, Start: at(10)}, {Epoch: 5, Start: at(16)}}
	for _, c := range []struct{ n, epochs int }{{20, 3}, {17, 3}, {16, 2}, {11, 2}, {10, 1}, {1, 1}, {0, 0}} {
		m.ok(m.truncate(c.n))
		if got := m.l.Epochs(); !slices.Equal(got, want[:c.epochs]) {
			t.Errorf("truncated to %d: epochs %v, want %v", c.n, got, want[:c.epochs])
		}
		m.kill()
		m.ok(m.open())
		if got := m.l.Epochs(); !slices.Equal(got, want[:c.epochs]) {
			t.Errorf("truncated to %d and opened: epochs %v, want %v", c.n, got, want[:c.epochs])
		}
	}
}

// TestTruncateHoldsTheHighWatermark: a leader that moves the high watermark
// while a truncation begins does not move it behind the new end.
func TestTruncateHoldsTheHighWatermark(t *testing.T) {
	for _, room := range []error{nil, ErrNoSpace} {
		m := follower(t, small, 30)
		at, end := m.batches[20].BaseOffset(), m.end()
		m.l.AdvanceHighWatermark(m.batches[10].BaseOffset())
		m.l.o.Checkpoints = points(func() error {
			m.l.AdvanceHighWatermark(end)
			if f := m.l.Frontiers(); f.HighWatermark > at || f.LastStable > f.HighWatermark {
				t.Errorf("meanwhile: %+v", f)
			}
			return room
		})
		if err := m.l.Truncate(t.Context(), at); !errors.Is(err, room) {
			t.Fatal(err)
		}
		want := Frontiers{HighWatermark: at, LogEnd: at}
		if room != nil { // nothing was cut
			want.LogEnd = end
		}
		if f := m.l.Frontiers(); f.HighWatermark != want.HighWatermark || f.LogEnd != want.LogEnd {
			t.Errorf("%v: %+v, want %+v", room, f, want)
		}
		m.l.AdvanceHighWatermark(end)
		if f := m.l.Frontiers(); f.HighWatermark != f.LogEnd {
			t.Errorf("%v: held for ever: %+v", room, f)
		}
	}
}

// points are Checkpoints that do something while they record.
type points func() error

func (p points) Record(context.Context, topic.Partition, Points) error { return p() }

// TestTruncateKeepsTheLastStableOffset: while the marker of a transaction is
// cut, and with it everything is made anew that knew of it, readers do not get
// past the beginning of the transaction.
func TestTruncateKeepsTheLastStableOffset(t *testing.T) {
	m := follower(t, Config{}, 0)
	p := batch.Producer{ID: 7, Epoch: 1}
	history := []batch.Batch{
		plain(1, "x"),          // 0
		transactional(p, 0, 2), // 1, 2
		plain(3, "x"),          // 3–5
		batch.AppendMarker(nil, batch.Marker{Producer: p, Timestamp: epoch2023}), // 6
	}
	for _, v := range history {
		v.Stamp(m.l.Frontiers().LogEnd, 0)
		_, err := m.l.AppendReplica(t.Context(), v, ReplicaOptions{})
		m.ok(err)
	}
	m.ok(m.checkpoint())
	looked := 0
	m.fs.SetPlan(faultfs.Plan{Hook: func(faultfs.Op) error {
		m.l.AdvanceHighWatermark(6)
		looked++
		if f := m.l.Frontiers(); f.LastStable > 1 {
			t.Errorf("last stable %d, a transaction is open from 1", f.LastStable)
		}
		return nil
	}})
	m.ok(m.l.Truncate(t.Context(), 6))
	m.fs.SetPlan(faultfs.Plan{})
	if f := m.l.Frontiers(); looked == 0 || f.LastStable != 1 || f.HighWatermark != 6 {
		t.Errorf("looked %d times; %+v", looked, f)
	}
}

// TestTruncateLeavesNoWaiter: an append that came for a flush while a truncation
// held the lock for it is flushed afterwards.
func TestTruncateLeavesNoWaiter(t *testing.T) {
	b := newDirectBed(t, Config{})
	b.l.flushMu.Lock() // as a truncation does
	done := make(chan error, 1)
	go func() {
		_, err := b.l.Append(context.Background(), plain(1, "x"), AppendOptions{})
		done <- err
	}()
	for b.l.waitingCount.Load() == 0 {
		runtime.Gosched()
	}
	b.l.flushMu.Unlock()
	if err := b.l.Truncate(t.Context(), math.MaxInt64); err != nil { // cuts nothing
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("waits for ever")
	}
}
