package segment

import (
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
)

// Indexer decides which batches of a segment get an index entry: before a
// batch, if more than the interval was appended since the last entry, one for
// it and, if the timestamp grew, one for the greatest timestamp so far.
type Indexer struct {
	Offsets   *index.Offset
	TimeIndex *index.Time
	Times     Times

	interval int64
	since    int64 // bytes since the last entry
}

// NewIndexer continues the two indexes. The byte count starts at 0, as it
// does in Kafka when a log is opened.
func NewIndexer(base int64, offsets *index.Offset, times *index.Time, interval int64) *Indexer {
	x := &Indexer{Offsets: offsets, TimeIndex: times, interval: interval}
	x.Times = Times{Max: index.TimeEntry{Timestamp: batch.None, Offset: base}, First: batch.None}
	if last, ok := times.Last(); ok {
		x.Times.Max = last
	}
	return x
}

// Add tells of a batch of size bytes at pos.
func (x *Indexer) Add(lastOffset, maxTimestamp, pos int64, size int) error {
	if pos == 0 {
		x.Times.First = maxTimestamp
	}
	if maxTimestamp > x.Times.Max.Timestamp {
		x.Times.Max = index.TimeEntry{Timestamp: maxTimestamp, Offset: lastOffset}
	}
	if x.since > x.interval {
		if err := x.Offsets.Append(index.OffsetEntry{Offset: lastOffset, Pos: pos}); err != nil {
			return err
		}
		if err := x.Finish(); err != nil {
			return err
		}
		x.since = 0
	}
	x.since += int64(size)
	return nil
}

// Finish adds the last entry of the time index, when the segment becomes
// inactive, is closed or was recovered.
func (x *Indexer) Finish() error {
	_, err := x.TimeIndex.MaybeAppend(x.Times.Max)
	return err
}
