package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// follow is where the log stands during the walk: whether each batch follows
// the one before.
//
// A log that was not compacted has no gap. A gap inside a file that is
// followed by a batch that fits is proof of a compaction: neither lost bytes
// nor a damaged base offset leave one, since the batch behind a base offset
// that is too high lies below it. The gap before the last batch proves
// nothing: only what knows the log end contradicts a base offset there.
type follow struct {
	next    int64    // offset that is due
	unsure  bool     // next is not known: damage or a torn tail lies between
	pending *Finding // a gap that is not proven to be one of compaction
	broken  int64    // end position of the last damage in this segment's file
	shaken  bool     // the batch before is misplaced: a gap behind it means nothing
	gone    bool     // segments were deleted meanwhile, all up to the one before
	head    int64    // base of the first segment that is there
}

// start prepares the walk.
func (v *verifier) start() {
	r := &v.report
	r.Segments = len(v.segments)
	r.LogStart = v.o.Points.LogStart
	v.follow.next = v.o.Points.LogStart
	if len(v.segments) > 0 {
		r.LogStart = max(r.LogStart, v.segments[0].Base)
		v.follow.next = v.segments[0].Base
	}
	v.replay.start(v)
}

// segment verifies one segment. stop says that recovery would keep nothing of
// the log behind it.
func (v *verifier) segment(i int) (stop bool, err error) {
	f := v.segments[i]
	if w := &v.follow; i > 0 && !w.unsure && !w.gone {
		left, err := leftovers(v.o.FS, v.segments[i:i+1], w.next, v.point)
		if v.gone(f, err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if left > 0 {
			v.find(Finding{SeverityNote, FindingFile, f.Paths[segment.KindLog], -1, f.Base, "nothing was ever written into the segment, and the log went on without it; recovery removes it"})
			return false, nil
		}
	}
	if v.joint(i) {
		return true, nil
	}
	x, err := v.openIndexes(i)
	if v.gone(f, err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	file, err := v.o.FS.Open(f.Paths[segment.KindLog])
	if v.gone(f, err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	if v.memoryEnd < 0 { // it may have grown since it was listed
		if f.Size, err = file.Size(); err != nil {
			return false, err
		}
	}
	v.follow.broken = 0
	for pos := int64(0); ; {
		e, err := v.walk(file, f, pos, x)
		if err != nil {
			return false, err
		}
		if e.err == nil {
			break
		}
		if pos, stop, err = v.bad(file, i, e); err != nil {
			return false, err
		}
		if pos < 0 {
			x.torn = true
			break
		}
	}
	x.finish(v.follow.next)
	return stop, nil
}

// gone tells of a segment that was deleted while we looked: retention of a
// live log.
func (v *verifier) gone(f segment.SegmentFiles, err error) bool {
	if v.o.Clean || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	v.find(Finding{SeverityNote, FindingFile, f.Paths[segment.KindLog], -1, f.Base, "the segment was deleted meanwhile: the directory is in use"})
	v.follow.unsure, v.follow.gone = true, true
	return true
}

// joint verifies that a segment begins where the one before ends. It tells
// whether recovery would cut the segment, with all after it.
func (v *verifier) joint(i int) (cut bool) {
	f, w := v.segments[i], &v.follow
	if i == 0 || w.gone {
		w.head = f.Base
	}
	if w.gone { // this one may be there: then the log begins with it
		w.gone = false
		v.replay.lose(f.Base)
	}
	if i == 0 || w.unsure {
		w.next, w.unsure = max(w.next, f.Base), false
		if i > 0 {
			w.next = f.Base
		}
		w.pending = nil
		return false
	}
	switch {
	case f.Base < w.next:
		severity := v.must(f.Base, SeverityWarning)
		v.settleGap(false)
		v.find(Finding{severity, FindingOffsets, f.Paths[segment.KindLog], 0, f.Base,
			fmt.Sprintf("the segment begins at offset %d, the one before it ends at %d%s", f.Base, w.next, cutText(severity))})
		if cut = severity != SeverityDamage; !cut {
			w.next = f.Base
			v.replay.lose(f.Base)
		}
	case f.Base > w.next:
		v.settleGap(true)
		severity := v.must(w.next, SeverityWarning)
		cut = v.o.OwnOnly && severity != SeverityDamage
		text := ", and nothing shows that the partition was compacted"
		if cut {
			text = cutText(severity)
		}
		v.findUnlessCompacted(Finding{severity, FindingOffsets, f.Paths[segment.KindLog], 0, w.next,
			fmt.Sprintf("offsets %d to %d are missing before the segment%s", w.next, f.Base-1, text)})
		if !cut {
			w.next = f.Base
		}
	default:
		v.settleGap(true)
	}
	return cut
}

func cutText(s Severity) string {
	if s == SeverityDamage {
		return ""
	}
	return "; recovery cuts it and all after it, and keeps a copy"
}

// settleGap decides on the pending gap: the batch behind it fits what follows,
// or not.
func (v *verifier) settleGap(fits bool) {
	gap := v.follow.pending
	v.follow.pending = nil
	switch {
	case gap == nil:
	case fits:
		v.proveCompacted()
	default:
		v.findUnlessCompacted(*gap)
	}
}

// proveCompacted notes that the batches show a compaction.
func (v *verifier) proveCompacted() { v.compacted, v.excused = true, nil }

// walk verifies the batches of a file from pos on, up to its end or what is no
// whole, sound batch.
func (v *verifier) walk(file vfs.File, f segment.SegmentFiles, pos int64, x *indexCheck) (extent, error) {
	s := segment.NewScanner(file, pos, f.Size, true)
	defer s.Close()
	e := extent{end: pos, next: v.follow.next}
	progress := pos
	for s.Next() {
		if s.Pos()-progress >= progressBytes {
			if err := v.ctx.Err(); err != nil {
				return e, err
			}
			v.progress(s.Pos() - progress)
			progress = s.Pos()
		}
		b := s.Batch()
		// Above the recovery point recovery ends the log at a batch that is
		// not the next, as at one that is not whole.
		if due := v.follow.next; due >= v.point && !v.follow.unsure {
			if e.err = misplaced(b, f.Base, due, v.o.OwnOnly); e.err != nil {
				v.progress(e.end - progress)
				return e, nil
			}
		}
		if err := v.batch(f, b, s.Pos(), x); err != nil {
			return e, err
		}
		e.end, e.next = s.Pos()+int64(len(b)), v.follow.next
	}
	v.progress(e.end - progress)
	torn := (*segment.TornError)(nil)
	switch {
	case s.Err() == nil:
		return e, nil
	case !errors.As(s.Err(), &torn):
		return e, s.Err()
	}
	if size, err := file.Size(); v.memoryEnd < 0 && err == nil && size <= e.end {
		return e, nil // it was trimmed meanwhile: the directory is in use
	}
	e.err = torn.Err
	if errors.Is(torn.Err, batch.ErrLegacyMagic) {
		if err := legacy(file, e.end, f.Size, torn.Err); err != nil {
			return e, fmt.Errorf("%s at byte %d: %w", f.Paths[segment.KindLog], e.end, err)
		}
	}
	zeros, err := onlyZeros(file, e.end, f.Size)
	e.zeros = zeros
	if errors.Is(err, io.EOF) {
		return e, nil
	}
	return e, err
}

// progressBytes is how often progress is told and the context is looked at.
const progressBytes = 1 << 20

func (v *verifier) progress(n int64) {
	if v.vo.Progress != nil && n > 0 {
		v.vo.Progress(n)
	}
}

// batch verifies one whole batch with a right checksum.
func (v *verifier) batch(f segment.SegmentFiles, b batch.Batch, pos int64, x *indexCheck) error {
	r := &v.report
	r.Batches, r.Bytes = r.Batches+1, r.Bytes+int64(len(b))
	at := position{file: f.Paths[segment.KindLog], pos: pos, offset: b.BaseOffset()}
	placed := v.place(f, b, at)
	v.epochs.check(v, b, at)
	v.records.check(v, b, at)
	x.batch(b, pos)
	if !placed {
		v.replay.lose(b.NextOffset())
		return nil
	}
	return v.replay.batch(v, b, at, x)
}

// position is where a batch stands, for findings.
type position struct {
	file   string
	pos    int64
	offset int64
}

func (p position) finding(s Severity, kind, format string, args ...any) Finding {
	return Finding{s, kind, p.file, p.pos, p.offset, fmt.Sprintf(format, args...)}
}

// place verifies that a batch follows the one before it, and lies in its
// segment.
func (v *verifier) place(f segment.SegmentFiles, b batch.Batch, at position) bool {
	w := &v.follow
	base, due, shaken := b.BaseOffset(), w.next, w.shaken
	w.next, w.shaken = b.NextOffset(), true
	switch {
	case base < f.Base:
		v.settleGap(false)
		v.find(at.finding(v.must(due, SeverityWarning), FindingOffsets, "the batch has base offset %d in a segment that begins at %d", base, f.Base))
		return false
	case b.LastOffset()-f.Base > math.MaxInt32:
		v.settleGap(false)
		v.find(at.finding(v.must(due, SeverityWarning), FindingOffsets, "offset %d is too far from the segment's base %d", b.LastOffset(), f.Base))
		return false
	case w.unsure:
		w.unsure, w.shaken = false, false
		v.replay.lose(base)
		return true
	case base < due:
		v.settleGap(false)
		v.find(at.finding(v.must(due, SeverityWarning), FindingOffsets, "the batch has base offset %d where %d follows", base, due))
		return false
	}
	w.shaken = false
	v.settleGap(true)
	if base > due && !shaken {
		gap := at.finding(v.must(due, SeverityWarning), FindingOffsets,
			"the batch has base offset %d where %d follows, and nothing shows that the partition was compacted", base, due)
		w.pending = &gap
	}
	if int64(b.RecordCount()) <= int64(b.LastOffsetDelta()) {
		v.proveCompacted()
	}
	return true
}

// bad decides on what is no whole, sound batch. It gives the position at which
// a batch stands again, -1 if there is none or the rest does not count.
func (v *verifier) bad(file vfs.File, i int, e extent) (again int64, stop bool, err error) {
	f := v.segments[i]
	left, err := leftovers(v.o.FS, v.segments[i+1:], e.next, v.point)
	if err != nil {
		return -1, false, err
	}
	after := i + 1 + left
	last := after == len(v.segments)
	if size, e := file.Size(); e == nil && v.memoryEnd < 0 {
		f.Size = size
	}
	at := position{file: f.Paths[segment.KindLog], pos: e.end, offset: e.next}
	rest := f.Size - e.end
	w := &v.follow
	if e.zeros && e.next >= v.point && (last || v.segments[after].Base >= e.next) {
		v.find(at.finding(SeverityNote, FindingTail, "%d zero bytes follow the last batch: allocated, never written", rest))
		return -1, false, nil
	}
	offset, again, err := findBatch(file, e.end+1, f.Size, e.next)
	if err != nil {
		return -1, false, err
	}
	follows := "nothing readable follows in the file"
	if again >= 0 {
		follows = fmt.Sprintf("readable again at byte %d, offset %d", again, offset)
	}
	if e.next < v.point {
		v.find(at.finding(SeverityDamage, FindingBatch, "%v; %s", e.err, follows))
		v.settleGap(true)
		w.unsure, w.broken = true, f.Size
		if again >= 0 {
			w.broken = again
		}
		v.replay.lose(e.next)
		return again, false, nil
	}
	v.settleGap(true)
	if again >= 0 || !last {
		v.find(at.finding(SeverityWarning, FindingTail, "%v; %s; recovery cuts %d bytes of the file and %d later segments, and keeps a copy",
			e.err, follows, rest, len(v.segments)-1-i))
		return -1, true, nil
	}
	v.find(at.finding(SeverityNote, FindingTail, "torn tail of %d bytes, which recovery cuts, keeping a copy: %v", rest, e.err))
	return -1, true, nil
}
