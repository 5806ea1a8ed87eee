package log

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

var vfsNone = vfs.CrashOptions{}

// fill appends plain batches until the disk is full, with the work that workers
// do in between.
func (m *machine) fill(maintained bool) (appended int) {
	m.t.Helper()
	for {
		b := m.data(-1, 2, false)
		stored := batch.Batch(append([]byte(nil), b...))
		stored.Stamp(m.end(), m.epoch)
		a, err := m.l.Append(m.t.Context(), b, AppendOptions{})
		if errors.Is(err, ErrNoSpace) {
			return appended
		}
		m.ok(err)
		if a.BaseOffset != m.end() {
			m.t.Errorf("appended at %d, want %d", a.BaseOffset, m.end())
		}
		m.batches = append(m.batches, stored)
		m.must, m.mustKill = len(m.batches), len(m.batches)
		if maintained && appended%5 == 0 {
			if err := m.maintain(); err != nil && !errors.Is(err, ErrNoSpace) {
				m.t.Fatal(err)
			}
		}
		if appended++; appended > 1<<16 {
			m.t.Fatal("the disk does not get full")
		}
	}
}

// TestFullDisk fills the disk: appends are refused with a typed error and one
// event a shortage, nothing latches, reads and markers go on, deleting records
// makes room, and appends resume by themselves.
func TestFullDisk(t *testing.T) {
	for _, segmentBytes := range []int64{3000, 20_000, 1 << 20} {
		for _, maintained := range []bool{true, false} {
			m := newMachine(t, Config{SegmentBytes: segmentBytes, IndexIntervalBytes: 500})
			m.ok(m.appendMany(8)) // leaves a transaction of producer 22 open
			open := batch.Producer{ID: 22}
			if len(m.l.Ongoing()) != 2 {
				t.Fatalf("open: %+v", m.l.Ongoing())
			}
			m.mem.SetCapacity(m.mem.Used() + 300<<10)
			for shortage := 1; shortage <= 3; shortage++ {
				for range 3 {
					m.fill(maintained)
				}
				if m.l.Failed() != nil {
					t.Fatalf("a full disk latched the log: %v", m.l.Failed())
				}
				if n := len(m.told(EventNoSpace)); n != shortage && !maintained {
					t.Errorf("%d events for %d shortages", n, shortage)
				}
				if m.l.Metrics().NoSpace < 3 {
					t.Errorf("%d refusals counted", m.l.Metrics().NoSpace)
				}
				m.compare()
				// Transactions end.
				e := batch.Marker{Producer: open, CoordinatorEpoch: 1, Timestamp: epoch2023}
				if len(m.l.Ongoing()) > 0 {
					for _, id := range []int64{22, 21} {
						e.Producer.ID = id
						_, err := m.l.AppendMarker(t.Context(), e, MarkerOptions{})
						m.ok(err)
						b := batch.Batch(batch.AppendMarker(nil, e))
						b.Stamp(m.end(), m.epoch)
						m.batches = append(m.batches, b)
					}
					if f := m.l.Frontiers(); f.LastStable != f.LogEnd {
						t.Errorf("after the markers: %+v", f)
					}
				}
				m.compare()
				if _, err := m.l.Checkpoint(t.Context()); err != nil && !errors.Is(err, ErrNoSpace) {
					t.Errorf("checkpoint: %v", err)
				}
				if segmentBytes < 1<<20 && maintained {
					// The points are recorded elsewhere.
					m.l.o.Checkpoints = &recorder{}
					m.start[1] = m.end()
					start, err := m.l.DeleteRecords(t.Context(), m.end()-20)
					m.ok(err)
					m.start = [2]int64{start, start}
				} else {
					m.mem.SetCapacity(m.mem.Used() + 100<<10)
				}
				if n := m.fill(maintained); n == 0 {
					t.Error("appends do not resume")
				}
				m.compare()
			}
			m.mem.SetCapacity(m.mem.Used() + 1<<20)
			m.l.o.Checkpoints = m
			m.ok(m.appendMany(3))
			m.compare()
			m.ok(m.close())
			m.sound(true)
			m.ok(m.open())
			m.compare()
			if t.Failed() {
				t.Fatalf("segments of %d bytes, maintained %v", segmentBytes, maintained)
			}
		}
	}
}

// TestFullDiskSurvives crashes on a full disk: recovery needs no more room than
// there is, or says so and can be tried again.
func TestFullDiskSurvives(t *testing.T) {
	for capacity := int64(64 << 10); capacity < 128<<10; capacity += 4 << 10 {
		m := newMachine(t, Config{SegmentBytes: 9000, IndexIntervalBytes: 500})
		m.ok(m.appendMany(5))
		m.mem.SetCapacity(m.mem.Used() + capacity)
		m.fill(false)
		m.kill()
		if err := m.open(); err != nil {
			if !errors.Is(err, ErrNoSpace) && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("capacity %d: %v", capacity, err)
			}
			m.mem.SetCapacity(m.mem.Used() + 1<<20)
			m.ok(m.open())
		}
		m.compare()
		m.mem.SetCapacity(m.mem.Used() + 1<<20)
		m.goOn()
	}
}

// TestMarkerIntoFullSegment: where there is no room for a new segment a marker
// makes the old one larger than it should be, and once there is room the log
// rolls.
func TestMarkerIntoFullSegment(t *testing.T) {
	one := len(transactional(batch.Producer{ID: 1}, 0, 1))
	m := newMachine(t, Config{SegmentBytes: int64(3*one + 20)})
	for i := range int64(3) {
		p := batch.Producer{ID: i}
		g, _, err := m.l.Guard(p, 0, false)
		m.ok(err)
		_, err = m.l.Append(t.Context(), transactional(p, 0, 1), AppendOptions{Guard: g})
		m.ok(err)
	}
	m.mem.SetCapacity(m.mem.Used())
	if _, err := m.l.Append(t.Context(), plain(1, "late"), AppendOptions{}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("append: %v", err)
	}
	for i := range int64(3) {
		_, err := m.l.AppendMarker(t.Context(), batch.Marker{Producer: batch.Producer{ID: i}}, MarkerOptions{})
		m.ok(err)
	}
	if got := bases(m.l); len(got) != 1 {
		t.Errorf("segments %v", got)
	}
	m.mem.SetCapacity(m.mem.Used() + 1<<20)
	_, err := m.l.Append(t.Context(), plain(1, "late"), AppendOptions{})
	m.ok(err)
	if got := bases(m.l); len(got) != 2 || got[1] != 6 {
		t.Errorf("segments %v", got)
	}
	m.kill()
	m.ok(m.open())
	if f := m.l.Frontiers(); f != (Frontiers{0, 7, 7, 7, 7}) {
		t.Errorf("%+v", f)
	}
}

// TestReserveAfterOpening: a transaction that was open when the log was closed
// can end on a disk that filled up since.
func TestReserveAfterOpening(t *testing.T) {
	m := newMachine(t, Config{SegmentBytes: 1 << 20})
	m.ok(m.appendMany(8))
	m.ok(m.close())
	m.ok(m.open())
	m.mem.SetCapacity(m.mem.Used())
	m.fill(false)
	for _, id := range []int64{22, 21} {
		if _, err := m.l.AppendMarker(t.Context(), batch.Marker{Producer: batch.Producer{ID: id}}, MarkerOptions{}); err != nil {
			t.Errorf("marker: %v", err)
		}
	}
}

// TestSyncOutOfSpace: a flush that fails for want of room is a failed flush.
func TestSyncOutOfSpace(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(5))
	m.fs.SetPlan(faultfs.FailNth(0, syscall.ENOSPC, faultfs.Sync))
	if err := m.append(); !errors.Is(err, ErrLatched) {
		t.Errorf("append: %v", err)
	}
	if _, err := m.l.Append(t.Context(), plain(1, fmt.Sprint("late")), AppendOptions{}); !errors.Is(err, ErrLatched) {
		t.Errorf("next append: %v", err)
	}
}
