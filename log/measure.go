package log

import (
	"errors"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
)

// Measured is how much a log shows from an offset on.
type Measured struct {
	Bytes int64 // of whole batches
	Next  int64 // offset behind them
	Bound int64 // of the isolation level
}

// Measure tells how much there is to read from offset on, in all segments. It
// looks at the heads of the batches only, so whoever waits for much to be there
// can do so without reading it again and again. It checks nothing: an error
// says that Read has to tell what there is. It allocates nothing in steady
// state.
func (l *Log) Measure(offset int64, i Isolation) (Measured, error) {
	if l.closed.Load() {
		return Measured{}, ErrClosed
	}
	m := Measured{Next: offset, Bound: l.bound(i)} // before the list of segments
	if start := l.logStart.Load(); offset < start {
		return m, &OffsetError{Requested: offset, LogStart: start, LogEnd: l.logEnd.Load()}
	}
	v := l.view.Load()
	f := newFetched()
	defer f.Close()
	for _, s := range v.segments[max(v.find(offset), 0):] {
		if s.Base >= m.Bound {
			break
		}
		if err := m.add(s, f.grow(readSlack)); err != nil {
			return m, err
		}
	}
	return m, nil
}

// add counts the batches of a segment that begin at or hold m.Next.
func (m *Measured) add(s *segment.Segment, buffer []byte) error {
	h, err := s.Acquire()
	if err != nil {
		return err
	}
	size := s.Size()
	pos := h.Offsets.Lookup(m.Next).Pos
	for pos < size && err == nil {
		window := buffer[:min(int64(len(buffer)), size-pos)]
		n, e := h.File.ReadAt(window, pos)
		if n < len(window) {
			err = e // truncated meanwhile, if nothing worse
			break
		}
		var passed int64
		if passed, err = m.count(window); passed == 0 {
			break
		}
		pos += passed
	}
	return errors.Join(err, h.Release())
}

// count counts the batches whose heads lie in the window and tells where the
// next one begins, 0 if nothing more is to be counted.
func (m *Measured) count(window []byte) (passed int64, err error) {
	for passed+batch.HeaderSize <= int64(len(window)) {
		size, err := batch.Frame(window[passed:])
		if err != nil {
			return 0, err
		}
		b := batch.Batch(window[passed:])
		if b.LastOffset() >= m.Bound {
			return 0, nil
		}
		if b.LastOffset() >= m.Next {
			m.Bytes, m.Next = m.Bytes+size, b.NextOffset()
		}
		passed += size
	}
	return passed, nil
}
