package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/log"
)

// Error is about a batch that cannot be delivered, or not whole.
type Error struct {
	Batch int64 // its base offset
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("the batch at offset %d is damaged: %v", e.Batch, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// LeftOut counts records that were not delivered.
type LeftOut struct {
	Control  int64
	Aborted  int64
	Repeated int64 // with an offset that is not above the one before
}

// recordBytesMax bounds the records of one batch, decompressed. It is more than
// a broker would have taken.
const recordBytesMax = 1 << 30

// Delivery delivers the records of one partition, answer by answer:
//
//	for d.Take(fetched); d.Next(); {
//		use(d.Record())
//	}
//	err := d.Err()
//
// The zero value begins at offset 0 and is at read_uncommitted. Not safe for
// concurrent use.
type Delivery struct {
	Isolation log.Isolation // not to be changed between Take and the end of Next
	// Position is the offset that is wanted next; whoever changes it goes on with
	// Take. Within an answer it follows the records, at its end it is behind it.
	Position int64
	Left     LeftOut

	asked int64  // Position when the current answer was taken
	rest  []byte // of the answer, behind batch
	end   int64  // Position when all of it is delivered
	batch batch.Batch
	err   error

	records batch.Records
	inBatch bool // records stands on the record to look at next
	ending  bool // how the batch ended is not told yet
	record  batch.Record

	waiting  []index.AbortedTxn // of the answer: not begun yet, by first offset
	begun    int                // how many of waiting have begun
	aborting map[int64]struct{} // producers of those that have begun and not ended
}

// Close gives the memory of decompressed records back. The Delivery may be used
// again.
func (d *Delivery) Close() { d.records.Close() }

// Take begins an answer, which must stay open until Next is false.
func (d *Delivery) Take(f *log.Fetched) {
	d.waiting = append(d.waiting[:0], f.Aborted...)
	slices.SortStableFunc(d.waiting, func(a, b index.AbortedTxn) int { return cmp.Compare(a.First, b.First) })
	d.begun = 0
	clear(d.aborting)
	d.asked, d.rest, d.end = d.Position, f.Bytes(), f.NextOffset()
	d.batch, d.inBatch, d.ending, d.err = nil, false, false, nil
}

// Next goes to the next record. False at the end of the answer, or at what
// cannot be delivered: then Err tells.
func (d *Delivery) Next() bool {
	for d.err == nil {
		if d.inBatch {
			if d.nextOfBatch() {
				return true
			}
			continue
		}
		switch {
		case d.ending:
			d.err = d.endOfBatch()
		case len(d.rest) > 0:
			d.err = d.beginBatch()
		default:
			// Only now: within an answer the position follows the records.
			d.Position = d.end
			return false
		}
	}
	return false
}

// Count goes to the end of the answer and counts the records that Next would
// deliver, or stops where it has most or more. It looks into no batch but the
// first. The Position goes along.
func (d *Delivery) Count(most int64) (n int64, err error) {
	for len(d.rest) > 0 && n < most {
		b, err := batch.Parse(d.rest)
		if err != nil {
			return n, &Error{Batch: d.Position, Err: err}
		}
		d.rest = d.rest[len(b):]
		aborted, err := d.isAborted(b)
		if err != nil {
			return n, err
		}
		if !aborted && !b.IsControl() {
			n += d.wanted(b)
		}
		d.Position = max(d.Position, b.NextOffset())
	}
	if len(d.rest) == 0 {
		d.Position = d.end
	}
	return n, nil
}

// Record is the one that Next went to. Key, Value and Headers are valid until
// Next leaves its batch.
func (d *Delivery) Record() *batch.Record { return &d.record }

// Batch is the one that holds Record.
func (d *Delivery) Batch() batch.Batch { return d.batch }

// Err is an *Error where a batch cannot be delivered.
func (d *Delivery) Err() error { return d.err }

// beginBatch goes to the next batch, and over it if it is left out.
func (d *Delivery) beginBatch() error {
	b, err := batch.Parse(d.rest)
	if err != nil {
		return &Error{Batch: d.Position, Err: err}
	}
	d.batch, d.rest = b, d.rest[len(b):]
	aborted, err := d.isAborted(b)
	if err != nil {
		return err
	}
	if aborted {
		d.Left.Aborted += d.wanted(b)
		d.Position = b.NextOffset()
		return nil
	}
	if b.RecordCount() == 0 { // emptied by compaction
		return nil
	}
	d.reset(b)
	d.inBatch, d.ending = d.records.Next(), true
	return nil
}

// nextOfBatch looks at the next record of the batch; true if it is delivered.
func (d *Delivery) nextOfBatch() bool {
	r := *d.records.Record()
	// The last record is not delivered if the batch goes on behind it.
	d.inBatch = d.records.Next()
	bad, ok := errors.AsType[*batch.RecordError](d.records.Err())
	switch {
	case ok && bad.Index == int(d.batch.RecordCount()):
	case r.Offset < d.asked: // the batch holds the offset that was asked for
	case r.Offset < d.Position:
		d.Left.Repeated++
	case d.batch.IsControl():
		d.Left.Control++
		d.Position = r.Offset + 1
	default:
		d.Position = r.Offset + 1
		d.record = r
		return true
	}
	return false
}

// endOfBatch tells how the batch ended.
func (d *Delivery) endOfBatch() error {
	d.ending = false
	if err := d.records.Err(); err != nil {
		return &Error{Batch: d.batch.BaseOffset(), Err: err}
	}
	return nil
}

// isAborted tells whether a consumer at this isolation level leaves a batch out
// whole, and keeps the books of that.
func (d *Delivery) isAborted(b batch.Batch) (bool, error) {
	id := b.ProducerID()
	if d.Isolation != log.ReadCommitted || id < 0 {
		return false, nil
	}
	for d.begun < len(d.waiting) && d.waiting[d.begun].First <= b.LastOffset() {
		if d.aborting == nil {
			d.aborting = map[int64]struct{}{}
		}
		d.aborting[d.waiting[d.begun].ProducerID] = struct{}{}
		d.begun++
	}
	ends, err := d.isAbortMarker(b)
	if ends {
		delete(d.aborting, id)
		return false, nil
	}
	_, aborted := d.aborting[id]
	return b.IsTransactional() && aborted, err
}

// isAbortMarker looks at no more than the key of the first record.
func (d *Delivery) isAbortMarker(b batch.Batch) (bool, error) {
	if !b.IsControl() || b.RecordCount() == 0 {
		return false, nil
	}
	d.reset(b)
	if !d.records.Next() {
		return false, &Error{Batch: b.BaseOffset(), Err: d.records.Err()}
	}
	_, kind, err := batch.ReadControl(d.records.Record().Key)
	if err != nil {
		return false, &Error{Batch: b.BaseOffset(), Err: err}
	}
	return kind == batch.ControlAbort, nil
}

func (d *Delivery) reset(b batch.Batch) {
	d.records.Limit = recordBytesMax
	d.records.Reset(b)
}

// wanted counts the records of a batch from the position on.
func (d *Delivery) wanted(b batch.Batch) (n int64) {
	if b.BaseOffset() >= d.Position {
		return max(int64(b.RecordCount()), 0)
	}
	for d.reset(b); d.records.Next(); {
		if d.records.Record().Offset >= d.Position {
			n++
		}
	}
	return n
}
