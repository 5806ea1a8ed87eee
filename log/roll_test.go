package log

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// filled is a batch of one record whose value has so many bytes.
func filled(n int) batch.Batch { return plain(1, strings.Repeat("x", n)) }

// TestRollBySize: a segment never exceeds its size, takes what fits exactly,
// and an empty one takes anything that it could ever hold.
func TestRollBySize(t *testing.T) {
	one := int64(len(filled(100)))
	for _, c := range []struct {
		segmentBytes int64
		want         int64 // batches a segment
	}{{3 * one, 3}, {3*one - 1, 2}, {3*one + 1, 3}, {one, 1}} {
		b := newBed(t, Config{SegmentBytes: c.segmentBytes})
		for range 10 {
			b.append(filled(100))
		}
		for s := range b.l.Segments() {
			if n := s.Bytes / one; n != c.want && s.Sealed || s.Base%c.want != 0 {
				t.Errorf("segments of %d bytes: %d batches from %d, want %d", c.segmentBytes, n, s.Base, c.want)
			}
		}
		if _, err := b.l.Append(t.Context(), filled(int(c.segmentBytes)), AppendOptions{}); !errors.Is(err, ErrBatchTooLarge) {
			t.Errorf("a batch larger than a segment: %v", err)
		}
		b.append(filled(100))
	}
}

// TestRollByAge: the age of a segment is counted in record time, from the first
// batch's greatest timestamp, and by the clock where records have none.
func TestRollByAge(t *testing.T) {
	stamped := func(ms int64) batch.Batch { return at(ms) }
	for _, c := range []struct {
		name  string
		times []int64 // of records, ms
		clock []time.Duration
		want  []int64 // bases
	}{
		{"record time", []int64{5000, 6000, 6001, 7001, 9000}, nil, []int64{0, 2, 4}},
		{"older records do not count", []int64{5000, 1000, 2000, 6001}, nil, []int64{0, 3}},
		{"not by the clock", []int64{5000, 5000, 5000}, []time.Duration{time.Hour, time.Hour, time.Hour}, []int64{0}},
		{"by the clock", []int64{-1, -1, -1}, []time.Duration{0, time.Second, time.Millisecond}, []int64{0, 2}},
	} {
		b := newBed(t, Config{SegmentAge: time.Second})
		for i, ms := range c.times {
			if c.clock != nil {
				b.now = b.now.Add(c.clock[i])
			}
			b.append(stamped(ms))
		}
		var bases []int64
		for s := range b.l.Segments() {
			bases = append(bases, s.Base)
		}
		if !slices.Equal(bases, c.want) {
			t.Errorf("%s: segments at %v, want %v", c.name, bases, c.want)
		}
	}
}

// TestRollByIndex: a full index ends a segment; the time index keeps its last
// entry for the end.
func TestRollByIndex(t *testing.T) {
	for _, c := range []struct{ bytes, entries int }{{8 * 5, 2}, {8 * 9, 5}, {12 * 20, 19}} {
		b := newBed(t, Config{IndexBytesMax: c.bytes, IndexIntervalBytes: 1})
		for i := range 50 {
			b.append(at(epoch2023 + int64(i)))
		}
		if err := b.l.maintain(); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.l.view.Load().segments {
			h, err := s.Acquire()
			if err != nil {
				t.Fatal(err)
			}
			n, times := h.Offsets.Len(), h.Times.Len()
			if !s.Unsealed() && n != c.entries || times*12 > c.bytes {
				t.Errorf("index of %d bytes: %d entries, %d of time", c.bytes, n, times)
			}
			if err := h.Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestEmptyActiveSegment: one that has no index, an empty or an allocated one
// is taken as it is, and the log never makes a second of the same base.
func TestEmptyActiveSegment(t *testing.T) {
	for _, index := range [][]byte{nil, {}, make([]byte, 800)} {
		m := newMachine(t, small)
		m.ok(m.appendMany(20))
		m.ok(m.l.Roll())
		m.ok(m.l.Roll())
		m.ok(m.close())
		base := fmt.Sprintf("%020d", m.end())
		for _, ext := range []string{".index", ".timeindex"} {
			if index == nil {
				m.remove(base + ext)
			} else {
				m.write(base+ext, index)
			}
		}
		m.ok(m.open())
		n := len(m.names(".log"))
		m.ok(m.append())
		if got := len(m.names(".log")); got != n {
			t.Errorf("%d segments, then %d", n, got)
		}
		m.compare()
		m.goOn()
	}
}

// TestSnapshots: the newest two are kept, none is ahead of the synced log, and
// each says what a replay up to it says.
func TestSnapshots(t *testing.T) {
	m := newMachine(t, withOS(small))
	synced := int64(0)
	m.fs.SetPlan(faultfs.Plan{Hook: func(op faultfs.Op) error {
		if n, ok := segment.ParseName(strings.TrimSuffix(op.To, ".tmp")[max(len(op.To)-29, 0):]); op.Kind == faultfs.Rename && ok && n.Kind == segment.KindSnapshot {
			if n.Offset > m.l.Frontiers().Durable {
				t.Errorf("snapshot at %d, the log is durable to %d", n.Offset, m.l.Frontiers().Durable)
			}
			synced++
		}
		return nil
	}})
	for range 30 {
		m.ok(m.appendMany(4))
		m.ok(m.maintain())
		names := m.names(".snapshot")
		if len(names) > 3 {
			t.Errorf("snapshots %v", names)
		}
		for _, name := range names {
			n, _ := segment.ParseName(name)
			table, err := producerstate.LoadSnapshot(producerstate.Options{}, m.read(name), 0, 0)
			m.ok(err)
			var want fold
			for _, b := range m.batches {
				if b.LastOffset() < n.Offset {
					want.apply(b)
				}
			}
			have := &machine{l: &Log{table: table}}
			if got := have.producers(); !slices.Equal(got, want.sorted()) {
				t.Errorf("%s says\n%+v, want\n%+v", name, got, want.sorted())
			}
		}
	}
	if synced < 5 {
		t.Errorf("%d snapshots", synced)
	}
	m.ok(m.close())
	if names := m.names(".snapshot"); len(names) != 2 || names[1] != fmt.Sprintf("%020d.snapshot", m.end()) {
		t.Errorf("after closing: %v", names)
	}
}

// TestFailedRollLatches: a file of the new segment may be there, so appends
// must not go on behind its base in the old one.
func TestFailedRollLatches(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(30))
	active := m.l.active.Path(segment.KindLog)
	m.fs.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Allocate, faultfs.Remove}, Forever: true,
		Match: func(op faultfs.Op) bool { return op.Name != active }}}})
	var err error
	for err == nil {
		err = m.append()
	}
	if !errors.Is(err, ErrLatched) || !errors.Is(err, syscall.EIO) {
		t.Errorf("append: %v", err)
	}
	m.fs.SetPlan(faultfs.Plan{})
	m.kill()
	m.ok(m.open())
	m.follow(true)
	m.compare()
	m.goOn()
}

// TestPreparedSegment: the next segment is made ahead; a crash or a clean close
// leaves nothing of it.
func TestPreparedSegment(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(30))
	m.ok(m.maintain())
	prepared := func() bool {
		_, err := m.mem.Stat("/d/" + segment.PreparedName)
		return !errors.Is(err, os.ErrNotExist)
	}
	if !prepared() {
		t.Error("no segment is prepared")
	}
	m.kill()
	m.ok(m.open())
	if prepared() {
		t.Error("recovery left a prepared segment")
	}
	m.ok(m.appendMany(30))
	m.ok(m.maintain())
	m.compare()
	m.ok(m.close())
	if prepared() {
		t.Error("a clean close left a prepared segment")
	}
}

// TestSegmentsWaitingToBeSealed: however quickly segments are rolled, only so
// many wait to be sealed.
func TestSegmentsWaitingToBeSealed(t *testing.T) {
	c := Config{SegmentBytes: 1000, IndexIntervalBytes: 100}
	eitherWay(t, c, func(t *testing.T, b *bed) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for i := range 100 {
					if _, err := b.l.Append(context.Background(), plain(2, "fills a segment soon"), AppendOptions{NoWait: i%5 > 0}); err != nil {
						t.Error(err)
						return
					}
					if n := b.l.unsealed.Load(); n > sealingMax {
						t.Errorf("%d segments wait", n)
					}
				}
			})
		}
		group.Wait()
		for range 2 * sealingMax {
			b.append(plain(2, "x"))
			if err := b.l.Roll(); err != nil {
				t.Fatal(err)
			}
			if n := b.l.unsealed.Load(); n > sealingMax {
				t.Errorf("%d segments wait", n)
			}
		}
		if n := len(bases(b.l)); n < 4*sealingMax {
			t.Errorf("only %d segments", n)
		}
		b.reopen()
		if got := len(b.read(0, ReadOptions{})); got != 400+2*sealingMax {
			t.Errorf("%d batches", got)
		}
	})
}

// TestSealingOnAFullDisk: an append that finds too many segments to seal, and no
// room to, is refused; the transaction still ends, and appends go on once there
// is room.
func TestSealingOnAFullDisk(t *testing.T) {
	m := newMachine(t, Config{SegmentBytes: 1000, IndexIntervalBytes: 100})
	p := batch.Producer{ID: 7, Epoch: 1}
	g, _, err := m.l.Guard(p, 0, false)
	m.ok(err)
	_, err = m.l.Append(t.Context(), transactional(p, 0, 1), AppendOptions{Guard: g})
	m.ok(err)
	m.fs.SetPlan(faultfs.Plan{Hook: func(op faultfs.Op) error {
		if strings.Contains(op.Name, "index") {
			return syscall.ENOSPC
		}
		return nil
	}})
	n := 0
	for err == nil {
		_, err = m.l.Append(t.Context(), plain(2, "fills a segment soon"), AppendOptions{})
		n++
	}
	if !errors.Is(err, ErrNoSpace) || m.l.Failed() != nil {
		t.Fatalf("append %d: %v, %v", n, err, m.l.Failed())
	}
	if waits := m.l.unsealed.Load(); waits != sealingMax {
		t.Errorf("%d segments wait", waits)
	}
	_, err = m.l.AppendMarker(t.Context(), batch.Marker{Producer: p, Commit: true, Timestamp: epoch2023}, MarkerOptions{})
	m.ok(err)
	m.fs.SetPlan(faultfs.Plan{})
	_, err = m.l.Append(t.Context(), plain(2, "there is room again"), AppendOptions{})
	m.ok(err)
	if waits := m.l.unsealed.Load(); waits > 1 {
		t.Errorf("%d segments wait", waits)
	}
}

// TestSpareSnapshots: beside the newest two the one stays that leads to what is
// needed, and none of those that lead nowhere.
func TestSpareSnapshots(t *testing.T) {
	for _, c := range []struct {
		name      string
		snapshots []int64
		head      int64
		needed    int64
		spare     []int64
	}{
		{"few", []int64{10, 20}, 0, 5, nil},
		{"the newest at or below", []int64{10, 20, 30, 40, 50}, 0, 25, []int64{10, 30}},
		{"just at", []int64{10, 20, 30, 40, 50}, 0, 30, []int64{10, 20}},
		{"among the newest two", []int64{10, 20, 30, 40, 50}, 0, 45, []int64{10, 20, 30}},
		{"none below, all from the beginning is there", []int64{10, 20, 30, 40, 50}, 0, 5, []int64{10, 20, 30}},
		{"none below: the oldest behind the head", []int64{10, 20, 30, 40, 50}, 10, 5, []int64{20, 30}},
		{"before the head", []int64{10, 20, 30, 40, 50}, 15, 12, []int64{10, 30}},
		{"before the head, and needed", []int64{10, 20, 30, 40, 50}, 25, 22, []int64{10, 20}},
		{"all before the head", []int64{10, 20, 30}, 100, 50, []int64{10}},
		{"none", nil, 100, 50, nil},
	} {
		if got := spareOf(c.snapshots, c.head, c.needed); !slices.Equal(got, c.spare) {
			t.Errorf("%s: %v can go, want %v", c.name, got, c.spare)
		}
	}
}

// TestStateBehindTheHead: records are deleted up to the high watermark, which
// moves on while that is recorded; then many segments come. What only the head
// of the log told of a producer is still known after a truncation.
func TestStateBehindTheHead(t *testing.T) {
	b := newBed(t, Config{SegmentBytes: 1400, Delete: true})
	b.o.Replicated = true
	hook := func() {}
	b.o.Checkpoints = points(func() error { hook(); return nil })
	b.reopen()
	add := func(v batch.Batch) { b.replicate(v, ReplicaOptions{}) }
	settle := func() { b.l.AdvanceHighWatermark(b.l.Frontiers().LogEnd) }
	add(idempotent(batch.Producer{ID: 99, Epoch: 3}, 0, 1))
	for range 20 {
		add(at400(epoch2023))
	}
	settle()
	hook = func() {
		hook = func() {}
		add(at400(epoch2023))
		settle()
	}
	if _, err := b.l.DeleteRecords(t.Context(), -1); err != nil {
		t.Fatal(err)
	}
	highWatermark := b.l.Frontiers().HighWatermark
	for range 12 {
		add(at400(epoch2023))
		if err := b.l.maintain(); err != nil {
			t.Fatal(err)
		}
	}
	want, known := b.l.Producer(99)
	if !known || bases(b.l)[0] == 0 {
		t.Fatalf("producer known %v, segments %v", known, bases(b.l))
	}
	if err := b.l.Truncate(t.Context(), highWatermark); err != nil {
		t.Fatal(err)
	}
	if got, known := b.l.Producer(99); !known || got != want {
		t.Errorf("after the truncation: %+v, want %+v", got, want)
	}
}
