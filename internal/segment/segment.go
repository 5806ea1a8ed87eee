package segment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/vfs"
)

// ErrGone says that the segment was deleted or its log closed. A reader looks
// at the current list of segments again.
var ErrGone = errors.New("segment: gone")

// Environment is what all segments of a partition share.
type Environment struct {
	FS    vfs.FS
	Dir   string
	Files *Files // limits how many sealed segments are open; nil: no limit
	// Tailed lays a tail over the file of the active segment, which appends may
	// go into; Topic and Partition say whose it is.
	Tailed    bool
	Topic     [16]byte
	Partition int32
	// IndexIntervalBytes is how far apart the entries of an index are that is
	// made anew; 0: 4096.
	IndexIntervalBytes int
	// Txns makes the aborted-transaction index of a sealed segment anew from
	// the log, when the file beside it cannot be used. The bytes alone do not
	// tell where a transaction began that an earlier segment holds.
	Txns func(base, size int64) (*index.Txn, error)
	// Rebuilt is told of every index that could not be used and was made anew.
	Rebuilt func(file string, cause error)
}

// Segment is one segment of a partition. All methods are safe beside one
// writer; those that write say so.
type Segment struct {
	// Set by Open or Create.
	Base int64
	env  *Environment

	size   atomic.Int64 // bytes of whole, published batches
	synced atomic.Int64 // bytes known to be on the device
	handle atomic.Pointer[Handle]
	used   atomic.Bool // acquired since Files last looked
	wrong  atomic.Bool // an index file of the sealed segment was found unusable

	mu      sync.Mutex // opening and closing the handle
	retired bool

	pathsMu sync.Mutex // leaf
	paths   Paths

	active *active // of the active segment and one not yet sealed, else nil

	writeMu sync.Mutex                // whoever writes memory of the tail into the file
	tail    atomic.Pointer[tail.Tail] // of an unsealed segment; nil: appends go straight to the file

	abortedMin atomic.Pointer[int64] // of a sealed segment, once looked at

	timesMu sync.Mutex // leaf
	times   *Times     // immutable once set for a sealed segment
}

// Times is what a segment knows about the timestamps of its batches.
type Times struct {
	Max   index.TimeEntry // greatest timestamp, and the last offset of the first batch that has it; timestamp -1: none
	First int64           // max timestamp of the first batch, -1: none; rolling by age counts from it
}

// Handle is an acquired segment: its file and its indexes. They stay usable
// until Release.
type Handle struct {
	File    vfs.File
	Offsets *index.Offset
	Times   *index.Time
	Txns    *index.Txn

	refs     atomic.Int32 // 0: closed
	mappings []vfs.Mapping
}

func (h *Handle) tryRef() bool {
	for {
		n := h.refs.Load()
		if n <= 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives the handle back; the last one out closes the files.
func (h *Handle) Release() error {
	if h.refs.Add(-1) > 0 {
		return nil
	}
	var err error
	for _, m := range h.mappings {
		err = errors.Join(err, m.Close())
	}
	return errors.Join(err, h.File.Close())
}

// OpenSealed is the sealed segment that a listing tells of. Its files are
// opened at the first Acquire.
func OpenSealed(env *Environment, f SegmentFiles) *Segment {
	s := &Segment{Base: f.Base, env: env, paths: f.Paths}
	s.size.Store(f.Size)
	s.synced.Store(f.Size)
	return s
}

// Size is the bytes of whole batches that readers may see.
func (s *Segment) Size() int64 { return s.size.Load() }

// Path is where a file of the segment lies now, or would.
func (s *Segment) Path(k Kind) string {
	s.pathsMu.Lock()
	defer s.pathsMu.Unlock()
	if s.paths[k] != "" {
		return s.paths[k]
	}
	return filepath.Join(s.env.Dir, FileName(s.Base, k))
}

// SetPaths follows the renames of Listing.Apply.
func (s *Segment) SetPaths(p Paths) {
	s.pathsMu.Lock()
	defer s.pathsMu.Unlock()
	s.paths = p
}

// Acquire pins the segment for reading. Without a lock when it is open; else
// its file is opened and its indexes are mapped. ErrGone after Retire.
func (s *Segment) Acquire() (*Handle, error) {
	for {
		if h := s.handle.Load(); h != nil && h.tryRef() {
			if !s.used.Load() {
				s.used.Store(true)
			}
			return h, nil
		}
		if err := s.open(); err != nil {
			return nil, err
		}
	}
}

// open makes the handle of a sealed segment.
func (s *Segment) open() error {
	opened, anew, err := s.openOnce()
	s.tell(anew)
	if opened && s.env.Files != nil {
		s.env.Files.opened(s)
	}
	return err
}

func (s *Segment) openOnce() (opened bool, anew []unusable, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false, nil, ErrGone
	}
	if s.handle.Load() != nil {
		return false, nil, nil
	}
	f, err := s.env.FS.Open(s.Path(KindLog))
	if err != nil {
		return false, nil, fmt.Errorf("open segment %d: %w", s.Base, err)
	}
	h := &Handle{File: f}
	h.refs.Store(1)
	if anew, err = s.mapIndexes(h); err != nil {
		return false, anew, errors.Join(fmt.Errorf("open segment %d: %w", s.Base, err), h.Release())
	}
	s.handle.Store(h)
	if len(anew) > 0 {
		s.wrong.Store(true)
	}
	return true, anew, nil
}

// drop closes the handle of a sealed segment once nobody uses it; the next
// Acquire opens it again. The handle of a segment that is not sealed stays.
func (s *Segment) drop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != nil {
		return nil
	}
	if h := s.handle.Swap(nil); h != nil {
		return h.Release()
	}
	return nil
}

// AbortedMin is the smallest first offset of the aborted transactions whose
// marker is in this segment, math.MaxInt64 if there are none. A sealed segment
// without a transaction index file costs nothing; another is opened once.
func (s *Segment) AbortedMin() (int64, error) {
	if known := s.abortedMin.Load(); known != nil {
		return *known, nil
	}
	sealed, none := !s.Unsealed(), !s.has(KindTxnIndex) && s.has(KindOffsetIndex)
	if sealed && none {
		s.abortedMin.Store(&noAborted)
		return noAborted, nil
	}
	h, err := s.Acquire()
	if err != nil {
		return 0, err
	}
	least := h.Txns.MinFirst()
	if err := h.Release(); err != nil || !sealed {
		return least, err
	}
	kept := least
	s.abortedMin.Store(&kept)
	return least, nil
}

var noAborted int64 = math.MaxInt64

// has tells whether the segment had a file of a kind when it was listed, or got
// it since.
func (s *Segment) has(k Kind) bool {
	s.pathsMu.Lock()
	defer s.pathsMu.Unlock()
	return s.paths[k] != ""
}

// Retire ends the segment's life: no new handles, the files are closed when
// the last reader releases its own. It does not remove files.
func (s *Segment) Retire() error {
	s.mu.Lock()
	s.retired = true
	h := s.handle.Swap(nil)
	s.mu.Unlock()
	if s.env.Files != nil {
		s.env.Files.forget(s)
	}
	if h != nil {
		return h.Release()
	}
	return nil
}

// Remove removes the files of retired segments, durably. Each is renamed to
// .deleted first, so that a later segment of the same name is never hit. The
// .log files go before the rest: an index without a .log is nothing, a .log
// without its indexes would have to be looked at. And they go in the given
// order, whatever order the file system keeps, so that a crash leaves no hole.
func Remove(env *Environment, segments ...*Segment) error {
	for _, s := range segments {
		if err := s.remove(KindLog); err != nil {
			return err
		}
		if err := env.FS.SyncDir(env.Dir); err != nil {
			return err
		}
	}
	for _, s := range segments {
		for k := KindOffsetIndex; k < KindSnapshot; k++ {
			if err := s.remove(k); err != nil {
				return err
			}
		}
	}
	return env.FS.SyncDir(env.Dir)
}

func (s *Segment) remove(k Kind) error {
	to := filepath.Join(s.env.Dir, Name{Offset: s.Base, Kind: k, Suffix: SuffixDeleted}.String())
	err := s.env.FS.Rename(s.Path(k), to)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.env.FS.Remove(to)
}
