package main

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// open opens a file and tells its size.
func (d *dumper) open(path string) (vfs.File, int64, error) {
	f, err := d.segments().Open(path)
	if err != nil {
		return nil, 0, cannotLook(path, err)
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(cannotLook(path, err), f.Close())
	}
	return f, size, nil
}

// decide adds a segment file to what is known about transactions.
func (d *dumper) decide(path string) error {
	f, size, err := d.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return d.decided.readLog(f, size)
}

// log shows a segment file: its batches and, if asked for, their records.
func (d *dumper) log(path string) error {
	f, size, err := d.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d.out.file(path)
	var records batch.Records
	defer records.Close()
	batches, count := int64(0), int64(0)
	end, err := walkLog(f, size, func(pos int64, b batch.Batch) error {
		batches++
		count += int64(b.RecordCount())
		d.batch(pos, b)
		if d.records {
			d.batchRecords(&records, pos, b)
		}
		d.progress.add(path, int64(len(b)))
		if d.out.failed() {
			return errOutput
		}
		return nil
	})
	if errors.Is(err, errOutput) {
		return err
	}
	if err != nil {
		return cannotLook(path, err)
	}
	d.out.begin("summary")
	d.out.int("batches", batches)
	d.out.int("records", count)
	d.out.int("bytes", size)
	d.out.end()
	d.heldOf(path)
	return d.logEnd(path, end)
}

// logEnd shows what stands behind the last batch.
func (d *dumper) logEnd(path string, end logEnd) error {
	switch end.kind {
	case endZeros:
		d.tail("zeros", end.pos, end.rest, "allocated and not written")
	case endTorn:
		d.tail("torn", end.pos, end.rest, end.err.Error())
	case endDamage:
		d.damage(damageFraming, end.pos, end.rest, end.err.Error())
	case endLegacy:
		d.tail("legacy", end.pos, end.rest, end.err.Error())
		return fmt.Errorf("%s at byte %d: %w; let a Kafka of version 3 rewrite the topic, or copy it to a new one", path, end.pos, end.err)
	}
	return nil
}

// batch shows the header of a batch, and damage to its bytes.
func (d *dumper) batch(pos int64, b batch.Batch) {
	h := b.Header()
	damage := b.Check()
	crcOK := damage == nil || b.CheckCRC() == nil
	o := d.out
	o.begin("batch")
	o.int("pos", pos)
	o.int("bytes", int64(h.Size))
	o.int("base_offset", h.BaseOffset)
	o.int("last_offset", h.LastOffset())
	o.int("records", int64(h.RecordCount))
	o.int("leader_epoch", int64(h.LeaderEpoch))
	o.int("producer_id", h.Producer.ID)
	o.int("epoch", int64(h.Producer.Epoch))
	o.int("base_sequence", int64(h.BaseSequence))
	o.int("last_sequence", int64(h.LastSequence()))
	o.bool("transactional", h.IsTransactional())
	o.bool("control", h.IsControl())
	o.string("codec", h.Codec().String())
	o.string("ts_type", h.Timestamps().String())
	o.int("max_ts", h.MaxTimestamp)
	if h.HasDeleteHorizon() {
		// The field holds the horizon, and the timestamps are relative to it.
		o.optionalInt("base_ts", 0, false)
		o.int("delete_horizon_ms", h.BaseTimestamp)
	} else {
		o.int("base_ts", h.BaseTimestamp)
		o.optionalInt("delete_horizon_ms", 0, false)
	}
	o.int("attributes", int64(h.Attributes))
	o.int("magic", batch.Magic)
	o.int("crc", int64(h.CRC))
	o.bool("crc_ok", crcOK)
	o.end()
	switch {
	case !crcOK:
		d.damage(damageChecksum, pos, int64(h.Size), damage.Error())
	case damage != nil:
		d.damage(damageBatch, pos, int64(h.Size), damage.Error())
	}
}

// batchRecords shows the records of a batch whose header was shown before.
func (d *dumper) batchRecords(records *batch.Records, pos int64, b batch.Batch) {
	records.Reset(b)
	for records.Next() {
		d.record(b, records.Record())
	}
	if err := records.Err(); err != nil {
		d.damage(damageRecords, pos, int64(len(b)), err.Error())
	}
}

// record shows one record. Columns that only repeat the batch are left out of
// the tables.
func (d *dumper) record(b batch.Batch, r *batch.Record) {
	o := d.out
	o.beginChild("record")
	o.int("offset", r.Offset)
	o.int("ts", r.Timestamp)
	if o.json {
		o.string("ts_type", b.Timestamps().String())
		o.int("leader_epoch", int64(b.LeaderEpoch()))
		o.int("producer_id", b.ProducerID())
		o.int("epoch", int64(b.ProducerEpoch()))
	}
	o.int("sequence", int64(sequence(b, r)))
	committed := d.decided != nil && !b.IsControl()
	o.optionalBool("committed", committed && d.decided.isCommitted(b, r.Offset, d.lastStable), committed)
	if b.IsControl() {
		o.object("control", controlOf(r))
		o.bytes("key", r.Key)
		o.bytes("value", r.Value)
	} else {
		key, value := d.decoder.decode(r.Key, r.Value)
		o.object("control", nil)
		o.decoded("key", r.Key, key)
		o.decoded("value", r.Value, value)
	}
	o.object("headers", headersOf(r))
	o.end()
}

// sequence is the sequence of one record, None if the batch has none.
func sequence(b batch.Batch, r *batch.Record) int32 {
	if b.BaseSequence() == batch.None || r.OffsetDelta < 0 {
		return batch.None
	}
	return batch.AddSequence(b.BaseSequence(), r.OffsetDelta)
}
