package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// TestDerivedFiles replaces each file that can be derived from the log: by
// nothing, zeros, random bytes, a piece of itself, a directory. The log opens
// and says the same as before, in memory and after it was closed again.
//
// An empty transaction index says that nothing was aborted, as a missing one
// does, so those two are left out here; so are indexes that end early between
// two entries, which nothing in Kafka's format tells.
func TestDerivedFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	random := make([]byte, 997)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	for _, clean := range []bool{true, false} {
		origin := newMachine(t, small)
		origin.ok(origin.appendMany(35))
		origin.ok(origin.checkpoint())
		origin.ok(origin.appendMany(2))
		if clean {
			origin.ok(origin.close())
		}
		origin.kill()
		n := 0
		for _, name := range slices.Concat(origin.names("index"), origin.names(".snapshot"), []string{EpochsName}) {
			whole := origin.read(name)
			contents := map[string][]byte{
				"empty": {}, "zeros": make([]byte, max(len(whole), 100)), "random": random, "cut": whole[:max(len(whole)-5, 0)], "directory": nil,
			}
			if strings.HasSuffix(name, ".txnindex") {
				delete(contents, "empty")
				if !clean {
					delete(contents, "cut") // it may end in the middle of an entry
				}
			}
			for how, content := range contents {
				m := origin.on(origin.mem.KillClone())
				if content != nil {
					m.write(name, content)
				} else {
					m.remove(name)
					m.ok(m.mem.Mkdir("/d/"+name, 0o755))
				}
				n++
				m.readOnly()
				if err := m.open(); name == EpochsName && how == "directory" {
					if link := (*os.LinkError)(nil); !errors.As(err, &link) {
						t.Errorf("the epochs are a directory: %v", err)
					}
					continue
				} else if err != nil {
					t.Errorf("%s, %s: %v", name, how, err)
					continue
				}
				m.compare()
				m.goOn()
				if t.Failed() {
					t.Fatalf("%s, %s, clean %v", name, how, clean)
				}
			}
		}
		if n < 60 {
			t.Errorf("%d cases", n)
		}
	}
}

// readOnly opens the log as it lies for reading, with every change of the file
// system forbidden.
func (m *machine) readOnly() {
	m.t.Helper()
	n := m.on(m.mem)
	n.o.ReadOnly = true
	n.o.Clean = false
	if _, err := n.mem.Stat("/clean"); err == nil {
		n.o.Clean = true
	}
	var err error
	n.o.Points, err = n.points()
	n.ok(err)
	n.fs.SetPlan(faultfs.FailFrom(0, syscall.EROFS, faultfs.Write, faultfs.Truncate, faultfs.Allocate, faultfs.Sync, faultfs.SyncDir,
		faultfs.Remove, faultfs.Rename, faultfs.Mkdir))
	n.l, err = Load(n.o)
	if err != nil {
		m.t.Errorf("read-only: %v", err)
		return
	}
	n.compare()
	n.ok(n.l.Abandon())
	if n.fs.Fired() {
		m.t.Error("a log opened for reading tried to write")
	}
}

// TestSnapshotDamaged damages the newest producer snapshot in every way: the
// older one and the log say the same.
func TestSnapshotDamaged(t *testing.T) {
	origin := newMachine(t, small)
	origin.ok(origin.appendMany(37))
	origin.ok(origin.close())
	origin.kill()
	names := origin.names(".snapshot")
	if len(names) < 2 {
		t.Fatalf("snapshots %v: two are kept", names)
	}
	newest := names[len(names)-1]
	whole := origin.read(newest)
	for n := range len(whole) {
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1 << (n % 8)
		for _, content := range [][]byte{whole[:n], flipped} {
			m := origin.on(origin.mem.KillClone())
			m.write(newest, content)
			m.ok(m.open())
			m.compare()
			if told := m.told(EventSnapshotBad); len(told) != 1 || told[0].File != "/d/"+newest || told[0].Err == nil {
				t.Fatalf("byte %d: told %+v", n, told)
			}
			if slices.Contains(m.names(".snapshot"), newest) {
				t.Fatal("the damaged snapshot is still there")
			}
			if n%10 == 0 {
				m.goOn()
			}
		}
	}
}

// TestProducerStateLost takes away what alone knows of the head of the log.
func TestProducerStateLost(t *testing.T) {
	origin := newMachine(t, small)
	origin.ok(origin.appendMany(40))
	origin.ok(origin.deleteRecords(origin.batches[30].BaseOffset()))
	origin.ok(origin.close())
	origin.kill()
	m := origin.on(origin.mem.KillClone())
	m.ok(m.open())
	m.compare()
	if told := m.told(EventProducerStateLost); len(told) != 0 {
		t.Errorf("nothing is lost, told %+v", told)
	}
	m = origin.on(origin.mem.KillClone())
	for _, name := range m.names(".snapshot") {
		m.remove(name)
	}
	m.ok(m.open())
	if told := m.told(EventProducerStateLost); len(told) != 1 {
		t.Errorf("told %+v", told)
	}
	m.readable(m.l.Frontiers())

	// A snapshot from before the head does not do: the ends of transactions
	// that were open in it are gone.
	m = origin.on(origin.mem.KillClone())
	n := 8
	table := producerstate.New(producerstate.Options{})
	for _, b := range m.batches[:n] {
		h := b.Header()
		marker, err := markerOf(b)
		m.ok(err)
		table.Apply(&h, marker, 0)
	}
	for _, name := range m.names(".snapshot") {
		m.remove(name)
	}
	m.write(fmt.Sprintf("%020d.snapshot", nextOf(m.batches[:n])), table.AppendSnapshot(nil))
	m.ok(m.open())
	if told, open := m.told(EventProducerStateLost), m.l.Ongoing(); len(told) != 1 || slices.ContainsFunc(open, func(o producerstate.OngoingTxn) bool { return o.First < bases(m.l)[0] }) {
		t.Errorf("told %+v, open %+v", told, open)
	}

	// Without the head, but with the log from its first segment on, nothing is
	// lost either.
	m = newMachine(t, Config{SegmentBytes: 1 << 20})
	m.ok(m.appendMany(20))
	m.ok(m.deleteRecords(m.batches[15].BaseOffset()))
	m.kill()
	m.ok(m.open())
	m.compare()
	if told := m.told(EventProducerStateLost); len(told) != 0 {
		t.Errorf("told %+v", told)
	}
}

// TestSnapshotUnreadable: an error of the device is no damage of the file, so
// the log does not open without it, and does not remove it.
func TestSnapshotUnreadable(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(37))
	m.ok(m.close())
	m.kill()
	before := m.files()
	m.fs.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Read}, Forever: true, Match: func(op faultfs.Op) bool {
		return strings.HasSuffix(op.Name, ".snapshot")
	}}}})
	if err := m.open(); !errors.Is(err, syscall.EIO) {
		t.Errorf("opened with %v", err)
	}
	m.same(before)
}

// TestIndexesLieAboutTheLog gives sealed segments indexes that look right and
// are not: those of another segment, positions one byte off, positions behind
// the end. Every offset is still read, every lookup right, and it is counted.
func TestIndexesLieAboutTheLog(t *testing.T) {
	origin := newMachine(t, Config{SegmentBytes: 3000, IndexIntervalBytes: 200})
	origin.ok(origin.appendMany(80))
	origin.ok(origin.close())
	origin.kill()
	logs := origin.names(".log")
	a, b := logs[1][:20], logs[2][:20]
	shift := func(by uint32) func(*machine) {
		return func(m *machine) {
			for _, name := range m.names(".index") {
				content := m.read(name)
				for at := 4; at < len(content); at += 8 {
					binary.BigEndian.PutUint32(content[at:], binary.BigEndian.Uint32(content[at:])+by)
				}
				m.write(name, content)
			}
		}
	}
	for how, damage := range map[string]func(*machine){
		"swapped": func(m *machine) {
			for _, ext := range []string{".index", ".timeindex"} {
				x, y := m.read(a+ext), m.read(b+ext)
				m.write(a+ext, y)
				m.write(b+ext, x)
			}
		},
		"one byte off":   shift(1),
		"past the end":   shift(1 << 20),
		"negative":       shift(1 << 31),
		"a batch behind": shift(uint32(len(origin.batches[1]))),
		"middle": func(m *machine) { // all but the last entry, which is looked at
			content := m.read(a + ".index")
			for at := 4; at < len(content)-8; at += 8 {
				binary.BigEndian.PutUint32(content[at:], binary.BigEndian.Uint32(content[at:])+3)
			}
			m.write(a+".index", content)
		},
	} {
		for _, clean := range []bool{true, false} {
			m := origin.on(origin.mem.KillClone())
			damage(m)
			if !clean {
				m.ok(m.mem.Remove("/clean"))
			}
			m.readOnly()
			m.ok(m.open())
			for i, v := range m.batches {
				r, err := m.l.Read(v.LastOffset(), ReadOptions{})
				m.ok(err)
				for got := range r.Batches() {
					if !bytes.Equal(got, v) {
						t.Errorf("%s: offset %d gives another batch than %d", how, v.LastOffset(), i)
					}
					break
				}
				r.Close()
			}
			m.compare()
			if m.l.Metrics().IndexFallbacks == 0 && len(m.told(EventIndexRebuilt)) == 0 {
				t.Errorf("%s, clean %v: not counted", how, clean)
			}
			m.ok(m.l.Abandon())
			if t.Failed() {
				t.Fatalf("%s, clean %v", how, clean)
			}
		}
	}
}

// TestBytesReadAtOpen: after a crash no more is read than the segments above
// the recovery point and one more, damaged index or not.
func TestBytesReadAtOpen(t *testing.T) {
	const segmentBytes = 32 << 10
	m := newMachine(t, Config{SegmentBytes: segmentBytes, IndexIntervalBytes: 1024, Durability: DurabilityOS})
	for range 4 {
		m.ok(m.appendMany(500))
		m.ok(m.maintain())
		m.ok(m.checkpoint())
	}
	m.ok(m.appendMany(40))
	m.kill()
	segments := m.names(".log")
	if len(segments) < 8 {
		t.Fatalf("%d segments", len(segments))
	}
	for _, damaged := range []bool{false, true} {
		if damaged {
			m.write(segments[2][:20]+".index", []byte("garbage"))
		}
		n := m.on(m.mem.KillClone())
		n.o.Points, _ = n.points()
		bytesRead := int64(0)
		n.fs.SetPlan(faultfs.Plan{Hook: func(op faultfs.Op) error {
			if op.Kind == faultfs.Read {
				f, err := n.mem.Open(op.Name)
				n.ok(err)
				size, err := f.Size()
				n.ok(errors.Join(err, f.Close()))
				bytesRead += max(min(op.Size, size-op.Pos), 0)
			}
			return nil
		}})
		n.ok(n.open())
		// The walk, the rewrite and the replay read the same bytes.
		if limit := int64(3 * 2 * segmentBytes); bytesRead > limit {
			t.Errorf("damaged %v: %d bytes read, want at most %d", damaged, bytesRead, limit)
		}
		n.fs.SetPlan(faultfs.Plan{})
		n.follow(true)
		n.compare()
		n.ok(n.l.Abandon())
	}
}

// TestFailedLoadChangesNothing lets Load fail at every file operation, and for
// reasons of its own.
func TestFailedLoadChangesNothing(t *testing.T) {
	m := newMachine(t, small)
	m.killed(t, 12, 29, true)
	m.write("00000000000000000000.log.deleted", []byte("old"))
	before := m.files()
	for n := 0; ; n++ {
		m.fs.SetPlan(faultfs.FailNth(n, nil))
		l, err := Load(m.o)
		m.same(before)
		if err == nil {
			_ = l.Abandon() // it may be this that fails
			m.same(before)
		}
		if !m.fs.Fired() {
			m.ok(err)
			break
		}
	}
	m.fs.SetPlan(faultfs.Plan{})
	for _, o := range []struct {
		dir  string
		want error
	}{{"/missing", os.ErrNotExist}, {"/points", syscall.ENOTDIR}} {
		bad := m.o
		bad.Dir = o.dir
		if _, err := Load(bad); !errors.Is(err, o.want) {
			t.Errorf("%s: %v, want %v", o.dir, err, o.want)
		}
	}
	m.same(before)
}

// TestEmptyLogKeepsItsPlace: the next offset never goes back, whatever of the
// files is gone.
func TestEmptyLogKeepsItsPlace(t *testing.T) {
	for _, how := range []string{"kill", "close", "newest only", "no files"} {
		m := newMachine(t, small)
		m.ok(m.appendMany(33))
		m.ok(m.deleteRecords(m.end()))
		m.ok(m.l.Roll())
		m.ok(m.deleteRecords(m.end()))
		if how == "close" {
			m.ok(m.close())
		}
		m.kill()
		for name := range m.files() {
			if how == "no files" || how == "newest only" && name[:20] < fmt.Sprintf("%020d", m.end()) {
				m.remove(name)
			}
		}
		m.ok(m.open())
		end := m.end()
		if f := m.l.Frontiers(); f != (Frontiers{end, end, end, end, end}) {
			t.Errorf("%s: %+v, want all at %d", how, f, end)
		}
		a, err := m.l.Append(t.Context(), plain(1, "next"), AppendOptions{})
		if err != nil || a.BaseOffset != end {
			t.Errorf("%s: next append at %+v, %v, want %d", how, a, err, end)
		}
		m.ok(m.l.Abandon())
	}
}

// TestSwapIsFinished opens a log in the middle of a swap, as kill -9 leaves
// it, also above the recovery point.
func TestSwapIsFinished(t *testing.T) {
	for _, clean := range []bool{true, false} {
		m := newMachine(t, small)
		m.ok(m.appendMany(40))
		if clean {
			m.ok(m.close())
		} else {
			m.ok(m.maintain())
		}
		m.kill()
		m.o.OwnOnly = false
		segments := m.names(".log")
		base := segments[1][:20]
		for _, ext := range []string{".log", ".index", ".timeindex", ".txnindex"} {
			m.ok(m.mem.Rename("/d/"+base+ext, "/d/"+base+ext+".swap"))
		}
		m.write(base+".log", []byte("replaced"))
		m.write(base+".index", []byte("replaced"))
		m.readOnly()
		m.ok(m.open())
		m.compare()
		for name := range m.files() {
			if n, ok := segment.ParseName(name); ok && n.Suffix != segment.SuffixNone {
				t.Errorf("%s is left", name)
			}
		}
		m.goOn()
	}
}

// TestFileInPlaceOfDirectory and the reverse: the error says which.
func TestFileInPlaceOfDirectory(t *testing.T) {
	m := newMachine(t, small)
	m.ok(m.appendMany(5))
	m.kill()
	m.remove(logFile)
	m.ok(m.mem.Mkdir("/d/"+logFile, 0o755))
	path := (*fs.PathError)(nil)
	if err := m.open(); !errors.As(err, &path) || path.Path != "/d/"+logFile {
		t.Errorf("a directory in place of a segment: %v", err)
	}
}
