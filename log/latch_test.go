package log

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// isLog matches operations on segment files.
func isLog(op faultfs.Op) bool { return strings.HasSuffix(op.Name, ".log") }

// TestLatch lets many writers run into one write that fails when it is half
// done. Every append that starts after it fails; what was acknowledged is a
// prefix; what comes up is that, and perhaps a whole batch more.
func TestLatch(t *testing.T) {
	m := newMachine(t, withOS(Config{SegmentBytes: 20_000}))
	m.fs.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Write}, Match: isLog, N: 1000, Effect: faultfs.Short, Err: syscall.EIO}}})
	var group sync.WaitGroup
	var mu sync.Mutex
	var acknowledged []int64
	var latched atomic.Bool
	for w := range 16 {
		group.Go(func() {
			p := batch.Producer{ID: int64(w)}
			for i := range int32(1000) {
				after := latched.Load()
				a, err := m.l.Append(t.Context(), idempotent(p, i, 1), AppendOptions{})
				if err != nil {
					latched.Store(true)
					if !errors.Is(err, ErrLatched) || !errors.Is(err, syscall.EIO) {
						t.Errorf("append: %v", err)
					}
					return
				}
				if after {
					t.Error("acknowledged after a failure")
				}
				mu.Lock()
				acknowledged = append(acknowledged, a.BaseOffset)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.Sort(acknowledged)
	for i, offset := range acknowledged {
		if offset != int64(i) {
			t.Fatalf("acknowledged %d where %d was due", offset, i)
		}
	}
	if len(acknowledged) != 1000 {
		t.Errorf("%d acknowledged", len(acknowledged))
	}
	if f := m.l.Frontiers(); f.LogEnd != 1000 || f.HighWatermark != 1000 {
		t.Errorf("%+v", f)
	}
	for name, err := range map[string]error{
		"marker":         second(m.l.AppendMarker(t.Context(), batch.Marker{}, MarkerOptions{})),
		"replica":        second(m.l.AppendReplica(t.Context(), m.placed(1000, plain(1, "x")), ReplicaOptions{})),
		"roll":           m.l.Roll(),
		"checkpoint":     second(m.l.Checkpoint(t.Context())),
		"delete records": second(m.l.DeleteRecords(t.Context(), 5)),
		"retention":      second(m.l.Retain(t.Context())),
		"truncation":     m.l.Truncate(t.Context(), 5),
		"epoch":          m.l.BeginEpoch(5),
		"sync":           m.l.Sync(t.Context()),
		"close":          second(m.l.Close(t.Context())),
	} {
		if name != "close" && !errors.Is(err, ErrLatched) && !errors.Is(err, ErrClosed) || err == nil {
			t.Errorf("%s of a latched log: %v", name, err)
		}
	}
	m.fs.SetPlan(faultfs.Plan{})
	m.kill()
	m.ok(m.open())
	if f := m.l.Frontiers(); f.LogEnd != 1000 {
		t.Errorf("comes up with %+v", f)
	}
}

func second[T any](_ T, err error) error { return err }

// TestFailedFlushIsFinal: one sync fails and the next would succeed. Whoever
// waited hears of it, nothing is acknowledged any more, readers keep what they
// had, and what was synced is there after a power loss.
func TestFailedFlushIsFinal(t *testing.T) {
	m := newMachine(t, Config{})
	m.ok(m.appendMany(5))
	before := m.l.Frontiers()
	var a [4]error
	m.fs.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Sync}, Match: isLog, Effect: faultfs.Lose}}})
	var group sync.WaitGroup
	for i := range a {
		group.Go(func() { _, a[i] = m.l.Append(t.Context(), plain(1, "late"), AppendOptions{}) })
	}
	group.Wait()
	for _, err := range a {
		if !errors.Is(err, ErrLatched) || !errors.Is(err, syscall.EIO) {
			t.Errorf("append: %v", err)
		}
	}
	if f := m.l.Frontiers(); f.HighWatermark != before.HighWatermark || f.Durable != before.Durable {
		t.Errorf("%+v, was %+v", f, before)
	}
	syncs := m.fs.Count(faultfs.Sync)
	if err := m.l.Sync(t.Context()); !errors.Is(err, ErrLatched) {
		t.Errorf("sync: %v", err)
	}
	if m.fs.Count(faultfs.Sync) != syncs {
		t.Error("a failed flush was tried again")
	}
	if told := m.told(EventLatched); len(told) != 1 {
		t.Errorf("told %+v", told)
	}
	n := m.on(m.mem.CrashClone(vfsNone))
	n.ok(n.open())
	n.compare()
}

// TestRetryAfterFailedWrite: a batch whose write failed is in no memory, so it
// is stored when it is sent again; also if the segment was rolled for it.
func TestRetryAfterFailedWrite(t *testing.T) {
	for _, rolls := range []bool{false, true} {
		m := newMachine(t, Config{SegmentBytes: 1000})
		p := batch.Producer{ID: 1}
		first, next := idempotent(p, 0, 5), idempotent(p, 5, 5)
		_, err := m.l.Append(t.Context(), first, AppendOptions{})
		m.ok(err)
		if rolls {
			for m.l.active.Size()+int64(len(next)) <= 1000 {
				_, err := m.l.Append(t.Context(), plain(1, "fill"), AppendOptions{})
				m.ok(err)
			}
		}
		end := m.l.Frontiers().LogEnd
		m.fs.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Write}, Match: isLog, Effect: faultfs.Torn}}})
		if _, err := m.l.Append(t.Context(), next, AppendOptions{}); !errors.Is(err, ErrLatched) {
			t.Fatalf("append: %v", err)
		}
		if i, _ := m.l.Producer(1); i.LastSequence != 4 {
			t.Errorf("the failed batch is remembered: %+v", i)
		}
		m.fs.SetPlan(faultfs.Plan{})
		m.kill()
		m.ok(m.open())
		for _, name := range m.names(".snapshot") {
			infos, err := producerstate.ReadSnapshot(m.read(name))
			m.ok(err)
			for _, i := range infos {
				if i.LastSequence > 4 {
					t.Errorf("%s: %+v", name, i)
				}
			}
		}
		a, err := m.l.Append(t.Context(), next, AppendOptions{})
		if err != nil || a.Duplicate || a.BaseOffset != end {
			t.Errorf("sent again: %+v, %v, want %d", a, err, end)
		}
	}
}

// TestCallersMistakes never latch, and leave no trace.
func TestCallersMistakes(t *testing.T) {
	m := newMachine(t, Config{SegmentBytes: 4000, BatchBytesMax: 2000})
	m.ok(m.append())
	good := plain(1, "good")
	bent := slices.Clone(good)
	bent[len(bent)-1] ^= 1
	p := batch.Producer{ID: 9}
	for name, err := range map[string]error{
		"too large":          second(m.l.Append(t.Context(), plain(1, strings.Repeat("x", 3000)), AppendOptions{})),
		"checksum":           second(m.l.Append(t.Context(), bent, AppendOptions{})),
		"short":              second(m.l.Append(t.Context(), good[:20], AppendOptions{})),
		"empty":              second(m.l.Append(t.Context(), nil, AppendOptions{})),
		"trailing bytes":     second(m.l.Append(t.Context(), append(slices.Clone(good), 0), AppendOptions{})),
		"no guard":           second(m.l.Append(t.Context(), transactional(p, 0, 1), AppendOptions{})),
		"replica, gap":       second(m.l.AppendReplica(t.Context(), m.placed(m.end()+1, good), ReplicaOptions{})),
		"replica, behind":    second(m.l.AppendReplica(t.Context(), m.placed(0, good), ReplicaOptions{})),
		"replica, second":    second(m.l.AppendReplica(t.Context(), slices.Concat(m.placed(m.end(), good), m.placed(m.end()+2, good)), ReplicaOptions{})),
		"replica, torn":      second(m.l.AppendReplica(t.Context(), slices.Concat(m.placed(m.end(), good), good[:30]), ReplicaOptions{})),
		"replica, too large": second(m.l.AppendReplica(t.Context(), make([]byte, 5000), ReplicaOptions{})),
		"replica, nothing":   second(m.l.AppendReplica(t.Context(), nil, ReplicaOptions{})),
		"delete":             second(m.l.DeleteRecords(t.Context(), 100)),
	} {
		if err == nil || errors.Is(err, ErrLatched) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m.l.Failed() != nil {
		t.Errorf("latched: %v", m.l.Failed())
	}
	m.compare()
	m.ok(m.appendMany(3))
	m.compare()
	m.goOn()
}
