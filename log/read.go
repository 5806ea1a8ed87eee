package log

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/segment"
)

// Isolation says how far a reader sees.
type Isolation uint8

const (
	ReadUncommitted Isolation = iota // up to the high watermark
	ReadCommitted                    // up to the last stable offset, with the aborted transactions to leave out
)

// String is the name Kafka's clients use.
func (i Isolation) String() string {
	if i == ReadCommitted {
		return "read_committed"
	}
	return "read_uncommitted"
}

// DefaultReadBytes is how much a read answers at most unless told.
const DefaultReadBytes = 1 << 20

// ReadOptions of Log.Read.
type ReadOptions struct {
	Isolation Isolation
	// BytesMax bounds the answer; the first batch comes whole even if it is
	// larger. 0: 1 MiB; negative: nothing but the first batch.
	BytesMax int
	// NoOversize leaves the answer empty rather than exceed BytesMax.
	NoOversize bool
	// Unchecked skips the CRC of what is returned, for a caller that hands
	// the bytes to somebody who checks them.
	Unchecked bool
	// Replica reads to the log end, as a replica that copies the log does.
	Replica bool
}

// Read answers whole batches from the one that holds offset on, as stored and
// from one segment: the first may begin below offset. At the bound of the
// isolation level the answer is empty; Wait tells when there is more.
//
// Errors: *OffsetError outside of the log; *CorruptionError if the first batch
// is damaged (what is whole before a damaged batch is answered); ErrClosed.
// Close the answer to give its memory back. It takes no lock and allocates
// nothing in steady state.
func (l *Log) Read(offset int64, o ReadOptions) (*Fetched, error) {
	o.BytesMax = min(max(orDefault(o.BytesMax, DefaultReadBytes), 1), SegmentBytesLimit)
	for {
		e := l.era()
		f, err := l.read(offset, o)
		// What was read where the log was cut meanwhile may be anything. Only
		// replicas read that far; others may have looked a little farther.
		if !e.ended() || err == nil && !o.Replica {
			return f, err
		}
		if f != nil {
			f.Close()
		}
	}
}

func (l *Log) read(offset int64, o ReadOptions) (*Fetched, error) {
	if l.closed.Load() {
		return nil, ErrClosed
	}
	f := newFetched()
	f.Frontiers = l.Frontiers()
	bound := f.HighWatermark
	switch {
	case o.Replica:
		bound = f.LogEnd
	case o.Isolation == ReadCommitted:
		bound = f.LastStable
	}
	f.from, f.next = offset, offset
	if offset < f.LogStart || offset > f.LogEnd {
		err := &OffsetError{Requested: offset, LogStart: f.LogStart, LogEnd: f.LogEnd}
		f.Close()
		return nil, err
	}
	if offset >= bound {
		return f, nil
	}
	if err := l.fill(f, bound, o); err != nil {
		f.Close()
		return nil, err
	}
	l.metrics.reads.Add(1)
	l.metrics.readBytes.Add(int64(len(f.bytes)))
	return f, nil
}

// fill reads from the segment that holds the offset or, where compaction left
// nothing there, a later one.
func (l *Log) fill(f *Fetched, bound int64, o ReadOptions) error {
	for range readRetries {
		v := l.view.Load()
		err := l.fillFrom(f, v, bound, o)
		if !errors.Is(err, segment.ErrGone) {
			return err
		}
		// The segment was deleted or cut between the load of the list and
		// its use: look at the new list, and whether the offset still is.
		if l.closed.Load() {
			return ErrClosed
		}
		if start := l.logStart.Load(); f.from < start {
			return &OffsetError{Requested: f.from, LogStart: start, LogEnd: l.logEnd.Load()}
		}
	}
	return fmt.Errorf("read offset %d: %w", f.from, segment.ErrGone)
}

// readRetries bounds how often a reader looks at a new list of segments.
const readRetries = 16

func (l *Log) fillFrom(f *Fetched, v *view, bound int64, o ReadOptions) error {
	i := max(v.find(f.from), 0)
	for ; i < len(v.segments) && v.segments[i].Base < bound; i++ {
		ended, err := l.readSegment(f, v.segments[i], bound, o)
		if err != nil {
			return err
		}
		if !ended {
			break
		}
		if l.o.OwnOnly && i+1 < len(v.segments) && v.segments[i+1].Base < bound {
			s, next := v.segments[i], v.segments[i+1].Base
			return &CorruptionError{File: s.Path(segment.KindLog), Pos: s.Size(), Offset: f.from, ReadableFrom: next,
				Err: fmt.Errorf("%w: the next segment starts at %d", ErrUnexpectedOffset, next)}
		}
	}
	if o.Isolation != ReadCommitted || o.Replica || len(f.bytes) == 0 {
		return nil
	}
	var err error
	f.Aborted, err = aborted(f.Aborted[:0], v.segments[i:], f.from, f.next)
	return err
}

// aborted collects the aborted transactions that overlap [from, upper), whose
// markers are in these segments or none.
func aborted(dst []index.AbortedTxn, segments []*segment.Segment, from, upper int64) ([]index.AbortedTxn, error) {
	for _, s := range segments {
		least, err := s.AbortedMin()
		if err != nil {
			return dst, err
		}
		if least >= upper {
			continue
		}
		h, err := s.Acquire()
		if err != nil {
			return dst, err
		}
		var complete bool
		dst, complete = h.Txns.Overlapping(dst, from, upper)
		if err := h.Release(); err != nil {
			return dst, err
		}
		if complete {
			break
		}
	}
	return dst, nil
}

// Aborted are the aborted transactions that overlap [from, upper), by the
// offset of their marker.
func (l *Log) Aborted(from, upper int64) (found []index.AbortedTxn, err error) {
	err = l.look(func(v *view) error {
		found, err = aborted(nil, v.segments[max(v.find(from), 0):], from, upper)
		return err
	})
	return found, err
}

// look gives the list of segments to who looks something up, and a newer one if
// a segment of it was deleted or cut before or while it was used.
func (l *Log) look(up func(v *view) error) (err error) {
	for range readRetries {
		if l.closed.Load() {
			return ErrClosed
		}
		e := l.era()
		if err = up(l.view.Load()); err == nil || !errors.Is(err, segment.ErrGone) && !e.ended() {
			break
		}
	}
	return err
}

// readSegment reads from one segment into f. Nothing at or behind bound. ended
// says that the segment ends before the wanted offset.
func (l *Log) readSegment(f *Fetched, s *segment.Segment, bound int64, o ReadOptions) (ended bool, err error) {
	h, err := s.Acquire()
	if err != nil {
		return false, err
	}
	r := segmentReader{f: f, own: l.o.OwnOnly, s: s, h: h, size: s.Size(), bound: bound, o: o, passed: s.Base, lastPos: -1}
	r.entry = h.Offsets.Lookup(f.from)
	err = r.read(r.entry.Pos)
	if bad, ok := errors.AsType[*segment.TornError](err); ok && r.entry.Pos != 0 && r.batches == 0 {
		// Nothing good was found where the index led. It is never evidence
		// about the log: if a walk from the first byte finds the batch, it is
		// the index that is wrong.
		l.metrics.indexFallbacks.Add(1)
		r.entry = index.OffsetEntry{}
		if err = r.read(0); err == nil {
			s.Distrust(bad)
		}
	}
	if err != nil {
		err = r.resume(err)
	}
	if e := h.Release(); e != nil {
		return false, errors.Join(err, e)
	}
	return r.ended, err
}

// resume reads on behind damage that lies before the wanted batch, or tells of
// it.
func (r *segmentReader) resume(err error) error {
	for {
		bad, ok := errors.AsType[*segment.TornError](err)
		if !ok {
			return err
		}
		from, next := bad.Pos, r.passed
		if r.lied() { // about its length, so that good batches were passed over
			from, next = r.lastPos, r.lastFrom
		}
		after, pos, e := findBatch(r.h.File, from+1, r.size, next)
		if e != nil || after < 0 || after > r.f.from {
			return r.explain(err)
		}
		if err = r.read(pos); err == nil {
			return nil
		}
	}
}

// gap tells why a batch that begins behind the wanted offset cannot be the next
// one, nil if compaction may have taken what was there.
func (r *segmentReader) gap(b batch.Batch, pos int64) error {
	if b.BaseOffset() <= r.f.from {
		return nil
	}
	if r.lied() {
		return &segment.TornError{Pos: r.lastPos, Err: fmt.Errorf("the batch before offset %d is damaged", b.BaseOffset())}
	}
	if r.own {
		return &segment.TornError{Pos: pos, Err: fmt.Errorf("%w: %d where %d follows", ErrUnexpectedOffset, b.BaseOffset(), r.f.from)}
	}
	return nil
}

// lied tells whether the last batch that was passed over is itself damaged.
func (r *segmentReader) lied() bool {
	return r.lastPos >= 0 && r.damaged(r.lastPos)
}

func (r *segmentReader) damaged(pos int64) bool {
	scan := segment.NewScanner(r.h.File, pos, r.size, true)
	defer scan.Close()
	return !scan.Next()
}

// explain tells of damage with the place where reading can go on.
func (r *segmentReader) explain(err error) error {
	bad, ok := errors.AsType[*segment.TornError](err)
	if !ok {
		return err
	}
	c := &CorruptionError{File: r.s.Path(segment.KindLog), Pos: bad.Pos, Offset: max(r.f.next, r.s.Base), ReadableFrom: -1, Err: bad.Err}
	if after, _, e := findBatch(r.h.File, bad.Pos+1, r.size, r.f.next); e == nil {
		c.ReadableFrom = after
	}
	return c
}

// segmentReader reads whole batches of one segment.
type segmentReader struct {
	f       *Fetched
	own     bool // the log has no gaps
	s       *segment.Segment
	h       *segment.Handle
	size    int64
	bound   int64
	o       ReadOptions
	entry   index.OffsetEntry // of the index, where the read begins
	batches int               // walked over since pos, wanted or not
	passed  int64             // end of the last batch that was passed over
	// lastPos and lastFrom are where that batch starts, -1: there was none, and
	// the passed before it.
	lastPos, lastFrom int64
	ended             bool // the segment ends before the wanted offset
}

// readSlack is read beyond what was asked for: the index leads to about this
// far before the wanted batch where batches are small.
const readSlack = 8 << 10

// read starts at a batch at pos. A *segment.TornError tells of bad bytes
// before anything that could be answered.
func (r *segmentReader) read(pos int64) error {
	r.batches, r.lastPos = 0, -1
	if pos == 0 {
		r.passed = r.s.Base
	}
	if pos < 0 || pos > 0 && pos+batch.HeaderSize > r.size {
		return &segment.TornError{Pos: pos, Err: fmt.Errorf("the segment holds %d bytes", r.size)}
	}
	for pos < r.size {
		window, err := r.load(pos, int64(r.o.BytesMax)+readSlack)
		if err != nil {
			return err
		}
		skipped, size, err := r.skip(window, pos)
		if err != nil || size == boundReached {
			return err
		}
		pos += skipped
		if size == 0 { // the window holds no batch that reaches the offset
			if skipped == 0 {
				break
			}
			continue
		}
		if r.o.NoOversize && size > int64(r.o.BytesMax) {
			return nil
		}
		// The whole first batch, and as much more as is allowed.
		if need := max(int64(r.o.BytesMax), size); int64(len(window))-skipped < min(need, r.size-pos) {
			if window, err = r.load(pos, need); err != nil {
				return err
			}
			skipped = 0
		}
		return r.take(window[skipped:], pos, max(int64(r.o.BytesMax), size))
	}
	r.ended = true
	return nil
}

// load reads up to n bytes at pos into the answer's buffer.
func (r *segmentReader) load(pos, n int64) ([]byte, error) {
	n = min(n, r.size-pos)
	buffer := r.f.grow(int(n))
	read, err := r.h.File.ReadAt(buffer, pos)
	if int64(read) < n && r.s.Size() < r.size {
		r.size = r.s.Size() // truncated meanwhile
		n = max(min(n, r.size-pos), 0)
	}
	if int64(read) < n {
		return nil, fmt.Errorf("read segment %d at byte %d: %w", r.s.Base, pos, err)
	}
	return buffer[:n], nil
}

// boundReached is skip's answer when the wanted batch may not be seen.
const boundReached = -1

// skip finds the first batch in the window that ends at or after the wanted
// offset: how many bytes lie before it, and its size; size 0 if it lies behind
// the window.
func (r *segmentReader) skip(window []byte, pos int64) (skipped, size int64, err error) {
	for skipped+batch.HeaderSize <= int64(len(window)) {
		head := window[skipped:]
		size, err := batch.Frame(head)
		if err == nil && size > r.size-pos-skipped {
			err = batch.ErrShort
		}
		b := batch.Batch(head)
		if err == nil && r.batches == 0 && b.BaseOffset() > r.f.from && pos > 0 {
			err = fmt.Errorf("offset %d where one at or before %d was expected", b.BaseOffset(), r.f.from)
		}
		if err == nil && r.batches == 0 && pos > 0 && pos == r.entry.Pos {
			err = r.s.CheckHead(head[:batch.HeaderSize], r.size, r.entry)
		}
		if err != nil {
			return 0, 0, &segment.TornError{Pos: pos + skipped, Err: err}
		}
		r.batches++
		if b.LastOffset() >= r.bound {
			if b.BaseOffset() < r.bound && r.damaged(pos+skipped) { // no bound is inside a batch
				return 0, 0, &segment.TornError{Pos: pos + skipped, Err: batch.ErrCorrupt}
			}
			return 0, boundReached, nil
		}
		if b.LastOffset() >= r.f.from {
			return skipped, size, r.gap(b, pos+skipped)
		}
		r.lastPos, r.lastFrom, r.passed = pos+skipped, r.passed, b.NextOffset()
		skipped += size
		if skipped > int64(len(window)) {
			return skipped, 0, nil
		}
	}
	return skipped, 0, nil
}

// take answers the whole batches at the head of window, at most limit bytes
// and below the bound. A damaged batch ends them; if it is the first it is an
// error.
func (r *segmentReader) take(window []byte, pos, limit int64) error {
	window = window[:min(int64(len(window)), limit)]
	end := 0
	for end+batch.HeaderSize <= len(window) {
		b, err := batch.Parse(window[end:])
		if errors.Is(err, batch.ErrShort) && pos+int64(end)+int64(batch.Batch(window[end:]).Header().Size) <= r.size {
			break // cut by the limit only
		}
		if err == nil && !r.o.Unchecked {
			err = b.CheckCRC()
		}
		if err != nil {
			if end == 0 {
				r.batches = 0
				return &segment.TornError{Pos: pos, Err: err}
			}
			break
		}
		if b.LastOffset() >= r.bound {
			break
		}
		r.f.next = b.NextOffset()
		end += len(b)
	}
	r.f.bytes = window[:end]
	return nil
}
