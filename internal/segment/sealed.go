package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/vfs"
)

// mapIndexes maps the three indexes of a sealed segment into h. One that is
// missing or cannot be right is made anew from the log, in memory.
func (s *Segment) mapIndexes(h *Handle) error {
	offsets, times, err := s.mapOffsetsAndTimes(h)
	if err != nil {
		s.rebuilt(KindOffsetIndex, err)
		if offsets, times, err = Rebuild(h.File, s.Base, s.Size()); err != nil {
			return err
		}
	}
	h.Offsets, h.Times = offsets, times
	h.Txns, err = s.mapTxns(h)
	if err != nil {
		s.rebuilt(KindTxnIndex, err)
		h.Txns, err = s.env.Txns(s.Base, s.Size())
	}
	return err
}

func (s *Segment) rebuilt(k Kind, cause error) {
	if s.env.Rebuilt != nil {
		s.env.Rebuilt(s.Path(k), cause)
	}
}

func (s *Segment) mapOffsetsAndTimes(h *Handle) (*index.Offset, *index.Time, error) {
	b, err := s.mapFile(h, KindOffsetIndex)
	if err != nil {
		return nil, nil, err
	}
	offsets, err := index.ViewOffset(s.Base, b)
	if err != nil {
		return nil, nil, err
	}
	if last, ok := offsets.Last(); ok {
		if err := s.CheckEntry(h.File, last); err != nil {
			return nil, nil, err
		}
	}
	if b, err = s.mapFile(h, KindTimeIndex); err != nil {
		return nil, nil, err
	}
	times, err := index.ViewTime(s.Base, b)
	return offsets, times, err
}

func (s *Segment) mapTxns(h *Handle) (*index.Txn, error) {
	b, err := s.mapFile(h, KindTxnIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return index.NewTxn(s.Base), nil // no file, no aborted transaction
	}
	if err != nil {
		return nil, err
	}
	txns, err := index.ViewTxn(s.Base, b)
	if err != nil {
		return nil, err
	}
	return txns, txns.Check()
}

// mapFile maps a file read-only and brings it into memory, so that no reader
// ever takes a page fault that waits for the disk.
func (s *Segment) mapFile(h *Handle, k Kind) ([]byte, error) {
	f, err := s.env.FS.Open(s.Path(k))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return nil, err
	}
	m, err := f.Map(size, false)
	if err != nil {
		return nil, err
	}
	h.mappings = append(h.mappings, m)
	return m.Bytes(), m.Populate()
}

// CheckEntry verifies that a batch that ends at or after the entry's offset
// begins where an offset index entry says. An index is never evidence about
// the log.
func (s *Segment) CheckEntry(r vfs.File, e index.OffsetEntry) error {
	size := s.Size()
	if e.Pos < 0 || e.Pos+batch.HeaderSize > size {
		return &index.FormatError{Pos: e.Pos, Reason: fmt.Sprintf("entry for offset %d points behind the %d bytes of the log", e.Offset, size)}
	}
	var head [batch.HeaderSize]byte
	if _, err := r.ReadAt(head[:], e.Pos); err != nil {
		return err
	}
	n, err := batch.Frame(head[:])
	if b := batch.Batch(head[:]); err != nil || e.Pos+n > size || b.BaseOffset() > e.Offset || b.BaseOffset() < s.Base {
		return &index.FormatError{Pos: e.Pos, Reason: fmt.Sprintf("entry for offset %d points at no batch that holds it", e.Offset)}
	}
	return nil
}

// Distrust replaces the offset and time index of a sealed segment, after a
// reader found that an entry leads astray, by ones made from the log. The
// handle that the reader holds stays as it is.
func (s *Segment) Distrust(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.handle.Load()
	if old == nil || s.active != nil || s.retired {
		return nil
	}
	f, err := s.env.FS.Open(s.Path(KindLog))
	if err != nil {
		return err
	}
	h := &Handle{File: f}
	h.refs.Store(1)
	s.rebuilt(KindOffsetIndex, cause)
	if h.Offsets, h.Times, err = Rebuild(f, s.Base, s.Size()); err != nil {
		return errors.Join(err, h.Release())
	}
	if h.Txns, err = s.mapTxns(h); err != nil {
		h.Txns, err = s.env.Txns(s.Base, s.Size())
	}
	if err != nil {
		return errors.Join(err, h.Release())
	}
	s.handle.Store(h)
	return old.Release()
}

// IndexIntervalBytes is how far apart the entries of a rebuilt index are.
const IndexIntervalBytes = 4096

// Rebuild makes the offset and time index of the first size bytes of a
// segment file, as a recovery of Kafka does.
func Rebuild(r vfs.File, base, size int64) (*index.Offset, *index.Time, error) {
	x := NewIndexer(base, index.NewOffset(base), index.NewTime(base), IndexIntervalBytes)
	s := NewScanner(r, 0, size, false)
	defer s.Close()
	for s.Next() {
		if err := x.Add(s.Batch().LastOffset(), s.Batch().MaxTimestamp(), s.Pos(), len(s.Batch())); err != nil {
			return nil, nil, err
		}
	}
	if s.Err() != nil {
		return nil, nil, s.Err()
	}
	if err := x.Finish(); err != nil {
		return nil, nil, err
	}
	return x.Offsets, x.TimeIndex, nil
}

// WriteIndexes writes the three index files of a segment whole, each under a
// temporary name that is renamed into place. Synced are the files, not the
// directory. An empty transaction index leaves no file, as in Kafka.
func (s *Segment) WriteIndexes(offsets *index.Offset, times *index.Time, txns *index.Txn) error {
	for _, x := range []struct {
		kind  Kind
		bytes []byte
	}{
		{KindOffsetIndex, offsets.AppendTo(nil, 0)},
		{KindTimeIndex, times.AppendTo(nil, 0)},
		{KindTxnIndex, txns.AppendTo(nil, 0)},
	} {
		path := s.Path(x.kind)
		if x.kind == KindTxnIndex && len(x.bytes) == 0 {
			if err := s.env.FS.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			continue
		}
		if err := vfs.WriteTemp(s.env.FS, path+".tmp", x.bytes); err != nil {
			return err
		}
		if err := s.env.FS.Rename(path+".tmp", path); err != nil {
			return err
		}
	}
	return nil
}
