package log

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// indexCheck compares the three indexes of one segment with its batches, as
// they pass.
type indexCheck struct {
	v    *verifier
	f    segment.SegmentFiles
	last bool // segment of the log
	torn bool // not all of its batches were seen

	offsets    *index.Offset // nil: not known
	offsetNext int
	appended   index.OffsetEntry // an entry of a whole append, whose last batch is to come; Offset 0: none

	times    *index.Time // nil: not known
	timeNext int
	loose    [2]int          // entries of the two that only Kafka before 4.1 writes so
	max      index.TimeEntry // of the batches so far

	txns    *index.Txn
	txnNext int
}

// openIndexes reads the index files of a segment. Above the recovery point
// nothing in them counts, so entries there are left out.
func (v *verifier) openIndexes(i int) (*indexCheck, error) {
	f := v.segments[i]
	x := &indexCheck{v: v, f: f, last: i == len(v.segments)-1, max: index.TimeEntry{Timestamp: batch.None}}
	var content [segment.KindSnapshot][]byte
	for k := segment.KindOffsetIndex; k < segment.KindSnapshot; k++ {
		if f.Paths[k] == "" {
			continue
		}
		b, err := vfs.ReadFile(v.o.FS, f.Paths[k], math.MaxInt32)
		if err != nil {
			return nil, err
		}
		content[k] = b
	}
	if v.o.Clean {
		x.openClean(content)
		return x, nil
	}
	for k, kind := range map[segment.Kind]string{segment.KindOffsetIndex: FindingOffsetIndex, segment.KindTimeIndex: FindingTimeIndex} {
		if f.Paths[k] == "" && f.Base < v.point {
			v.find(Finding{SeverityNote, kind, filepath.Join(v.o.Dir, segment.FileName(f.Base, k)), -1, f.Base, "the index is missing; recovery makes it anew"})
		}
	}
	if f.Paths[segment.KindOffsetIndex] != "" {
		x.offsets = index.LoadOffset(f.Base, content[segment.KindOffsetIndex], v.point, math.MaxInt64)
	}
	if f.Paths[segment.KindTimeIndex] != "" {
		x.times = index.LoadTime(f.Base, content[segment.KindTimeIndex], v.point)
	}
	x.txns = index.LoadTxn(f.Base, content[segment.KindTxnIndex], v.point)
	return x, nil
}

// openClean reads indexes of which every byte must be right.
func (x *indexCheck) openClean(content [segment.KindSnapshot][]byte) {
	offsets, err := index.ViewOffset(x.f.Base, content[segment.KindOffsetIndex])
	if err == nil {
		err = offsets.Check()
	}
	if x.readable(segment.KindOffsetIndex, FindingOffsetIndex, err) {
		x.offsets = offsets
	}
	times, err := index.ViewTime(x.f.Base, content[segment.KindTimeIndex])
	if err == nil {
		err = times.Check()
	}
	if x.readable(segment.KindTimeIndex, FindingTimeIndex, err) {
		x.times = times
	}
	b := content[segment.KindTxnIndex]
	txns, err := index.ViewTxn(x.f.Base, b)
	if err == nil {
		err = txns.Check()
	}
	if odd := len(b) % index.TxnEntrySize; err == nil && odd != 0 {
		err = &index.FormatError{Kind: ".txnindex", Pos: int64(len(b) - odd), Reason: fmt.Sprintf("%d bytes behind the last entry", odd)}
	}
	x.txns = txns
	if err != nil {
		x.complain(segment.KindTxnIndex, FindingTxnIndex, SeverityDamage, posOf(err), -1, "%v", err)
		x.txns = index.LoadTxn(x.f.Base, b, math.MaxInt64)
	}
}

// readable tells of an index that is missing or cannot be used.
func (x *indexCheck) readable(k segment.Kind, kind string, err error) bool {
	switch {
	case x.f.Paths[k] == "":
		x.find(Finding{SeverityWarning, kind, filepath.Join(x.v.o.Dir, segment.FileName(x.f.Base, k)), -1, x.f.Base, "the index is missing; opening the log makes it anew"})
	case err != nil:
		x.complain(k, kind, SeverityDamage, posOf(err), -1, "%v", err)
	default:
		return true
	}
	return false
}

func posOf(err error) int64 {
	if e, ok := errors.AsType[*index.FormatError](err); ok {
		return e.Pos
	}
	return -1
}

func (x *indexCheck) find(f Finding) { x.v.find(f) }

func (x *indexCheck) complain(k segment.Kind, kind string, s Severity, pos, offset int64, format string, args ...any) {
	x.find(Finding{s, kind, x.f.Paths[k], pos, offset, fmt.Sprintf(format, args...)})
}

// batch compares with a batch that stands at pos.
func (x *indexCheck) batch(b batch.Batch, pos int64) {
	x.offset(b, pos)
	x.time(b)
}

// offset: each entry of the offset index leads to the start of a batch and has
// its last offset or, as Kafka before 4.1 wrote it for an append of several
// batches, the last offset of that append.
func (x *indexCheck) offset(b batch.Batch, pos int64) {
	if x.offsets == nil {
		return
	}
	if a := x.appended; a.Offset != 0 && b.LastOffset() >= a.Offset {
		x.appended = index.OffsetEntry{}
		if b.LastOffset() != a.Offset {
			x.wrongOffset(a, "the batch there and those behind it end at other offsets")
		} else {
			x.loose[0]++
		}
	}
	for x.offsetNext < x.offsets.Len() {
		e := x.offsets.At(x.offsetNext)
		if e.Pos > pos {
			return
		}
		x.offsetNext++
		switch {
		case e.Pos < pos:
			if e.Pos >= x.v.follow.broken {
				x.wrongOffset(e, "no batch starts there")
			}
		case e.Offset < b.LastOffset():
			x.wrongOffset(e, fmt.Sprintf("the batch there ends at offset %d", b.LastOffset()))
		case e.Offset > b.LastOffset():
			x.appended = e
		}
	}
}

func (x *indexCheck) wrongOffset(e index.OffsetEntry, why string) {
	pos := int64(x.offsetNext-1) * index.OffsetEntrySize
	x.complain(segment.KindOffsetIndex, FindingOffsetIndex, SeverityDamage, pos, e.Offset,
		"the entry leads from offset %d to byte %d of the log: %s", e.Offset, e.Pos, why)
}

// time: each entry of the time index names the greatest timestamp so far and
// the last offset of the first batch that had it; before Kafka 4.1 it may be
// that of the record.
func (x *indexCheck) time(b batch.Batch) {
	raised := b.MaxTimestamp() > x.max.Timestamp
	if raised {
		x.max = index.TimeEntry{Timestamp: b.MaxTimestamp(), Offset: b.LastOffset()}
	}
	for x.times != nil && x.timeNext < x.times.Len() {
		e := x.times.At(x.timeNext)
		if e.Offset > b.LastOffset() {
			return
		}
		x.timeNext++
		if e.Offset != b.LastOffset() {
			x.loose[1]++
		}
		if !raised || e.Timestamp != b.MaxTimestamp() || e.Offset < b.BaseOffset() {
			if x.v.follow.broken > 0 {
				continue // the batch may be among those that cannot be read
			}
			x.complain(segment.KindTimeIndex, FindingTimeIndex, SeverityDamage, int64(x.timeNext-1)*index.TimeEntrySize, e.Offset,
				"the entry says that timestamp %d is first reached at offset %d; there the greatest timestamp is %d", e.Timestamp, e.Offset, x.max.Timestamp)
		}
	}
}

// finish compares the indexes with the end of the segment, behind which the
// log goes on at offset end.
func (x *indexCheck) finish(end int64) {
	x.replayEnd(end)
	for i, n := range x.loose {
		if k := segment.KindOffsetIndex + segment.Kind(i); n > 0 {
			kind := [2]string{FindingOffsetIndex, FindingTimeIndex}[i]
			x.complain(k, kind, SeverityNote, -1, -1, "%d entries name another offset than the end of the batch, as Kafka before 4.1 does", n)
		}
	}
	if x.torn || x.v.follow.unsure {
		return
	}
	if x.offsets != nil {
		if x.offsetNext < x.offsets.Len() {
			x.offsetNext++
			x.wrongOffset(x.offsets.At(x.offsetNext-1), "the log ends before")
		} else if x.appended.Offset != 0 {
			x.wrongOffset(x.appended, "the log ends before")
		}
	}
	if x.times == nil {
		return
	}
	if x.timeNext < x.times.Len() {
		e := x.times.At(x.timeNext)
		x.complain(segment.KindTimeIndex, FindingTimeIndex, SeverityDamage, int64(x.timeNext)*index.TimeEntrySize, e.Offset,
			"the entry is of offset %d, the segment ends at %d", e.Offset, end)
		return
	}
	// A segment that takes no more appends has its greatest timestamp as the
	// last entry.
	finished := (x.v.o.Clean || !x.last && end <= x.v.point) && x.v.follow.broken == 0
	last, _ := x.times.Last()
	if finished && x.max.Timestamp >= 0 && (x.times.Len() == 0 || last.Timestamp != x.max.Timestamp) {
		x.complain(segment.KindTimeIndex, FindingTimeIndex, SeverityDamage, int64(x.times.Len())*index.TimeEntrySize, x.max.Offset,
			"the greatest timestamp of the segment, %d at offset %d, is not the last entry", x.max.Timestamp, x.max.Offset)
	}
}
