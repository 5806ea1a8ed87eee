package main

import (
	"errors"
	"math"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/vfs"
)

// indexBytesMax is the longest index file that is read. Kafka's have 10 MiB,
// and cannot have more than an int32 tells.
const indexBytesMax = math.MaxInt32

// entries reads an index file without the zeros at its end, and shows those
// as its tail, as it does the torn piece of an entry.
func (d *dumper) entries(path string, entrySize int) (b []byte, size int64, err error) {
	b, err = vfs.ReadFile(d.fs, path, indexBytesMax)
	if err != nil {
		return nil, 0, cannotLook(path, err)
	}
	d.progress.add(path, int64(len(b)))
	d.out.file(path)
	size = int64(len(b))
	zeros := zeroTail(b)
	used := (len(b) - zeros + entrySize - 1) / entrySize * entrySize // an entry may end in zeros
	whole := min(used, len(b)/entrySize*entrySize)
	return b[:whole], size, nil
}

// indexTail shows what stands behind the used part of an index file.
func (d *dumper) indexTail(path string, used int, size int64, entrySize int) error {
	rest := size - int64(used)
	if rest == 0 {
		return nil
	}
	f, _, err := d.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	zeros, err := allZeros(f, int64(used), size)
	if err != nil {
		return cannotLook(path, err)
	}
	if zeros {
		d.tail("zeros", int64(used), rest, "allocated and not written")
	} else {
		d.tail("torn", int64(used), rest, "not a whole entry")
	}
	return nil
}

// indexDamage shows the error of an index. size is that of the file.
func (d *dumper) indexDamage(err error, size int64) {
	if err == nil {
		return
	}
	pos := int64(0)
	if f, ok := errors.AsType[*index.FormatError](err); ok {
		pos = f.Pos
	}
	d.damage(damageIndex, pos, size-pos, err.Error())
}

// offsetIndex shows an .index file. If it cannot be viewed, what is sound at
// its front is shown.
func (d *dumper) offsetIndex(path string, base int64) error {
	b, size, err := d.entries(path, index.OffsetEntrySize)
	if err != nil {
		return err
	}
	x, damage := index.ViewOffset(base, b)
	if damage != nil {
		x = index.LoadOffset(base, b, math.MaxInt64, math.MaxInt64)
	} else {
		damage = x.Check()
	}
	for i := range x.Len() {
		e := x.At(i)
		d.out.begin("offset_index")
		d.out.int("offset", e.Offset)
		d.out.int("pos", e.Pos)
		d.out.end()
	}
	d.summary(x.Len(), size)
	d.indexDamage(damage, size)
	return d.indexTail(path, len(b), size, index.OffsetEntrySize)
}

// timeIndex shows a .timeindex file.
func (d *dumper) timeIndex(path string, base int64) error {
	b, size, err := d.entries(path, index.TimeEntrySize)
	if err != nil {
		return err
	}
	x, damage := index.ViewTime(base, b)
	if damage != nil {
		x = index.LoadTime(base, b, math.MaxInt64)
	} else {
		damage = x.Check()
	}
	for i := range x.Len() {
		e := x.At(i)
		d.out.begin("time_index")
		d.out.int("ts", e.Timestamp)
		d.out.int("offset", e.Offset)
		d.out.end()
	}
	d.summary(x.Len(), size)
	d.indexDamage(damage, size)
	return d.indexTail(path, len(b), size, index.TimeEntrySize)
}

// txnIndex shows a .txnindex file: the aborted transactions whose markers are
// in the segment.
func (d *dumper) txnIndex(path string, base int64) error {
	b, size, err := d.entries(path, index.TxnEntrySize)
	if err != nil {
		return err
	}
	x, damage := index.ViewTxn(base, b)
	if damage != nil {
		x = index.LoadTxn(base, b, math.MaxInt64)
	} else {
		damage = x.Check()
	}
	for i := range x.Len() {
		e := x.At(i)
		d.out.begin("aborted_txn")
		d.out.int("producer_id", e.ProducerID)
		d.out.int("first_offset", e.First)
		d.out.int("last_offset", e.Last)
		d.out.int("lso", e.LastStable)
		d.out.end()
	}
	d.summary(x.Len(), size)
	d.indexDamage(damage, size)
	return d.indexTail(path, len(b), size, index.TxnEntrySize)
}
