package log

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// bases are the base offsets of the segments.
func bases(l *Log) (all []int64) {
	for s := range l.Segments() {
		all = append(all, s.Base)
	}
	return all
}

// fixed makes segments of two batches with one record each, at the given times
// (ms), four hundred bytes a batch.
func fixed(t *testing.T, c Config, times ...int64) *bed {
	one := at400(0)
	c.SegmentBytes = int64(2 * len(one))
	b := newBed(t, c)
	for _, ms := range times {
		b.append(at400(ms))
	}
	return b
}

func at400(ms int64) batch.Batch {
	var w batch.Builder
	w.Reset(nil, batch.Plain)
	w.Add(ms, []byte("k"), []byte(strings.Repeat("v", 400-71)))
	b, err := w.Finish()
	if err != nil {
		panic(err)
	}
	return b
}

// TestRetain follows the rules of Kafka: below the log start, then by size
// (what stays is never less than the limit), then by age (strictly older), from
// the oldest segment on, up to the first that does not qualify.
func TestRetain(t *testing.T) {
	one := int64(len(at400(epoch2023)))
	now := int64(epoch2023 + 1_000_000)
	ago := func(ages ...int64) (times []int64) {
		for _, a := range ages {
			times = append(times, now-a)
		}
		return times
	}
	same := func(n int) []int64 { return ago(make([]int64, n)...) }
	for _, c := range []struct {
		name   string
		config Config
		times  []int64
		start  int64 // records deleted before
		want   []int64
	}{
		{"no policy", Config{RetentionBytes: 1, RetentionAge: 1}, ago(9000, 9000, 9000, 9000, 0), 0, []int64{0, 2, 4}},
		{"size, exactly", Config{Delete: true, RetentionBytes: 4 * one}, same(8), 0, []int64{4, 6}},
		{"size, one byte more stays", Config{Delete: true, RetentionBytes: 4*one + 1}, same(8), 0, []int64{2, 4, 6}},
		{"size, one byte less", Config{Delete: true, RetentionBytes: 4*one - 1}, same(8), 0, []int64{4, 6}},
		{"size, all", Config{Delete: true, RetentionBytes: 1}, same(8), 0, []int64{6}},
		{"age", Config{Delete: true, RetentionAge: time.Second}, ago(5000, 1001, 1002, 1001, 900, 0, 0), 0, []int64{4, 6}},
		{"age, the limit itself stays", Config{Delete: true, RetentionAge: time.Second}, ago(5000, 1001, 1000, 5000, 0), 0, []int64{2, 4}},
		{"age, a young one holds up older ones", Config{Delete: true, RetentionAge: time.Second}, ago(5000, 0, 5000, 5000, 0), 0, []int64{0, 2, 4}},
		{"age, all: the log rolls", Config{Delete: true, RetentionAge: time.Second}, ago(5000, 5000, 5000), 0, []int64{3}},
		{"both", Config{Delete: true, RetentionAge: time.Second, RetentionBytes: 6 * one}, ago(0, 0, 5000, 5000, 0, 0, 0, 0), 0, []int64{4, 6}},
		{"below the log start, compacted too", Config{Compact: true}, same(7), 5, []int64{4, 6}},
	} {
		b := fixed(t, c.config, c.times...)
		b.now = time.UnixMilli(now)
		if c.start > 0 {
			b.l.startAt(c.start)
		}
		before := len(bases(b.l))
		n, err := b.l.Retain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rolled := 0
		if c.want[len(c.want)-1] > int64(len(c.times)-1) {
			rolled = 1
		}
		if got := bases(b.l); !slices.Equal(got, c.want) || n != before+rolled-len(c.want) {
			t.Errorf("%s: segments %v, %d removed, want %v", c.name, got, n, c.want)
		}
		if f := b.l.Frontiers(); f.LogStart != max(c.want[0], c.start) || f.LogEnd != int64(len(c.times)) || f.LastStable < f.LogStart {
			t.Errorf("%s: %+v", c.name, f)
		}
		if n, err := b.l.Retain(t.Context()); n != 0 || err != nil {
			t.Errorf("%s: a second sweep removes %d, %v", c.name, n, err)
		}
		b.reopen()
		if got := bases(b.l); !slices.Equal(got, c.want) {
			t.Errorf("%s: segments %v after reopening", c.name, got)
		}
	}
}

// TestRetainFuture: a timestamp that lies ahead says nothing about when its
// segment was written, so the file's time counts. It does not keep the segments
// behind it either.
func TestRetainFuture(t *testing.T) {
	const second, year = 1000, 365 * 24 * 3600 * 1000
	for _, future := range []int64{epoch2023 + 10*year, epoch2023 * 1_000_000, epoch2023 + 61*second} {
		b := newBed(t, Config{SegmentBytes: int64(2 * len(at400(0))), Delete: true, RetentionAge: time.Minute})
		mem := b.fs.(*vfs.Mem)
		mem.SetClock(func() time.Time { return b.now })
		for _, ms := range []int64{epoch2023, future, epoch2023, epoch2023} {
			b.append(at400(ms))
		}
		for _, after := range []struct {
			seconds int64
			start   int64
		}{{0, 0}, {60, 0}, {61, 4}} {
			b.now = time.UnixMilli(epoch2023 + after.seconds*second)
			if after.start > 0 && future <= b.now.UnixMilli() {
				after.start = 0 // its time has come: it is believed
			}
			if _, err := b.l.Retain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if f := b.l.Frontiers(); f.LogStart != after.start {
				t.Errorf("timestamp %d, %d s after it was written: log start %d, want %d", future, after.seconds, f.LogStart, after.start)
			}
		}
	}
}

// TestRetainStopsAtHighWatermark: what a truncation may still take is not
// removed.
func TestRetainStopsAtHighWatermark(t *testing.T) {
	m := newMachine(t, Config{SegmentBytes: 1400, Delete: true, RetentionBytes: 1})
	m.o.Replicated = true
	m.ok(m.close())
	m.ok(m.open())
	early := m.data(99, 2, false) // a producer that only the head of the log knows
	early.Stamp(0, 0)
	_, err := m.l.AppendReplica(t.Context(), early, ReplicaOptions{})
	m.ok(err)
	m.batches = append(m.batches, early)
	m.ok(m.replicate(40))
	high := m.batches[17].NextOffset()
	m.l.AdvanceHighWatermark(high)
	_, err = m.l.Retain(t.Context())
	m.ok(err)
	segments := bases(m.l)
	if segments[0] == 0 || segments[0] > high || segments[1] <= high {
		t.Errorf("segments %v with a high watermark of %d", segments, high)
	}
	m.start = [2]int64{segments[0], segments[0]}
	m.compare()
	// The state at the high watermark is not lost with the head of the log, nor
	// with snapshots that later ones replace.
	for range 10 {
		m.ok(m.replicate(6))
	}
	if names := m.names(".snapshot"); len(names) > 4 {
		t.Errorf("snapshots %v", names)
	}
	m.ok(m.truncate(18))
	m.compare()
	m.ok(m.replicate(3))
	m.compare()
}

// TestRetainWithOpenTransaction: the data of an open transaction goes like any
// other; the last stable offset is the log start then, and the transaction
// still ends both ways.
func TestRetainWithOpenTransaction(t *testing.T) {
	for _, commit := range []bool{true, false} {
		b := newBed(t, Config{SegmentBytes: 500, Delete: true, RetentionBytes: 600})
		p := batch.Producer{ID: 5}
		b.append(transactional(p, 0, 3))
		for range 20 {
			b.append(plain(2, "value"))
		}
		if f := b.l.Frontiers(); f.LastStable != 0 {
			t.Fatalf("%+v", f)
		}
		if _, err := b.l.Retain(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := b.l.Frontiers()
		if f.LogStart == 0 || f.LastStable != f.LogStart {
			t.Errorf("%+v: want the last stable offset at the log start", f)
		}
		b.reopen()
		if again := b.l.Frontiers(); again != f {
			t.Errorf("%+v, after reopening %+v", f, again)
		}
		b.mark(p, commit)
		if f := b.l.Frontiers(); f.LastStable != f.LogEnd {
			t.Errorf("after the end: %+v", f)
		}
		b.append(transactional(p, 3, 1))
		b.mark(p, commit)
	}
}

// TestRollForRetentionKeepsNewRecords: a record that is appended between the
// decision and the roll is not old.
func TestRollForRetentionKeepsNewRecords(t *testing.T) {
	m := newMachine(t, Config{Delete: true, RetentionAge: time.Hour})
	var w batch.Builder
	w.Reset(nil, batch.Plain)
	w.Add(m.now.Add(-2*time.Hour).UnixMilli(), nil, []byte("old"))
	old, err := w.Finish()
	m.ok(err)
	_, err = m.l.Append(t.Context(), old, AppendOptions{})
	m.ok(err)
	calls := 0
	m.l.o.Now = func() time.Time { // first for the decision, then for the roll
		if calls++; calls == 2 {
			_, err := m.l.Append(t.Context(), at(m.now.UnixMilli()), AppendOptions{NoWait: true})
			m.ok(err)
		}
		return m.now
	}
	_, err = m.l.Retain(t.Context())
	m.ok(err)
	if f := m.l.Frontiers(); calls < 3 || f.LogStart > 1 || f.LogEnd != 2 {
		t.Errorf("%+v: the record at 1 is gone", f)
	}
}

// TestDeleteRecords inside a batch, an open and an aborted transaction, and the
// offsets that are refused.
func TestDeleteRecords(t *testing.T) {
	b := newBed(t, Config{SegmentBytes: 600})
	p, q := batch.Producer{ID: 1}, batch.Producer{ID: 2}
	b.append(plain(4, "a"))          // 0–3
	b.append(transactional(p, 0, 5)) // 4–8
	b.append(transactional(q, 0, 5)) // 9–13
	b.mark(p, false)                 // 14
	b.append(plain(4, "b"))          // 15–18
	b.append(idempotent(p, 5, 3))    // 19–21
	for _, bad := range []int64{23, 1 << 40, -2} {
		e := (*OffsetError)(nil)
		if _, err := b.l.DeleteRecords(t.Context(), bad); !errors.As(err, &e) || !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("delete up to %d: %v", bad, err)
		}
	}
	for _, c := range []struct {
		offset, want, stable int64
		aborted              int
	}{{2, 2, 9, 1}, {1, 2, 9, 1}, {6, 6, 9, 1}, {11, 11, 11, 1}, {14, 14, 14, 1}, {15, 15, 15, 0}, {20, 20, 20, 0}} {
		start, err := b.l.DeleteRecords(t.Context(), c.offset)
		if err != nil || start != c.want {
			t.Errorf("delete up to %d: %d, %v, want %d", c.offset, start, err, c.want)
		}
		for range 2 {
			f := b.l.Frontiers()
			aborted, err := b.l.Aborted(f.LogStart, f.LogEnd)
			if f.LogStart != c.want || f.LastStable != c.stable || err != nil || len(aborted) != c.aborted {
				t.Errorf("deleted up to %d: %+v, aborted %+v, %v", c.offset, f, aborted, err)
			}
			if c.aborted == 1 && aborted[0].First != 4 {
				t.Errorf("aborted %+v: it began at 4", aborted)
			}
			if got := b.read(c.want, ReadOptions{}); len(got) == 0 || got[0] > c.want {
				t.Errorf("deleted up to %d: read %v", c.want, got)
			}
			if _, err := b.l.Read(c.want-1, ReadOptions{}); !errors.Is(err, ErrOffsetOutOfRange) {
				t.Errorf("read before the log start: %v", err)
			}
			b.reopen()
		}
	}
	// All data of both producers is below the log start; they go on.
	if start, err := b.l.DeleteRecords(t.Context(), -1); err != nil || start != 22 {
		t.Errorf("delete all: %d, %v", start, err)
	}
	b.reopen()
	b.append(idempotent(p, 8, 1))
	b.append(transactional(q, 5, 1))
	b.mark(q, true)
	if f := b.l.Frontiers(); f.LastStable != f.LogEnd || f.LogEnd != 25 {
		t.Errorf("%+v", f)
	}
	c := b.l.Config()
	c.Compact, c.Delete = true, false
	b.l.SetConfig(c)
	if _, err := b.l.DeleteRecords(t.Context(), 24); !errors.Is(err, ErrNotDeletable) {
		t.Errorf("delete from a compacted topic: %v", err)
	}
}

// recorder is a Checkpoints that can fail and that looks around.
type recorder struct {
	err  error
	last Points
	each func(Points)
}

func (r *recorder) Record(_ context.Context, _ topic.Partition, p Points) error {
	if r.err != nil {
		return r.err
	}
	if r.last = p; r.each != nil {
		r.each(p)
	}
	return nil
}

// TestLogStartIsDurableFirst: neither readers nor files see the new log start
// before it is recorded; a deletion that could not be recorded is not done,
// and says so when it is tried again.
func TestLogStartIsDurableFirst(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(40))
	m.ok(m.checkpoint())
	r := &recorder{err: errors.New("no catalog")}
	m.l.o.Checkpoints = r
	before, segments := m.l.Frontiers(), bases(m.l)
	for range 2 {
		if _, err := m.l.DeleteRecords(t.Context(), m.end()); !errors.Is(err, r.err) {
			t.Errorf("deleted with %v", err)
		}
		if f := m.l.Frontiers(); f != before || !slices.Equal(bases(m.l), segments) {
			t.Errorf("%+v with segments %v", f, bases(m.l))
		}
	}
	m.compare()
	r.err = nil
	r.each = func(p Points) {
		if p.LogStart == m.end() && len(m.names(".log")) != len(segments) {
			t.Error("segments went before the log start was recorded")
		}
	}
	m.fs.SetPlan(faultfs.Plan{Hook: func(op faultfs.Op) error {
		names := m.names(".snapshot")
		if strings.HasSuffix(op.To, ".log.deleted") && names[len(names)-1] < fmt.Sprintf("%020d", segments[len(segments)-1]) {
			t.Errorf("segments go with the snapshots %v", names)
		}
		return nil
	}})
	_, err := m.l.DeleteRecords(t.Context(), m.end())
	m.ok(err)
	if r.last.LogStart != m.end() {
		t.Errorf("recorded %+v", r.last)
	}
}

// TestDeletedFilesKeepTheirReaders: a reader that holds a segment reads on
// while it is deleted, and a segment made later under the same name stays.
func TestDeletedFilesKeepTheirReaders(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(40))
	m.ok(m.maintain())
	regions, err := m.l.Regions(0)
	m.ok(err)
	whole := m.names(".log")
	content := m.read(whole[0])
	m.ok(m.deleteRecords(m.end()))
	got := make([]byte, len(content))
	if _, err := regions[0].ReadAt(got, 0); err != nil || string(got) != string(content) {
		t.Errorf("a deleted segment that is held reads %v", err)
	}
	for _, r := range regions {
		m.ok(r.Release())
	}
	if left := m.names(".deleted"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	count := m.fs.Count(faultfs.Rename)
	m.ok(m.deleteRecords(m.end()))
	if m.fs.Count(faultfs.Rename) != count {
		t.Error("the same deletion again writes")
	}
}
