package segment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/vfs"
)

// Sync makes the published bytes durable in the file, unless they are. At most
// one call at a time. A failed one is final: the caller latches the log.
func (s *Segment) Sync() error { return s.SyncTo(s.size.Load()) }

// SyncTo is Sync for the bytes below size.
func (s *Segment) SyncTo(size int64) error {
	if s.synced.Load() >= size {
		return nil
	}
	if err := s.WriteBack(size, 0); err != nil {
		return err
	}
	h, err := s.Acquire()
	if err != nil {
		return err
	}
	err = errors.Join(h.File.Datasync(), h.Release())
	if err == nil {
		s.synced.Store(size)
	}
	return err
}

// EndTimes adds the closing entry of the time index. Writer only.
func (s *Segment) EndTimes() error {
	s.timesMu.Lock()
	defer s.timesMu.Unlock()
	return s.active.indexer.Finish()
}

// Unsealed tells whether the segment still has the state of an active one.
func (s *Segment) Unsealed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active != nil
}

// Trim cuts the allocated space behind the published bytes off and syncs the
// file. Nobody may append any more.
func (s *Segment) Trim() error {
	size := s.size.Load()
	if s.active.allocated > size {
		if err := s.active.file.Truncate(size); err != nil {
			return err
		}
		s.active.allocated = size
	}
	if err := s.active.file.Sync(); err != nil {
		return err
	}
	s.synced.Store(size)
	return nil
}

// Seal writes the indexes and turns the segment into a sealed one, whose
// indexes are mapped at the next use. EndTimes and Trim come before. One call
// at a time; readers go on meanwhile. After ErrNoSpace it can be called again.
func (s *Segment) Seal() error {
	x := s.active.indexer
	if err := s.WriteIndexes(x.Offsets, x.TimeIndex, s.active.txns); err != nil {
		return err
	}
	s.timesMu.Lock()
	times := x.Times
	s.times = &times
	s.timesMu.Unlock()
	s.written(s.active.txns)
	s.mu.Lock()
	s.active = nil
	s.tail.Store(nil)
	h := s.handle.Swap(nil)
	s.mu.Unlock()
	if h == nil {
		return nil
	}
	return h.Release()
}

// written notes which index files there are now.
func (s *Segment) written(txns *index.Txn) {
	s.pathsMu.Lock()
	defer s.pathsMu.Unlock()
	for k := KindOffsetIndex; k < KindSnapshot; k++ {
		s.paths[k] = filepath.Join(s.env.Dir, FileName(s.Base, k))
	}
	if txns.Len() == 0 {
		s.paths[KindTxnIndex] = ""
	}
}

// FlushIndexes writes what the index files of the active segment lack, and syncs
// them, though not the directory: what they say of batches that a crash takes,
// recovery does not believe, since it lies above the recovery point. A file that
// was there before the segment was opened is replaced, never cut or written
// over: a reader, here or in another process, may have it mapped. ErrNoSpace
// leaves the rest for another call. One call at a time; the log's checkpoints
// call it beside appends.
func (s *Segment) FlushIndexes() error {
	a := s.active
	for i, x := range []struct {
		kind  Kind
		n     int
		bytes func(dst []byte, from int) []byte
		size  int
	}{
		{KindOffsetIndex, a.indexer.Offsets.Len(), a.indexer.Offsets.AppendTo, index.OffsetEntrySize},
		{KindTimeIndex, a.indexer.TimeIndex.Len(), a.indexer.TimeIndex.AppendTo, index.TimeEntrySize},
		{KindTxnIndex, a.txns.Len(), a.txns.AppendTo, index.TxnEntrySize},
	} {
		if err := s.flushIndex(i, x.kind, x.n, x.bytes, x.size); err != nil {
			return err
		}
	}
	return nil
}

// FlushTxnIndex is FlushIndexes for the aborted transactions alone, and tells
// whether there was anything to write.
func (s *Segment) FlushTxnIndex() (bool, error) {
	const i = int(KindTxnIndex - KindOffsetIndex)
	x := s.active.txns
	if x.Len() == s.active.written[i] {
		return false, nil
	}
	return true, s.flushIndex(i, KindTxnIndex, x.Len(), x.AppendTo, index.TxnEntrySize)
}

func (s *Segment) flushIndex(i int, k Kind, n int, appendTo func(dst []byte, from int) []byte, entrySize int) error {
	a := s.active
	if n == a.written[i] {
		return nil
	}
	from := max(a.written[i], 0)
	// More may come meanwhile.
	entries := appendTo(nil, from)[:(n-from)*entrySize]
	var err error
	switch {
	case a.written[i] > 0:
		err = s.growIndex(k, entries, int64(from*entrySize))
	case k == KindTxnIndex && n == 0: // an empty one is not made, but a stale one is emptied
		if _, err = s.env.FS.Stat(s.Path(k)); err == nil {
			err = s.replaceIndex(k, nil)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		err = s.replaceIndex(k, entries)
	}
	if err == nil {
		a.written[i] = n
	}
	return NoSpace(err)
}

// growIndex puts entries at the end, which lies at pos, of an index file that
// this segment wrote.
func (s *Segment) growIndex(k Kind, entries []byte, pos int64) error {
	f, err := s.env.FS.OpenFile(s.Path(k), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(entries, pos); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// replaceIndex makes an index file anew.
func (s *Segment) replaceIndex(k Kind, content []byte) error {
	path := s.Path(k)
	if err := vfs.WriteTemp(s.env.FS, path+".tmp", content); err != nil {
		// What a full disk has of it takes room; a leftover does no harm.
		_ = s.env.FS.Remove(path + ".tmp")
		return err
	}
	return s.env.FS.Rename(path+".tmp", path)
}

// RewriteLength sets the length of a file so that the next sync stores it, also
// if it is that length already: after a failed sync the system may think it did.
func RewriteLength(f vfs.File, size int64) error {
	if err := f.Truncate(size + 1); err != nil {
		return err
	}
	return f.Truncate(size)
}

// Truncated makes of the segment one that ends at byte size, which is the start
// of the batch with the given base offset: the file is cut and synced, index
// entries at or above offset are gone. The new segment is active. This one ends
// there too and stays readable, so that the caller retires it once no reader
// finds it any more. Writer only, and no flush may be under way. The caller syncs
// the directory; on a full disk the indexes are left to FlushIndexes.
func (s *Segment) Truncated(offset, size, limit int64, interval int) (*Segment, error) {
	h, err := s.Acquire()
	if err != nil {
		return nil, err
	}
	defer h.Release()
	x := NewIndexer(s.Base, h.Offsets.Truncated(offset), h.Times.Truncated(offset), int64(interval))
	txns := h.Txns.Truncated(offset)
	from := int64(0)
	if last, ok := x.TimeIndex.Last(); ok {
		from = s.Seek(h, last.Offset)
	}
	if err := x.recount(h.File, from, size); err != nil {
		return nil, err
	}
	n, err := Continue(s.env, SegmentFiles{Base: s.Base, Size: size}, x, txns, size, limit, true)
	if err != nil {
		return nil, err
	}
	s.size.Store(size)            // before the cut: who reads past it looks here
	n.active.allocated = size + 1 // so that Trim cuts
	if plant.Enabled && plant.Is(plant.NotCut) {
		n.active.allocated = size
	}
	if err := n.Trim(); err != nil {
		return nil, errors.Join(err, n.Retire())
	}
	if err := n.FlushIndexes(); err != nil && !errors.Is(err, ErrNoSpace) {
		return nil, errors.Join(err, n.Retire())
	}
	return n, nil
}

// recount finds the greatest timestamp among the batches from a position on,
// where the last time index entry leads, and that of the first batch.
func (x *Indexer) recount(r vfs.File, from, size int64) error {
	s := NewScanner(r, from, size, false)
	defer s.Close()
	for s.Next() {
		b := s.Batch()
		if b.MaxTimestamp() > x.Times.Max.Timestamp {
			x.Times.Max = index.TimeEntry{Timestamp: b.MaxTimestamp(), Offset: b.LastOffset()}
		}
	}
	if s.Err() != nil {
		return s.Err()
	}
	first, err := FirstTimestamp(r, size)
	x.Times.First = first
	return err
}

// FirstTimestamp is the max timestamp of the first batch of a segment file,
// batch.None if there is none.
func FirstTimestamp(r vfs.File, size int64) (int64, error) {
	if size < batch.HeaderSize {
		return batch.None, nil
	}
	var head [batch.HeaderSize]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return 0, err
	}
	return batch.Batch(head[:]).MaxTimestamp(), nil
}
