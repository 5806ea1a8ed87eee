package log

import (
	"errors"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
)

// TimeOffset is a record found by time; both -1 if there is none.
type TimeOffset struct {
	Timestamp int64 // ms
	Offset    int64
}

var noTimeOffset = TimeOffset{Timestamp: -1, Offset: -1}

// bound is the first offset that a reader may not see.
func (l *Log) bound(i Isolation) int64 {
	f := l.Frontiers()
	if i == ReadCommitted {
		return f.LastStable
	}
	return f.HighWatermark
}

// OffsetForTime finds the record with the lowest offset whose timestamp is at
// least ms; control records count. Nothing is found if that record lies at or
// behind the isolation level's bound.
func (l *Log) OffsetForTime(ms int64, i Isolation) (found TimeOffset, err error) {
	bound := l.bound(i) // before the list of segments: what lies below it does not change
	err = l.look(func(v *view) error {
		found, err = offsetForTime(v.segments, ms, l.logStart.Load(), bound)
		return err
	})
	return found, err
}

func offsetForTime(segments []*segment.Segment, ms, start, bound int64) (TimeOffset, error) {
	for _, s := range segments {
		times, err := s.Times()
		if err != nil {
			return noTimeOffset, err
		}
		if times.Max.Timestamp < ms {
			continue
		}
		found, err := searchTime(s, start, func(h *segment.Handle) int64 {
			return s.Seek(h, max(s.SeekTime(h, ms-1), start))
		}, func(t int64) bool { return t >= ms })
		if err != nil {
			return noTimeOffset, err
		}
		if found.Offset >= bound {
			return noTimeOffset, nil
		}
		if found.Offset >= 0 {
			return found, nil
		}
	}
	return noTimeOffset, nil
}

// MaxTimestamp finds the record with the greatest timestamp of the log, the
// first one that has it; control records count. Nothing is found if it lies
// at or behind the isolation level's bound.
func (l *Log) MaxTimestamp(i Isolation) (found TimeOffset, err error) {
	bound := l.bound(i)
	err = l.look(func(v *view) error {
		found, err = maxTimestamp(v.segments, l.logStart.Load(), bound)
		return err
	})
	return found, err
}

func maxTimestamp(segments []*segment.Segment, start, bound int64) (TimeOffset, error) {
	best, in := int64(-1), (*segment.Segment)(nil)
	for _, s := range segments {
		times, err := s.Times()
		if err != nil {
			return noTimeOffset, err
		}
		if times.Max.Timestamp > best {
			best, in = times.Max.Timestamp, s
		}
	}
	if in == nil {
		return noTimeOffset, nil
	}
	// Records before the log start do not count, so the greatest may be
	// another one than the index says.
	if in.Base < start {
		return maxTimestampSince(segments, start, bound)
	}
	found, err := searchTime(in, start, func(*segment.Handle) int64 { return 0 }, func(t int64) bool { return t >= best })
	if err != nil || found.Offset >= bound {
		return noTimeOffset, err
	}
	return found, nil
}

// maxTimestampSince walks the segment that holds the log start and compares
// with what the later ones know.
func maxTimestampSince(segments []*segment.Segment, start, bound int64) (TimeOffset, error) {
	best := noTimeOffset
	for _, s := range segments {
		times, err := s.Times()
		if err != nil {
			return noTimeOffset, err
		}
		if times.Max.Timestamp <= best.Timestamp {
			continue
		}
		above := best.Timestamp
		for {
			found, err := searchTime(s, start, func(*segment.Handle) int64 { return 0 }, func(t int64) bool { return t > above })
			if err != nil {
				return noTimeOffset, err
			}
			if found.Offset < 0 {
				break
			}
			best, above = found, found.Timestamp
		}
	}
	if best.Offset >= bound {
		return noTimeOffset, nil
	}
	return best, nil
}

// searchTime walks a segment from the byte that from names and finds the first
// record at or after start whose timestamp matches.
func searchTime(s *segment.Segment, start int64, from func(*segment.Handle) int64, match func(int64) bool) (TimeOffset, error) {
	h, err := s.Acquire()
	if err != nil {
		return noTimeOffset, err
	}
	defer h.Release()
	scan := segment.NewScanner(h.File, from(h), s.Size(), false)
	defer scan.Close()
	var records batch.Records
	defer records.Close()
	for scan.Next() {
		b := scan.Batch()
		if b.LastOffset() < start || !match(b.MaxTimestamp()) {
			continue
		}
		found, err := searchBatch(&records, b, start, match)
		if err != nil || found.Offset >= 0 {
			return found, err
		}
	}
	return noTimeOffset, damaged(s, scan.Err())
}

// damaged tells of bad bytes that a walk met in a segment, with the file.
func damaged(s *segment.Segment, err error) error {
	if torn, ok := errors.AsType[*segment.TornError](err); ok {
		return &CorruptionError{File: s.Path(segment.KindLog), Pos: torn.Pos, Offset: -1, ReadableFrom: -1, Err: torn.Err}
	}
	return err
}

func searchBatch(records *batch.Records, b batch.Batch, start int64, match func(int64) bool) (TimeOffset, error) {
	records.Reset(b)
	for records.Next() {
		r := records.Record()
		if r.Offset >= start && match(r.Timestamp) {
			return TimeOffset{Timestamp: r.Timestamp, Offset: r.Offset}, nil
		}
	}
	return noTimeOffset, records.Err()
}
