package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// unclean is a log of one segment, killed: its first batches lie below the
// recovery point.
func unclean(t testing.TB, below, above int) *machine {
	m := newMachine(t, Config{SegmentBytes: 1 << 20, IndexIntervalBytes: 1 << 20})
	m.ok(m.appendMany(below))
	m.ok(m.checkpoint())
	m.ok(m.appendMany(above))
	m.kill()
	m.write(logFile, m.read(logFile)[:sizeOf(m.batches)]) // without the space allocated ahead
	return m
}

const logFile = "00000000000000000000.log"

func sizeOf(batches []batch.Batch) (size int) {
	for _, b := range batches {
		size += len(b)
	}
	return size
}

// TestTornTail cuts the last batch at every byte; behind the cut there is
// nothing, the zeros of allocated space, or garbage. What is appended after the
// recovery survives two more crashes.
func TestTornTail(t *testing.T) {
	origin := unclean(t, 5, 8)
	last := len(origin.batches[len(origin.batches)-1])
	r := rand.New(rand.NewPCG(1, 1))
	garbage := make([]byte, 300)
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	whole := origin.read(logFile)
	for n := range last {
		for i, tail := range [][]byte{nil, make([]byte, 4096), garbage, slices.Concat(make([]byte, 100), garbage)} {
			torn := slices.Concat(whole[:len(whole)-last+n], tail)
			if bytes.HasPrefix(torn, whole) {
				continue // the batch ends in a zero
			}
			m := origin.on(origin.mem.KillClone())
			m.write(logFile, torn)
			m.forget(1)
			m.ok(m.open())
			m.compare()
			lost := torn[len(whole)-last:]
			cuts, told := m.names(".cut"), m.told(EventTailCut)
			if len(bytes.Trim(lost, "\x00")) == 0 {
				if len(cuts) != 0 || len(told) != 0 {
					t.Errorf("zeros were kept as %v, told %+v", cuts, told)
				}
			} else if len(cuts) != 1 || string(m.read(cuts[0])) != string(lost) || len(told) != 1 ||
				told[0].From != m.end() || told[0].To != m.end() || told[0].Bytes != int64(len(lost)) || told[0].ValidAfter || told[0].File != "/d/"+cuts[0] {
				t.Errorf("cut at %d, tail %d: kept as %v, told %+v", n, i, cuts, told)
			}
			for range 2 {
				m.ok(m.appendMany(3))
				m.kill()
				m.ok(m.open())
				m.compare()
			}
			m.sound(false)
			m.ok(m.l.Abandon())
			if t.Failed() {
				t.Fatalf("cut at byte %d of %d, tail %d", n, last, i)
			}
		}
	}
}

// TestFlippedBit flips bits all over the log. Above the recovery point the log
// is cut there; below it, Load refuses and changes nothing.
func TestFlippedBit(t *testing.T) {
	origin := unclean(t, 6, 6)
	whole := origin.read(logFile)
	pos := 0
	for i, b := range origin.batches {
		for at := 0; at < len(b); at += 1 + at%5 {
			if at >= 12 && at < 16 {
				continue // the leader epoch is outside of the checksum
			}
			m := origin.on(origin.mem.KillClone())
			damaged := bytes.Clone(whole)
			damaged[pos+at] ^= 1 << (at % 8)
			m.write(logFile, damaged)
			before := m.files()
			next := int64(-1)
			if i+1 < len(m.batches) {
				next = m.batches[i+1].BaseOffset()
			}
			err := m.open()
			if i < 6 {
				c := (*CorruptionError)(nil)
				if !errors.As(err, &c) || !errors.Is(err, ErrCorrupt) || c.File != "/d/"+logFile || c.Pos != int64(pos) ||
					c.Offset != b.BaseOffset() || c.ReadableFrom != next {
					t.Fatalf("byte %d of batch %d: %v, want damage at %d, readable from %d", at, i, err, pos, next)
				}
				m.same(before)
				continue
			}
			m.ok(err)
			m.batches = m.batches[:i]
			m.compare()
			cuts, told := m.names(".cut"), m.told(EventTailCut)
			if len(cuts) != 1 || string(m.read(cuts[0])) != string(damaged[pos:]) || len(told) != 1 || told[0].ValidAfter != (next >= 0) || told[0].Err == nil {
				t.Fatalf("byte %d of batch %d: kept as %v, told %+v", at, i, cuts, told)
			}
			m.ok(m.l.Abandon())
		}
		pos += len(b)
	}
}

// TestRecoveryRewrites: a flush failed, so the device lacks what the page cache
// shows. Recovery writes it again, in all its length, before it lets anyone see
// it: a power loss afterwards takes nothing.
func TestRecoveryRewrites(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		m := newMachine(t, withOS(Config{SegmentBytes: 100_000}))
		m.ok(m.appendMany(5))
		m.ok(m.checkpoint())
		for range 12 {
			b := m.data(10, 40, false)
			_, err := m.l.Append(t.Context(), b, AppendOptions{})
			m.ok(err)
			stored := batch.Batch(bytes.Clone(b))
			stored.Stamp(m.end(), 0)
			m.batches = append(m.batches, stored)
		}
		if sealed {
			m.ok(m.l.Roll())
		}
		m.fs.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Sync}, Match: isLog, Forever: true, Effect: faultfs.Lose}}})
		if err := m.l.Sync(t.Context()); !errors.Is(err, ErrLatched) {
			t.Errorf("sync: %v", err)
		}
		m.fs.SetPlan(faultfs.Plan{})
		if lost := m.on(m.mem.CrashClone(vfsNone)); true {
			m.ok(lost.open())
			if f := lost.l.Frontiers(); f.LogEnd >= m.end() {
				t.Errorf("nothing was lost: %+v", f)
			}
		}
		m.kill()
		m.ok(m.open())
		m.compare()
		n := m.on(m.mem.CrashClone(vfsNone))
		n.ok(n.open())
		n.compare()
		n.sound(false)
	}
}

// TestLaterSegmentsAreCut damages a segment above the recovery point that
// others follow: they go with it, and all is kept.
func TestLaterSegmentsAreCut(t *testing.T) {
	for _, own := range []bool{true, false} {
		m := newMachine(t, small)
		m.ok(m.appendMany(8))
		m.ok(m.checkpoint())
		m.ok(m.appendMany(30))
		m.kill()
		m.o.OwnOnly = own
		segments := m.names(".log")
		if len(segments) < 4 {
			t.Fatalf("%d segments", len(segments))
		}
		damaged := m.read(segments[1])
		first, _ := segment.ParseName(segments[1])
		n := slices.IndexFunc(m.batches, func(b batch.Batch) bool { return b.BaseOffset() == first.Offset })
		keep := len(m.batches[n])
		damaged[keep+70] ^= 1
		m.write(segments[1], damaged)
		m.batches = m.batches[:n+1]
		m.must, m.mustKill = n+1, n+1
		want := map[string]string{segments[1]: string(damaged[keep:])}
		for _, name := range segments[2:] {
			want[name] = string(m.read(name))
		}
		m.ok(m.open())
		m.compare()
		for name, content := range want {
			cuts := m.names(".cut")
			i := slices.IndexFunc(cuts, func(cut string) bool { return cut[:20] == name[:20] })
			if i < 0 || string(m.read(cuts[i])) != content {
				t.Errorf("%s is not kept: %v", name, cuts)
			}
		}
		told := m.told(EventTailCut)
		if len(told) != len(want) || !told[0].ValidAfter {
			t.Errorf("told %+v", told)
		}
		for i, e := range told {
			next := e.From // of the last one nothing is known
			if i+1 < len(told) {
				next = told[i+1].From
			}
			if e.To != next {
				t.Errorf("cut %d is told as %d to %d, want %d", i, e.From, e.To, next)
			}
		}
		if got := m.names(".log"); len(got) != 2 {
			t.Errorf("segments %v", got)
		}
		m.goOn()
	}
}

// TestCutZeros: space that nobody wrote is no loss and worth no event, in whose
// log ever; unless segments go with it.
func TestCutZeros(t *testing.T) {
	for _, own := range []bool{true, false} {
		m := newMachine(t, small)
		m.ok(m.appendMany(30))
		m.kill() // with zeros behind the last batch
		m.o.OwnOnly = own
		segments := m.names(".log")
		last := m.read(segments[len(segments)-1])
		if last[len(last)-1] != 0 {
			t.Fatal("nothing was allocated ahead")
		}
		m.ok(m.open())
		m.compare()
		if told := m.told(EventTailCut); len(told) != 0 {
			t.Errorf("own %v: told %+v", own, told)
		}
		m.ok(m.checkpoint())
		m.ok(m.appendMany(30))
		m.kill()
		segments = m.names(".log")
		n := len(segments)
		m.remove(segments[n-2])
		m.write(segments[n-3], append(m.read(segments[n-3]), make([]byte, 4096)...))
		gone, _ := segment.ParseName(segments[n-2])
		behind, _ := segment.ParseName(segments[n-1])
		m.ok(m.open())
		told := m.told(EventTailCut)
		if !own {
			if len(told) != 0 {
				t.Errorf("a gap is legal; told %+v", told)
			}
			continue
		}
		if len(told) != 2 || told[0].From != gone.Offset || told[0].To != behind.Offset || told[0].File != "" || told[0].Bytes < 4096 || !told[0].ValidAfter ||
			told[1].From != behind.Offset || told[1].File == "" {
			t.Errorf("told %+v", told)
		}
	}
}

// TestReadPastDamage: a reader of a damaged batch is told where reading goes
// on, and it does, whatever of the batch is damaged.
func TestReadPastDamage(t *testing.T) {
	for _, live := range []bool{true, false} {
		origin := newMachine(t, Config{SegmentBytes: 1 << 20, IndexIntervalBytes: 1 << 20})
		origin.ok(origin.appendMany(12))
		if live {
			origin.ok(origin.l.Roll())
		}
		whole := origin.read(logFile)
		n := 6
		pos := sizeOf(origin.batches[:n])
		for at := range len(origin.batches[n]) {
			if at < 8 || at >= 12 && at < 16 {
				continue // outside of the checksum
			}
			m := origin
			if !live {
				m = origin.on(origin.mem.KillClone())
			}
			f, err := m.mem.OpenFile("/d/"+logFile, os.O_RDWR, 0)
			m.ok(err)
			if !live {
				m.ok(m.open())
			}
			_, err = f.WriteAt([]byte{whole[pos+at] ^ 1<<(at%8)}, int64(pos+at))
			m.ok(err)
			for i, b := range m.batches {
				r, err := m.l.Read(b.BaseOffset(), ReadOptions{BytesMax: 1})
				if i == n {
					c := (*CorruptionError)(nil)
					if !errors.As(err, &c) || c.Pos != int64(pos) || c.ReadableFrom != m.batches[n+1].BaseOffset() {
						t.Fatalf("byte %d: %v", at, err)
					}
					continue
				}
				m.ok(err)
				if !bytes.Equal(r.Bytes(), b) {
					t.Fatalf("byte %d: read of %d gives another batch", at, b.BaseOffset())
				}
				r.Close()
			}
			_, err = f.WriteAt([]byte{whole[pos+at]}, int64(pos+at))
			m.ok(errors.Join(err, f.Close()))
		}
	}
}

// TestGapAboveRecoveryPoint takes a segment out: where all segments are our own
// the log ends there, elsewhere it is no damage.
func TestGapAboveRecoveryPoint(t *testing.T) {
	for _, own := range []bool{true, false} {
		m := newMachine(t, small)
		m.ok(m.appendMany(8))
		m.ok(m.checkpoint())
		m.ok(m.appendMany(30))
		end := m.end()
		m.kill()
		m.o.OwnOnly = own
		segments := m.names(".log")
		gone, _ := segment.ParseName(segments[2])
		m.remove(segments[2])
		m.ok(m.open())
		f := m.l.Frontiers()
		if want := map[bool]int64{true: gone.Offset, false: end}[own]; f.LogEnd != want {
			t.Errorf("own %v: the log ends at %d, want %d", own, f.LogEnd, want)
		}
		if kept := len(m.names(".cut")); own == (kept == 0) {
			t.Errorf("own %v: %d pieces kept", own, kept)
		}
		if !own {
			after, _ := segment.ParseName(segments[3])
			r, err := m.l.Read(gone.Offset, ReadOptions{})
			m.ok(err)
			for b := range r.Batches() {
				if b.BaseOffset() != after.Offset {
					t.Errorf("reading in the gap gives %d, want %d", b.BaseOffset(), after.Offset)
				}
				break
			}
			r.Close()
		}
		m.ok(m.close())
	}
}

// TestGapBelowRecoveryPoint takes a segment out that was durable once: readers
// are told, and can go on behind it.
func TestGapBelowRecoveryPoint(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(40))
	m.ok(m.close())
	segments := m.names(".log")
	gone, _ := segment.ParseName(segments[2])
	after, _ := segment.ParseName(segments[3])
	m.remove(segments[2])
	m.ok(m.open())
	c := (*CorruptionError)(nil)
	if _, err := m.l.Read(gone.Offset, ReadOptions{}); !errors.As(err, &c) || c.Offset != gone.Offset || c.ReadableFrom != after.Offset {
		t.Errorf("read: %v, want a gap from %d to %d", err, gone.Offset, after.Offset)
	}
	r, err := m.l.Read(after.Offset, ReadOptions{})
	m.ok(err)
	r.Close()
}

// TestNewestSegmentIsNew makes the states of a segment that was just being
// made: they are normal for the last one.
func TestNewestSegmentIsNew(t *testing.T) {
	for _, content := range [][]byte{nil, make([]byte, 5000), {}} {
		m := newMachine(t, small)
		m.ok(m.appendMany(30))
		m.ok(m.l.Roll())
		m.ok(m.checkpoint())
		m.kill()
		if name := fmt.Sprintf("%020d.log", m.end()); content == nil {
			m.remove(name)
		} else {
			m.write(name, content)
		}
		m.ok(m.open())
		m.compare()
		m.goOn()
	}
}

// TestOlderSegmentIsEmpty makes the same states of a segment that was durable:
// they are damage.
func TestOlderSegmentIsEmpty(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(30))
	m.ok(m.close())
	name := m.names(".log")[1]
	size := len(m.read(name))
	m.write(name, nil)
	before := m.files()
	if err := m.open(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an empty segment below others: %v", err)
	}
	m.same(before)
	m.write(name, make([]byte, size))
	m.ok(m.open())
	n, _ := segment.ParseName(name)
	if _, err := m.l.Read(n.Offset, ReadOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reading zeros: %v", err)
	}
}

// TestPointBeyondEnd: a recovery point that lies behind the log end is told of
// and does no harm.
func TestPointBeyondEnd(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(25))
	m.ok(m.checkpoint())
	m.kill()
	whole := m.names(".log")
	last := whole[len(whole)-1]
	base, _ := segment.ParseName(last)
	n := slices.IndexFunc(m.batches, func(b batch.Batch) bool { return b.BaseOffset() == base.Offset })
	m.write(last, m.read(last)[:sizeOf(m.batches[n:])])
	m.ok(m.Record(t.Context(), m.o.Partition, Points{RecoveryPoint: m.end() + 1000}))
	m.ok(m.open())
	m.compare()
	if told := m.told(EventPointBeyondEnd); len(told) != 1 || told[0].From != m.end() || told[0].To != m.end()+1000 {
		t.Errorf("told %+v", told)
	}
	if p, _ := m.points(); p.RecoveryPoint != m.end() {
		t.Errorf("recovery point %d, want %d", p.RecoveryPoint, m.end())
	}
	m.goOn()
}

// TestLogWithoutItsTail keeps indexes that know more than the log: it was cut
// by three batches. Where others have written, that may be how they cut it.
func TestLogWithoutItsTail(t *testing.T) {
	for _, own := range []bool{true, false} {
		m := newMachine(t, Config{SegmentBytes: 1 << 20, IndexIntervalBytes: 100})
		m.ok(m.appendMany(39))
		m.ok(m.checkpoint())
		m.kill()
		m.o.OwnOnly = own
		m.forget(3) // two markers of aborted transactions among them
		m.write(logFile, m.read(logFile)[:sizeOf(m.batches)])
		before := m.files()
		err := m.open()
		if own {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("opened with %v", err)
			}
			m.same(before)
			continue
		}
		m.ok(err)
		m.compare()
		m.goOn()
	}
}
