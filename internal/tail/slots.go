package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/vfs"
)

// SlotsOptions says what file Slots has.
type SlotsOptions struct {
	Bytes     int64    // of the whole file, at most; 0: 64 MiB
	SlotBytes int64    // of a slot, a multiple of 4 KiB, at least 16 KiB; 0: 1 MiB
	Boot      [16]byte // vfs.Place.Boot of the directory
	Store     [8]byte  // names the store: a file of another one is known by ReadStore
}

func (o SlotsOptions) withDefaults() SlotsOptions {
	if o.Bytes == 0 {
		o.Bytes = 64 << 20
	}
	if o.SlotBytes == 0 {
		o.SlotBytes = 1 << 20
	}
	return o
}

// header is the header of the file, or what is wrong with the options.
func (o SlotsOptions) header() (fileHeader, error) {
	h := fileHeader{slotBytes: o.SlotBytes, boot: o.Boot, store: o.Store}
	if o.SlotBytes > 0 {
		h.count = int(min((o.Bytes-blockBytes)/o.SlotBytes, fileBytesMax))
	}
	if reason := h.wrong(); reason != "" {
		return h, fmt.Errorf("tail: a file of %d bytes: %s", o.Bytes, reason)
	}
	return h, nil
}

// Slots is memory of a mapped file for the tails of a store, for level OS: what
// is published in it survives the end of the process, and ReadSlots finds it.
// Safe for concurrent use.
type Slots struct {
	// Set by OpenSlots.
	fsys     vfs.FS
	dir      string
	mapping  vfs.Mapping
	all      []*slot
	chunkMax int

	room     room
	sequence atomic.Uint64 // of the last slot header
	refs     atomic.Int64  // chunks, and the opener as one; 0: unmapped

	settleMu  sync.Mutex // being the one who settles; taken by no holder of mu
	settleErr error      // of the first sync that failed; guarded by settleMu

	mu      sync.Mutex // leaf, taken once in the life of a chunk and once at its end
	unused  []*slot
	closed  bool
	refused int64
}

// SlotsStats is what Slots tells of itself.
type SlotsStats struct {
	Slots   int
	Taken   int   // slots that chunks have, or that wait for the next recovery
	Refused int64 // calls of Take that found no slot, ever
}

// OpenSlots makes the file FileName in a directory and maps it, or takes over
// the one that is there: its slots must have been recovered, for all of them are
// free and durably so on return. A file of another geometry is replaced; a
// damaged or newer one is refused with the errors of ReadSlots.
func OpenSlots(fsys vfs.FS, dir string, o SlotsOptions) (*Slots, error) {
	h, err := o.withDefaults().header()
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, FileName)
	found, err := readFileHeader(fsys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s := &Slots{fsys: fsys, dir: dir}
	if err == nil && found.slotBytes == h.slotBytes && found.count == h.count {
		err = s.takeOver(name, h)
	} else {
		err = s.create(name, h)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return s, nil
}

// create makes the file under another name first: under its own it is whole.
func (s *Slots) create(name string, h fileHeader) error {
	temp := name + ".tmp"
	f, err := s.fsys.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if err := writeZeros(f, h.fileBytes()); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := s.start(f, h); err != nil {
		return err
	}
	if err := s.fsys.Rename(temp, name); err != nil {
		return errors.Join(err, s.mapping.Close())
	}
	if err := s.fsys.SyncDir(s.dir); err != nil {
		return errors.Join(err, s.mapping.Close())
	}
	return nil
}

// writeZeros writes size bytes, so that no page of the file is a hole.
func writeZeros(f vfs.File, size int64) error {
	zeros := make([]byte, min(size, 1<<20))
	for pos := int64(0); pos < size; pos += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-pos)], pos); err != nil {
			return err
		}
	}
	return nil
}

func (s *Slots) takeOver(name string, h fileHeader) error {
	f, err := s.fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return s.start(f, h)
}

// start maps the file, frees all slots, and closes the file, which the mapping
// does not need. Until the header of the file is of this boot, a process that
// ends here leaves it for ReadSlots as it was found, but for slots that are free.
func (s *Slots) start(f vfs.File, h fileHeader) error {
	mapping, err := f.Map(h.fileBytes(), true)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.mapping = mapping
	if err := errors.Join(s.freeAll(f, h), f.Close()); err != nil {
		return errors.Join(err, mapping.Close())
	}
	s.touch()
	s.refs.Store(1)
	return nil
}

func (s *Slots) freeAll(f vfs.File, h fileHeader) error {
	b := s.mapping.Bytes()
	for i := range h.count {
		from, to := h.slotPos(i), h.slotPos(i+1)
		sl := newSlot(s, i, b[from:to:to])
		if old, ok := newestHeader(sl.block, i); ok {
			s.sequence.Store(max(s.sequence.Load(), old.sequence))
		}
		s.all = append(s.all, sl)
	}
	for i := len(s.all) - 1; i >= 0; i-- {
		s.all[i].published.Store(0)
		s.all[i].free()
		s.unused = append(s.unused, s.all[i])
	}
	s.chunkMax = (len(s.all[0].area) - descriptorSize) / 4
	if err := s.Settle(); err != nil {
		return err
	}
	if _, err := f.WriteAt(h.encode(), 0); err != nil {
		return err
	}
	return f.Sync()
}

// touch writes to every page of data, so that no append waits for the first use
// of one. What the pages hold is of no slot.
func (s *Slots) touch() {
	for _, sl := range s.all {
		for pos := 0; pos < len(sl.area); pos += pageBytes {
			sl.area[pos] = 0
		}
	}
}

// ChunkMax implements Source: a quarter of a slot.
func (s *Slots) ChunkMax() int { return s.chunkMax }

// Freed implements Source.
func (s *Slots) Freed() <-chan struct{} { return s.room.wait() }

// Stats counts now.
func (s *Slots) Stats() SlotsStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SlotsStats{Slots: len(s.all), Taken: len(s.all) - len(s.unused), Refused: s.refused}
}

// Take implements Source. A chunk is always a whole slot.
func (s *Slots) Take(id Identity, pos, offset int64, size, _ int) *Chunk {
	if size > s.chunkMax {
		return nil
	}
	sl := s.takeUnused()
	if sl == nil {
		return nil
	}
	generation := rand.Uint64()
	if plant.Enabled && plant.Is(plant.StaleSlot) {
		generation = 1
	}
	sl.take(slotHeader{
		sequence: s.sequence.Add(1), generation: generation, state: stateUsed,
		identity: id, pos: pos, offset: offset, slot: sl.number,
	})
	c := newChunk(s, sl.area, pos)
	c.slot = sl
	return c
}

func (s *Slots) takeUnused() *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.unused)
	if n == 0 || s.closed {
		s.refused++
		return nil
	}
	sl := s.unused[n-1]
	s.unused = s.unused[:n-1]
	s.refs.Add(1)
	return sl
}

// giveBack implements home.
func (s *Slots) giveBack(c *Chunk) {
	s.putUnused(c.slot)
	s.room.announce()
	// Unmapping after Close, with nobody left to tell.
	_ = s.release()
}

func (s *Slots) putUnused(sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.idle = sl.kept
	if !sl.kept {
		s.unused = append(s.unused, sl)
	}
}

// Reclaim frees the slots that closed tails of a partition left taken: what they
// hold is in the segments by now, or not wanted any more.
func (s *Slots) Reclaim(topic [16]byte, partition int32) {
	s.mu.Lock()
	var kept []*slot
	for _, sl := range s.all {
		if sl.kept && sl.header.identity.Topic == topic && sl.header.identity.Partition == partition {
			kept = append(kept, sl)
		}
	}
	for _, sl := range kept {
		sl.free()
		sl.kept = false
		if sl.idle { // else its last reader gives it back
			sl.idle = false
			s.unused = append(s.unused, sl)
		}
	}
	s.mu.Unlock()
	if len(kept) > 0 {
		s.room.announce()
	}
}

// release gives back one use of the mapping.
func (s *Slots) release() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	return s.mapping.Close()
}

// Settle makes durable that slots are free which were given back, and that
// batches are gone which Cut took away. It is called before a truncation is
// answered, and costs a flush for each slot that changed hands since the last
// call. An error is final, for what a failed sync covered may be gone although a
// second one succeeds: every later call gives it again.
func (s *Slots) Settle() error {
	// Or a second caller would return while the first still syncs for both.
	s.settleMu.Lock()
	defer s.settleMu.Unlock()
	if s.settleErr == nil {
		s.settleErr = s.settle()
	}
	return s.settleErr
}

func (s *Slots) settle() error {
	for _, sl := range s.all {
		stale := sl.stale.Swap(0)
		if stale == 0 {
			continue
		}
		size := int64(blockBytes)
		if stale == staleAll {
			size += int64(len(sl.area))
		}
		if err := s.mapping.Sync(blockBytes+int64(sl.number)*int64(blockBytes+len(sl.area)), size); err != nil {
			return fmt.Errorf("sync slot %d of %s: %w", sl.number, FileName, err)
		}
	}
	return nil
}

// Close ends the use of the file; Take gives nothing any more. The tails should
// be closed before; a chunk in use keeps the mapping until it is given back.
//
// With remove the file is removed, durably: for a clean end. If slots are still
// taken it stays, and the error is ErrTaken.
func (s *Slots) Close(remove bool) error {
	taken := s.close()
	err := s.release()
	switch {
	case !remove:
		return err
	case taken > 0:
		return errors.Join(err, fmt.Errorf("remove %s with %d slots in use: %w", FileName, taken, ErrTaken))
	}
	if removeErr := s.fsys.Remove(filepath.Join(s.dir, FileName)); removeErr != nil {
		return errors.Join(err, removeErr)
	}
	return errors.Join(err, s.fsys.SyncDir(s.dir))
}

func (s *Slots) close() (taken int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return len(s.all) - len(s.unused)
}
