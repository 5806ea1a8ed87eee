package log

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// TestEventsAreToldWithoutLocks lets whoever is told of something ask the log,
// with what takes each lock, and let it work.
func TestEventsAreToldWithoutLocks(t *testing.T) {
	m := newMachine(t, Config{SegmentBytes: 1400, IndexIntervalBytes: 200, Delete: true, RetentionBytes: 4000, ProducerExpiration: time.Hour})
	m.ok(m.appendMany(30))
	m.ok(m.checkpoint())
	m.ok(m.appendMany(2))
	m.kill()
	first := m.names(".index")[0]
	m.remove(first) // of a sealed segment: told when it is first read
	last := m.names(".log")[len(m.names(".log"))-1]
	m.write(last, append(m.read(last), "torn"...))

	var l *Log
	asked := map[EventKind]bool{}
	m.o.Events = func(e Event) {
		if asked[e.Kind] {
			return
		}
		asked[e.Kind] = true
		l.Points()
		l.Producers()
		l.Frontiers()
		if err := l.Sync(m.t.Context()); err == nil {
			if _, err = l.Checkpoint(m.t.Context()); err != nil && e.Kind != EventNoSpace {
				t.Errorf("%s: %v", e.Kind, err)
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		m.o.Points, err = m.points()
		m.ok(err)
		l, err = Load(m.o)
		m.ok(err)
		m.l = l
		m.makeEvents()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("whoever was told waits for a lock that is held meanwhile")
	}
	for _, kind := range []EventKind{EventTailCut, EventRecovered, EventIndexRebuilt, EventSegmentsDeleted, EventProducersExpired, EventNoSpace, EventLatched} {
		if !asked[kind] {
			t.Errorf("%s was not told", kind)
		}
	}
}

// makeEvents recovers the log and lets happen to it what is told.
func (m *machine) makeEvents() {
	l := m.l
	_, err := l.Recover(m.t.Context())
	m.ok(err)
	_, err = l.Retain(m.t.Context())
	m.ok(err)
	m.now = m.now.Add(2 * time.Hour)
	l.ExpireProducers()
	m.fs.SetPlan(faultfs.FailFrom(0, syscall.ENOSPC, faultfs.Allocate, faultfs.Write))
	for err = nil; err == nil; { // what was allocated is filled up first
		_, err = l.Append(m.t.Context(), plain(30, "no room for this"), AppendOptions{})
	}
	if !errors.Is(err, ErrNoSpace) {
		m.t.Errorf("append: %v", err)
	}
	m.fs.SetPlan(faultfs.FailFrom(0, syscall.EIO))
	if _, err = l.Checkpoint(context.Background()); err == nil {
		_, err = l.Append(m.t.Context(), plain(1, "x"), AppendOptions{})
	}
	if !errors.Is(err, ErrLatched) {
		m.t.Errorf("latched: %v", err)
	}
	m.fs.SetPlan(faultfs.Plan{})
	m.ok(l.Abandon())
}

// TestEventsKeepTheirOrder: what happens in one go is told in the order in
// which it happened, and before the deed returns.
func TestEventsKeepTheirOrder(t *testing.T) {
	m := newMachine(t, small)
	m.killed(t, 12, 29, true)
	m.ok(m.open())
	var kinds []EventKind
	for _, e := range m.events {
		kinds = append(kinds, e.Kind)
	}
	if want := []EventKind{EventTailCut, EventRecovered}; !slices.Equal(kinds, want) {
		t.Errorf("told %v, want %v", kinds, want)
	}
}
