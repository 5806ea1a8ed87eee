package segment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// TestCreate: room is there or there is no file.
func TestCreate(t *testing.T) {
	b := newBed(t)
	s, err := Create(b.env, 0, 1<<20, 100, false, 5000)
	b.ok(err)
	if s.Room() < 5000 {
		t.Errorf("room for %d bytes", s.Room())
	}
	b.mem.SetCapacity(b.mem.Used() + 8<<10)
	if _, err := Create(b.env, 10, 1<<20, 100, false, 9<<10); !errors.Is(err, ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("without room: %v", err)
	}
	if _, ok := files(t, b.mem)[name(10, KindLog)]; ok {
		t.Error("a file is left")
	}
	// The last of the room is used, although a step would ask for more.
	s, err = Create(b.env, 10, 1<<20, 100, false, 5000)
	b.ok(err)
	if s.Room() < 5000 {
		t.Errorf("room for %d bytes", s.Room())
	}
	b.ok(s.Retire())
	b.env.FS = faultfs.New(b.mem, faultfs.FailFrom(0, syscall.ENOSPC, faultfs.Open))
	if _, err := Create(b.env, 20, 1<<20, 100, false, 0); !errors.Is(err, ErrNoSpace) {
		t.Errorf("no room for a name: %v", err)
	}
	b.env.FS = faultfs.New(b.mem, faultfs.FailFrom(0, syscall.ENOSPC, faultfs.Allocate, faultfs.Remove))
	if _, err := Create(b.env, 20, 1<<20, 100, false, 100); err == nil || errors.Is(err, ErrNoSpace) {
		t.Errorf("a file may be left, which is no lack of room: %v", err)
	}
}

// TestPrepare: the prepared file becomes the segment, with its room.
func TestPrepare(t *testing.T) {
	b := newBed(t)
	b.ok(Prepare(b.env, 20_000))
	s, err := Create(b.env, 7, 1<<20, 100, true, 50_000)
	b.ok(err)
	if s.Room() != 20_000 {
		t.Errorf("room for %d bytes", s.Room())
	}
	if got := files(t, b.mem); len(got) != 1 || len(got[name(7, KindLog)]) != 20_000 {
		t.Errorf("%d files", len(got))
	}
	b.mem.SetCapacity(b.mem.Used())
	if err := Prepare(b.env, 20_000); !errors.Is(err, ErrNoSpace) {
		t.Errorf("prepare on a full disk: %v", err)
	}
	b.ok(Unprepare(b.env))
	if got := files(t, b.mem); len(got) != 1 {
		t.Errorf("%d files", len(got))
	}
}

// TestFlushIndexes appends, flushes and goes on, with failures in between: in
// the end the files hold all entries, and after a crash at least those that
// were flushed.
func TestFlushIndexes(t *testing.T) {
	batches := history(0, 120)
	offsets, _ := rule(batches, 200)
	for n := 0; ; n++ {
		b := newBed(t)
		fsys := faultfs.New(b.mem, faultfs.FailNth(n, syscall.ENOSPC))
		s := b.active(0, 200, nil)
		b.env.FS = fsys
		flushed, failures := 0, 0
		for i, v := range batches {
			b.append(s, v)
			if i%20 == 19 {
				if err := s.FlushIndexes(); errors.Is(err, ErrNoSpace) {
					failures++
					err = s.FlushIndexes()
					b.ok(err)
				} else {
					b.ok(err)
				}
				flushed = s.active.indexer.Offsets.Len()
				b.ok(b.mem.SyncDir("/d"))
			}
			mem := b.mem.CrashClone(vfs.CrashOptions{})
			content := files(t, mem)[name(0, KindOffsetIndex)]
			if got := offsetsOf(index.LoadOffset(0, []byte(content), 1<<40, 1<<40)); len(got) < flushed || !slices.Equal(got, offsets[:len(got)]) {
				t.Fatalf("after %d batches %d entries survive, %d were flushed", i, len(got), flushed)
			}
		}
		if content := b.read(name(0, KindOffsetIndex)); len(content) != len(offsets)*index.OffsetEntrySize {
			t.Errorf("%d bytes for %d entries", len(content), len(offsets))
		}
		if !fsys.Fired() {
			break
		}
		if failures == 0 {
			t.Errorf("operation %d failed and nobody heard of it", n)
		}
	}
}

// TestSealFails: sealing with the n-th operation failing leaves a segment that
// is read as before, and can be sealed again where only room was missing.
func TestSealFails(t *testing.T) {
	batches := history(0, 60)
	whole := join(batches)
	for n := 0; ; n++ {
		b := newBed(t)
		s := b.active(0, 200, batches)
		fsys := faultfs.New(b.mem, faultfs.FailNth(n, syscall.ENOSPC))
		b.env.FS = fsys
		b.ok(s.EndTimes())
		b.ok(s.Trim())
		err := s.Seal()
		fired := fsys.Fired()
		fsys.SetPlan(faultfs.Plan{})
		for range 2 {
			h, e := s.Acquire()
			b.ok(e)
			got := make([]byte, len(whole))
			if _, e := h.File.ReadAt(got, 0); e != nil || !bytes.Equal(got, whole) || h.Offsets.Len() == 0 {
				t.Fatalf("operation %d: %v, %d entries", n, e, h.Offsets.Len())
			}
			b.ok(h.Release())
			if err == nil {
				break
			}
			if !s.Unsealed() {
				break // only closing the file failed
			}
			if !errors.Is(err, ErrNoSpace) {
				t.Errorf("operation %d: %v", n, err)
			}
			err = s.Seal()
			b.ok(err)
		}
		if !fired {
			break
		}
	}
}

// TestTruncated cuts a segment at every batch, sealed and active, while a
// reader holds it.
func TestTruncated(t *testing.T) {
	batches := history(100, 40)
	all := positions(batches)
	for i, at := range all {
		for _, seal := range []bool{true, false} {
			b := newBed(t)
			var s *Segment
			if seal {
				s = b.sealed(100, 200, batches)
			} else {
				s = b.active(100, 200, batches)
			}
			held, err := s.Acquire()
			b.ok(err)
			n, err := s.Truncated(batches[i].BaseOffset(), at, 1<<20, 200)
			b.ok(err)
			if content := b.read(name(100, KindLog)); !bytes.Equal(content, join(batches[:i])) {
				t.Fatalf("cut at %d: %d bytes", i, len(content))
			}
			// Readers find the old one until the caller retires it.
			again, err := s.Acquire()
			if err != nil || s.Size() != at {
				t.Fatalf("the old segment: %d bytes, %v", s.Size(), err)
			}
			if e := held.Offsets.Lookup(batches[i].BaseOffset() - 1); i > 0 && e.Offset >= batches[i].BaseOffset() {
				t.Errorf("the old segment: %+v", e)
			}
			b.ok(again.Release())
			b.ok(held.Release())
			b.ok(s.Retire())
			best := index.TimeEntry{Timestamp: -1, Offset: 100}
			for _, v := range batches[:i] {
				if v.MaxTimestamp() > best.Timestamp {
					best = index.TimeEntry{Timestamp: v.MaxTimestamp(), Offset: v.LastOffset()}
				}
			}
			got, err := n.Times()
			if err != nil || got.Max != best || i > 0 && got.First != batches[0].MaxTimestamp() {
				t.Errorf("cut at %d: times %+v, %v, want %+v", i, got, err, best)
			}
			if last, ok := n.active.indexer.Offsets.Last(); ok && (last.Offset >= batches[i].BaseOffset() || last.Pos >= at) {
				t.Errorf("cut at %d: entry %+v", i, last)
			}
			// It goes on as an active one.
			for _, v := range batches[i:] {
				b.append(n, v)
			}
			b.ok(n.EndTimes())
			b.ok(n.Trim())
			b.ok(n.Seal())
			b.ok(n.Retire())
			if content := b.read(name(100, KindLog)); !bytes.Equal(content, join(batches)) {
				t.Fatalf("cut at %d and continued: %d bytes", i, len(content))
			}
		}
	}
}

// TestRemoveLeavesNoHole: whatever of the directory survives a crash while
// segments are removed, those that are left follow each other.
func TestRemoveLeavesNoHole(t *testing.T) {
	dead := errors.New("dead")
	for n := 0; ; n++ {
		r := rand.New(rand.NewPCG(uint64(n), 4))
		b := newBed(t)
		var segments []*Segment
		for i := range int64(5) {
			segments = append(segments, b.sealed(i*10, 100, history(i*10, 5)))
		}
		b.ok(b.mem.SyncDir("/d"))
		fsys := faultfs.New(b.mem, faultfs.FailFrom(n, dead))
		for _, s := range segments[:4] {
			b.ok(s.Retire())
		}
		b.env.FS = fsys
		err := Remove(b.env, segments[:4]...)
		if !fsys.Fired() {
			b.ok(err)
			break
		}
		for range 10 {
			l, err := List(b.mem.CrashClone(vfs.CrashOptions{Rand: r, KeepUnsynced: 0.5, Dirs: vfs.DirOrderSubset}), "/d")
			b.ok(err)
			for i, f := range l.Segments {
				if want := int64(5-len(l.Segments)+i) * 10; f.Base != want {
					t.Fatalf("operation %d: segment %d where %d was expected", n, f.Base, want)
				}
				if f.Paths[KindOffsetIndex] == "" {
					t.Fatalf("operation %d: segment %d without its index", n, f.Base)
				}
			}
		}
	}
}
