package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/vfs"
)

// unusable is an index that had to be made anew.
type unusable struct {
	file  string
	cause error
}

// mapIndexes maps the three indexes of a sealed segment into h. One that is
// missing or cannot be right is made anew from the log, in memory. A
// transaction index that is there and cannot be read is an error: the log may
// not say any more where a transaction began.
func (s *Segment) mapIndexes(h *Handle) (anew []unusable, err error) {
	offsets, times, err := s.mapOffsetsAndTimes(h)
	if err != nil {
		anew = append(anew, unusable{s.Path(KindOffsetIndex), err})
		if offsets, times, err = Rebuild(h.File, s.Base, s.Size(), s.env.interval()); err != nil {
			return anew, err
		}
	}
	h.Offsets, h.Times = offsets, times
	h.Txns, err = s.mapTxns(h)
	if _, wrong := errors.AsType[*index.FormatError](err); wrong {
		anew = append(anew, unusable{s.Path(KindTxnIndex), err})
		h.Txns, err = s.env.Txns(s.Base, s.Size())
	}
	return anew, err
}

// tell reports indexes that were made anew. No lock may be held.
func (s *Segment) tell(anew []unusable) {
	if s.env.Rebuilt == nil {
		return
	}
	for _, u := range anew {
		s.env.Rebuilt(u.file, u.cause)
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
	if err := offsets.Check(); err != nil {
		return nil, nil, err
	}
	if b, err = s.mapFile(h, KindTimeIndex); err != nil {
		return nil, nil, err
	}
	times, err := index.ViewTime(s.Base, b)
	if err != nil {
		return nil, nil, err
	}
	if err := times.Check(); err != nil {
		return nil, nil, err
	}
	return offsets, times, CheckTimes(h.File, s.Size(), offsets, times)
}

// CheckTimes verifies what a wrong time index would hide records, or delete
// them early, by: that it is not empty beside records that have a timestamp,
// and that its last entry tells the timestamp of the batch that it names,
// unless compaction took that one. r holds size bytes of batches. What is wrong
// is an *index.FormatError. Other entries are looked at when they are used.
func CheckTimes(r vfs.File, size int64, offsets *index.Offset, times *index.Time) error {
	last, ok := times.Last()
	if !ok {
		first, err := FirstTimestamp(r, size)
		if err == nil && first >= 0 {
			err = &index.FormatError{Reason: fmt.Sprintf("no entry in the time index, the first batch is of %d", first)}
		}
		return err
	}
	_, err := checkTime(r, size, offsets.Lookup(last.Offset).Pos, last)
	return err
}

// checkTime verifies that an entry of the time index tells the timestamp of the
// batch that holds its offset, which a walk from pos on meets. known is false if
// there is none: compaction took it, or the offset is wrong.
func checkTime(r vfs.File, size, pos int64, e index.TimeEntry) (known bool, err error) {
	var head [batch.HeaderSize]byte
	for pos >= 0 && pos+batch.HeaderSize <= size {
		if _, err := r.ReadAt(head[:], pos); err != nil {
			return false, err
		}
		n, err := batch.Frame(head[:])
		b := batch.Batch(head[:])
		switch {
		case err != nil:
			return false, &index.FormatError{Reason: fmt.Sprintf("no batch at byte %d, where the one with offset %d is looked for", pos, e.Offset)}
		case b.LastOffset() < e.Offset:
			pos += n
			continue
		case b.BaseOffset() > e.Offset:
			return false, nil
		case b.MaxTimestamp() != e.Timestamp:
			return false, &index.FormatError{Reason: fmt.Sprintf("the batch with offset %d is of %d, not %d as the time index says",
				e.Offset, b.MaxTimestamp(), e.Timestamp)}
		}
		return true, nil
	}
	return false, nil
}

func (s *Segment) mapTxns(h *Handle) (*index.Txn, error) {
	if !s.has(KindTxnIndex) {
		if s.has(KindOffsetIndex) {
			return index.NewTxn(s.Base), nil // no file, no aborted transaction
		}
		// Files were lost.
		return nil, &index.FormatError{Reason: "neither a transaction index nor an offset index"}
	}
	b, err := s.mapFile(h, KindTxnIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &index.FormatError{Reason: "the transaction index is gone"}
	}
	if err != nil {
		return nil, err
	}
	txns, err := index.ViewTxn(s.Base, b)
	if err != nil {
		return nil, err
	}
	if n := txns.Len() * index.TxnEntrySize; n < len(b) {
		return nil, &index.FormatError{Pos: int64(n), Reason: "torn entry in the transaction index of a sealed segment"}
	}
	if err := txns.Check(); err != nil {
		return nil, err
	}
	return txns, s.checkMarker(h, txns)
}

// checkMarker verifies that the last entry of a transaction index leads to a
// marker of its producer. Compaction may have taken that one.
func (s *Segment) checkMarker(h *Handle, txns *index.Txn) error {
	last, ok := txns.Last()
	if !ok {
		return nil
	}
	if last.Last-s.Base > math.MaxInt32 {
		return &index.FormatError{Reason: fmt.Sprintf("a marker at %d, in the segment from %d on", last.Last, s.Base)}
	}
	scan := NewScanner(h.File, h.Offsets.Lookup(last.Last).Pos, s.Size(), false)
	defer scan.Close()
	for scan.Next() {
		b := scan.Batch()
		if b.LastOffset() < last.Last {
			continue
		}
		if b.BaseOffset() <= last.Last && (!b.IsControl() || b.ProducerID() != last.ProducerID) {
			return &index.FormatError{Reason: fmt.Sprintf("no marker of producer %d at %d", last.ProducerID, last.Last)}
		}
		break
	}
	return nil // whatever the scan met: a reader will be told
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
	return s.CheckHead(head[:], size, e)
}

// CheckHead is CheckEntry for whoever has read the head of the batch that an
// entry leads to, in a segment of size bytes.
func (s *Segment) CheckHead(head []byte, size int64, e index.OffsetEntry) error {
	n, err := batch.Frame(head)
	// Before Kafka 4.1 an entry named the last offset of the append, which may
	// have been of several batches.
	if b := batch.Batch(head); err != nil || e.Pos+n > size || b.LastOffset() > e.Offset || b.BaseOffset() < s.Base || b.LastOffsetDelta() < 0 {
		return &index.FormatError{Pos: e.Pos, Reason: fmt.Sprintf("entry for offset %d points at no batch that holds it", e.Offset)}
	}
	return nil
}

// Seek is a position from which on a walk finds the batch that holds offset:
// where the index leads if a batch that can be meant stands there, else the
// start of the segment.
func (s *Segment) Seek(h *Handle, offset int64) int64 {
	e := h.Offsets.Lookup(offset)
	if e.Pos == 0 {
		return 0
	}
	err := s.CheckEntry(h.File, e)
	if err == nil {
		return e.Pos
	}
	if _, wrong := errors.AsType[*index.FormatError](err); wrong {
		s.Distrust(err)
	}
	return 0
}

// SeekTime is an offset from which on a walk finds the first record that is
// younger than ms: where the time index leads if the batch there is of the time
// that the entry says, else the base offset.
func (s *Segment) SeekTime(h *Handle, ms int64) int64 {
	e := h.Times.Lookup(ms)
	if e.Offset <= s.Base {
		return s.Base
	}
	known, err := checkTime(h.File, s.Size(), s.Seek(h, e.Offset), e)
	if known {
		return e.Offset
	}
	if _, wrong := errors.AsType[*index.FormatError](err); wrong {
		s.Distrust(err)
	}
	return s.Base
}

// Distrust replaces the offset and time index of a sealed segment, after a
// reader found that an entry leads astray, by ones made from the log. The
// handle that the reader holds stays as it is. Where they cannot be made now,
// the old ones stay, and are found wrong again.
func (s *Segment) Distrust(cause error) {
	if s.distrust() {
		s.tell([]unusable{{s.Path(KindOffsetIndex), cause}})
	}
}

func (s *Segment) distrust() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.handle.Load()
	if old == nil || s.active != nil || s.retired {
		return false
	}
	f, err := s.env.FS.Open(s.Path(KindLog))
	if err != nil {
		return false
	}
	h := &Handle{File: f}
	h.refs.Store(1)
	h.Offsets, h.Times, err = Rebuild(f, s.Base, s.Size(), s.env.interval())
	if err == nil {
		h.Txns, err = s.mapTxns(h)
		if _, wrong := errors.AsType[*index.FormatError](err); wrong {
			h.Txns, err = s.env.Txns(s.Base, s.Size())
		}
	}
	if err != nil {
		_ = h.Release() // only read
		return false
	}
	s.handle.Store(h)
	s.wrong.Store(true)
	_ = old.Release()
	return true
}

// Mend writes the index files of a sealed segment that lacks the offset or the
// time index, or of which one was found unusable, unless the log is damaged
// too; it tells whether it did. What cannot be read cannot be mended: errors
// are those of writing. The caller syncs the directory.
func (s *Segment) Mend() (bool, error) {
	if s.has(KindOffsetIndex) && s.has(KindTimeIndex) && !s.wrong.Load() || s.Unsealed() {
		return false, nil
	}
	s.wrong.Store(false) // before: what cannot be mended is not tried again and again
	h, err := s.Acquire()
	if err != nil {
		return false, nil
	}
	defer h.Release()
	offsets, times, err := rebuild(h.File, s.Base, s.Size(), s.env.interval())
	if err != nil {
		return false, nil
	}
	if err := s.WriteIndexes(offsets, times, h.Txns); err != nil {
		s.wrong.Store(true)
		return false, err
	}
	s.written(h.Txns)
	s.wrong.Store(false)
	return true, nil
}

// IndexIntervalBytes is how far apart the entries of a rebuilt index are unless
// told.
const IndexIntervalBytes = 4096

func (e *Environment) interval() int {
	if e.IndexIntervalBytes > 0 {
		return e.IndexIntervalBytes
	}
	return IndexIntervalBytes
}

// Rebuild makes the offset and time index of the first size bytes of a
// segment file, as a recovery of Kafka does. Where the walk meets damage they
// end: what lies before it stays readable.
func Rebuild(r vfs.File, base, size int64, interval int) (*index.Offset, *index.Time, error) {
	offsets, times, err := rebuild(r, base, size, interval)
	if _, damage := errors.AsType[*TornError](err); damage {
		err = nil
	}
	return offsets, times, err
}

// rebuild is Rebuild that tells of damage.
func rebuild(r vfs.File, base, size int64, interval int) (*index.Offset, *index.Time, error) {
	x := NewIndexer(base, index.NewOffset(base), index.NewTime(base), int64(interval))
	s := NewScanner(r, 0, size, false)
	defer s.Close()
	for s.Next() {
		if err := x.Add(s.Batch().LastOffset(), s.Batch().MaxTimestamp(), s.Pos(), len(s.Batch())); err != nil {
			return nil, nil, err
		}
	}
	if err := x.Finish(); err != nil {
		return nil, nil, err
	}
	return x.Offsets, x.TimeIndex, s.Err()
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
				return NoSpace(err)
			}
			continue
		}
		if err := s.replaceIndex(x.kind, x.bytes); err != nil {
			return NoSpace(err)
		}
	}
	return nil
}
