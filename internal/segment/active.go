package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/vfs"
)

// active is what a segment has while it is written: guarded by the log's
// append lock, but for the file, which the flusher syncs.
type active struct {
	file      vfs.File // the tail, if there is one
	indexer   *Indexer
	txns      *index.Txn
	allocated int64  // bytes of the file that have blocks; appends stay below
	limit     int64  // never allocated beyond
	written   [3]int // entries of each index that its file holds, -1: perhaps others; one checkpoint at a time
}

// unwritten is what is known of the index files of a segment just opened, and
// fresh of those of a new one, which has none.
var (
	unwritten = [3]int{-1, -1, -1}
	fresh     = [3]int{-1, -1, 0}
)

// ErrNoSpace says that the device has no room for the next piece of a
// segment. Nothing was written; appends work again once there is room.
var ErrNoSpace = errors.New("segment: no space left on device")

// Steps by which the file of an active segment grows. An idle partition must
// cost little disk, a busy one few extensions.
const (
	allocateFirst = 32 << 10
	allocateMax   = 16 << 20
	// MarkerReserve is kept free at the end of what is allocated for markers,
	// so that transactions still end on a full disk.
	MarkerReserve = 4 << 10
)

// Create makes the file of a new active segment at base, empty, with room for
// the given number of bytes. prepared says that PreparedName is there for it,
// which is all the room there is then. The caller syncs the directory before
// anything in the segment counts as durable. ErrNoSpace leaves no file.
func Create(env *Environment, base, limit int64, interval int, prepared bool, room int64) (*Segment, error) {
	s := &Segment{Base: base, env: env}
	path := s.Path(KindLog)
	if prepared {
		if err := env.FS.Rename(filepath.Join(env.Dir, PreparedName), path); err != nil {
			return nil, fmt.Errorf("create segment %d: %w", base, NoSpace(err))
		}
	}
	flags := os.O_RDWR | os.O_CREATE
	if !prepared {
		flags |= os.O_TRUNC
	}
	f, err := env.FS.OpenFile(path, flags, 0o644)
	if err != nil && prepared {
		return nil, fmt.Errorf("create segment %d: %w", base, err) // the file is there
	}
	if err != nil {
		return nil, fmt.Errorf("create segment %d: %w", base, NoSpace(err))
	}
	x := NewIndexer(base, index.NewOffset(base), index.NewTime(base), int64(interval))
	a := &active{file: f, indexer: x, txns: index.NewTxn(base), limit: limit, written: fresh}
	s.cover(a)
	if prepared {
		if a.allocated, err = f.Size(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	s.activate(a)
	if prepared || room == 0 {
		return s, nil
	}
	if err := s.Extend(room); err != nil {
		closed, removed := s.Retire(), env.FS.Remove(path)
		if closed != nil || removed != nil {
			return nil, fmt.Errorf("create segment %d: %v, then %w", base, err, errors.Join(closed, removed))
		}
		return nil, err
	}
	return s, nil
}

// PreparedBytes is how much of the next segment is allocated ahead.
const PreparedBytes = allocateMax

// Prepare makes the file that Create takes later, of size bytes with blocks,
// and makes its name durable.
func Prepare(env *Environment, size int64) error {
	path := filepath.Join(env.Dir, PreparedName)
	f, err := env.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return NoSpace(err)
	}
	if err := allocate(f, size); err != nil {
		return errors.Join(err, f.Close(), env.FS.Remove(path))
	}
	if err := f.Close(); err != nil {
		return err
	}
	return env.FS.SyncDir(env.Dir)
}

// Unprepare removes a prepared file, if there is one.
func Unprepare(env *Environment) error {
	err := env.FS.Remove(filepath.Join(env.Dir, PreparedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Continue makes the last segment of a log writable: x holds its indexes up to
// size. With write false (a log opened read-only) it only serves readers.
func Continue(env *Environment, f SegmentFiles, x *Indexer, txns *index.Txn, size, limit int64, write bool) (*Segment, error) {
	s := &Segment{Base: f.Base, env: env, paths: f.Paths}
	var file vfs.File
	var err error
	if write {
		file, err = env.FS.OpenFile(s.Path(KindLog), os.O_RDWR, 0)
	} else {
		file, err = env.FS.Open(s.Path(KindLog))
	}
	if err != nil {
		return nil, fmt.Errorf("open segment %d: %w", f.Base, err)
	}
	s.size.Store(size)
	a := &active{file: file, indexer: x, txns: txns, allocated: min(size, f.Size), limit: limit, written: unwritten}
	if write {
		s.cover(a)
	}
	s.activate(a)
	return s, nil
}

// cover lays a tail over the file of an active segment, if the log has one.
func (s *Segment) cover(a *active) {
	if e := s.env; e.Tailed {
		t := tail.New(a.file, tail.Identity{Topic: e.Topic, Partition: e.Partition, Segment: s.Base})
		a.file = t
		s.tail.Store(t)
	}
}

func (s *Segment) activate(a *active) {
	s.active = a
	h := &Handle{File: a.file, Offsets: a.indexer.Offsets, Times: a.indexer.TimeIndex, Txns: a.txns}
	h.refs.Store(1)
	s.handle.Store(h)
}

// Room says how many bytes can be appended before the file has to grow.
func (s *Segment) Room() int64 { return s.active.allocated - s.size.Load() }

// Extend makes room for at least n more bytes, in steps that grow with the
// segment. Writer only. A full disk is ErrNoSpace and changes nothing.
func (s *Segment) Extend(n int64) error {
	a, size := s.active, s.size.Load()
	step := min(max(size, allocateFirst), allocateMax)
	want := max(size+n, min(size+step, a.limit))
	if want <= a.allocated {
		return nil
	}
	err := allocate(a.file, want)
	if errors.Is(err, ErrNoSpace) && size+n < want {
		want = size + n // the last of the room is used too
		err = allocate(a.file, want)
	}
	if err == nil {
		a.allocated = max(a.allocated, want)
	}
	return err
}

func allocate(f vfs.File, size int64) error {
	return NoSpace(f.Allocate(size))
}

// NoSpace makes what a full disk says an ErrNoSpace.
func NoSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// Write puts whole batches into the file behind the published bytes, without
// publishing them. Writer only; there must be room.
func (s *Segment) Write(vecs [][]byte) error {
	if t := s.tail.Load(); t != nil {
		t.Skip()
	}
	_, err := s.active.file.WriteVAt(vecs, s.size.Load())
	return err
}

// Entry is what the indexes need to know of one written batch.
type Entry struct {
	LastOffset   int64
	MaxTimestamp int64
	Size         int
}

// Index adds a written batch, that starts pos bytes behind the published
// ones, to the offset and time index. Writer only.
func (s *Segment) Index(e Entry, pos int64) error {
	s.timesMu.Lock()
	defer s.timesMu.Unlock()
	return s.active.indexer.Add(e.LastOffset, e.MaxTimestamp, s.size.Load()+pos, e.Size)
}

// IndexAborted adds an aborted transaction whose marker was written here.
func (s *Segment) IndexAborted(t index.AbortedTxn) error { return s.active.txns.Append(t) }

// Publish lets readers see n more written and indexed bytes.
func (s *Segment) Publish(n int64) { s.size.Add(n) }

// IndexesFull tells whether an index of the segment has as many entries as
// Kafka allows a file of indexBytes; the time index keeps one for the end.
func (s *Segment) IndexesFull(indexBytes int) bool {
	x := s.active.indexer
	return x.Offsets.Len() >= indexBytes/index.OffsetEntrySize || x.TimeIndex.Len() >= indexBytes/index.TimeEntrySize-1
}

// FirstTimestamp is that of the first batch, as in Times. Writer only.
func (s *Segment) FirstTimestamp() int64 { return s.active.indexer.Times.First }

// Times tells the greatest timestamp of the segment, and the first.
func (s *Segment) Times() (Times, error) {
	s.timesMu.Lock()
	defer s.timesMu.Unlock()
	if s.times != nil {
		return *s.times, nil
	}
	if a := s.active; a != nil {
		return a.indexer.Times, nil
	}
	h, err := s.Acquire()
	if err != nil {
		return Times{}, err
	}
	defer h.Release()
	t := Times{Max: index.TimeEntry{Timestamp: -1, Offset: s.Base}, First: -1}
	if last, ok := h.Times.Last(); ok {
		t.Max = last
	}
	s.times = &t
	return t, nil
}
