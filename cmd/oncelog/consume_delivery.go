package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/log"
)

// delivery delivers the records of one partition by the rules of Kafka's Java
// consumer, and counts what these leave out. It decides by the batches alone,
// and remembers nothing about transactions from one answer to the next. Not
// safe for concurrent use.
type delivery struct {
	isolation log.Isolation
	position  int64 // offset that is wanted next
	asked     int64 // the position when the current answer was asked for
	// show takes each record; what it points to is valid until it returns. An
	// error of it ends the delivery behind that record.
	show func(b batch.Batch, r *batch.Record) error

	records  batch.Records
	waiting  []index.AbortedTxn // of the current answer: not begun yet, by first offset
	aborting map[int64]bool     // producers of those that have begun

	left leftOut
}

// leftOut counts records that were not delivered.
type leftOut struct {
	control  int64
	aborted  int64
	repeated int64 // with an offset that is not above the one before
}

// deliveryError is about a batch that cannot be delivered, or not whole.
type deliveryError struct {
	file  string // of the batch, "" until the reader of the log adds it
	batch int64  // its base offset
	err   error
}

func (e *deliveryError) Error() string {
	return fmt.Sprintf("%s is damaged in the batch at offset %d: %v", e.file, e.batch, e.err)
}

func (e *deliveryError) Unwrap() error { return e.err }

// recordBytesMax bounds the records of one batch, decompressed. It is more than
// a broker would have taken.
const recordBytesMax = 1 << 30

// close gives the memory back.
func (d *delivery) close() { d.records.Close() }

// take delivers what one read answered. Errors: those of show, *deliveryError.
func (d *delivery) take(f *log.Fetched) error {
	d.waiting = append(d.waiting[:0], f.Aborted...)
	slices.SortStableFunc(d.waiting, func(a, b index.AbortedTxn) int { return cmp.Compare(a.First, b.First) })
	d.aborting, d.asked = map[int64]bool{}, d.position
	for b := range f.Batches() {
		aborted, err := d.isAborted(b)
		if err == nil && aborted {
			d.left.aborted += d.wanted(b)
			d.position = b.NextOffset()
			continue
		}
		if err == nil {
			err = d.deliver(b)
		}
		if err != nil {
			return err
		}
	}
	// Only now: within an answer the position follows the records.
	d.position = f.NextOffset()
	return nil
}

// isAborted tells whether a consumer at this isolation level leaves a batch out
// whole, and keeps the books of that.
func (d *delivery) isAborted(b batch.Batch) (bool, error) {
	id := b.ProducerID()
	if d.isolation != log.ReadCommitted || id < 0 {
		return false, nil
	}
	for len(d.waiting) > 0 && d.waiting[0].First <= b.LastOffset() {
		d.aborting[d.waiting[0].ProducerID] = true
		d.waiting = d.waiting[1:]
	}
	ends, err := d.isAbortMarker(b)
	if ends {
		delete(d.aborting, id)
		return false, nil
	}
	return b.IsTransactional() && d.aborting[id], err
}

// isAbortMarker looks at no more than the key of the first record.
func (d *delivery) isAbortMarker(b batch.Batch) (bool, error) {
	if !b.IsControl() || b.RecordCount() == 0 {
		return false, nil
	}
	d.reset(b)
	if !d.records.Next() {
		return false, &deliveryError{batch: b.BaseOffset(), err: d.records.Err()}
	}
	_, kind, err := batch.ReadControl(d.records.Record().Key)
	if err != nil {
		return false, &deliveryError{batch: b.BaseOffset(), err: err}
	}
	return kind == batch.ControlAbort, nil
}

func (d *delivery) reset(b batch.Batch) {
	d.records.Limit = recordBytesMax
	d.records.Reset(b)
}

// wanted counts the records of a batch from the position on.
func (d *delivery) wanted(b batch.Batch) (n int64) {
	if b.BaseOffset() >= d.position {
		return max(int64(b.RecordCount()), 0)
	}
	for d.reset(b); d.records.Next(); {
		if d.records.Record().Offset >= d.position {
			n++
		}
	}
	return n
}

// deliver shows the records of a batch from the position on.
func (d *delivery) deliver(b batch.Batch) error {
	if b.RecordCount() == 0 { // emptied by compaction
		return nil
	}
	d.reset(b)
	for more := d.records.Next(); more; {
		r := *d.records.Record()
		// The last record is not delivered if the batch goes on behind it.
		more = d.records.Next()
		if bad, ok := errors.AsType[*batch.RecordError](d.records.Err()); ok && bad.Index == int(b.RecordCount()) {
			break
		}
		switch {
		case r.Offset < d.asked: // the batch holds the offset that was asked for
		case r.Offset < d.position:
			d.left.repeated++
		case b.IsControl():
			d.left.control++
			d.position = r.Offset + 1
		default:
			d.position = r.Offset + 1
			if err := d.show(b, &r); err != nil {
				return err
			}
		}
	}
	if err := d.records.Err(); err != nil {
		return &deliveryError{batch: b.BaseOffset(), err: err}
	}
	return nil
}
