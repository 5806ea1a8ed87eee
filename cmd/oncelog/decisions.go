package main

import (
	"math"
	"sort"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// decisions knows how the transactions of a partition ended, from the markers
// in its log alone, as a consumer at read_committed would see it. Its memory
// grows with the number of aborted transactions.
type decisions struct {
	open    map[int64]int64         // producer id: first offset of its open transaction
	aborted map[int64][]offsetRange // by producer id, ascending
}

// offsetRange is a range of offsets, both ends included.
type offsetRange struct{ first, last int64 }

func newDecisions() *decisions {
	return &decisions{open: make(map[int64]int64), aborted: make(map[int64][]offsetRange)}
}

// readLog adds the batches of the next segment file of the partition.
func (d *decisions) readLog(f vfs.File, size int64) error {
	_, err := walkLog(f, size, func(_ int64, b batch.Batch) error {
		d.add(b)
		return nil
	})
	return err
}

// add takes the next batch in the order of the log. A marker that cannot be
// read decides nothing: dump shows the damage where it shows the batch.
func (d *decisions) add(b batch.Batch) {
	id := b.ProducerID()
	if !b.IsControl() {
		if _, ongoing := d.open[id]; b.IsTransactional() && !ongoing {
			d.open[id] = b.BaseOffset()
		}
		return
	}
	m, ok, err := batch.ReadMarker(b)
	if !ok || err != nil {
		return
	}
	if first, ongoing := d.open[id]; ongoing && !m.Commit {
		d.aborted[id] = append(d.aborted[id], offsetRange{first, b.LastOffset()})
	}
	delete(d.open, id)
}

// lastStable is the offset that a consumer at read_committed does not pass:
// the first of the open transactions, MaxInt64 if none is open.
func (d *decisions) lastStable() int64 {
	lowest := int64(math.MaxInt64)
	for _, first := range d.open {
		lowest = min(lowest, first)
	}
	return lowest
}

// isCommitted tells whether a consumer at read_committed gets the record at
// offset of batch b; lastStable is what the method of that name gave.
func (d *decisions) isCommitted(b batch.Batch, offset, lastStable int64) bool {
	if offset >= lastStable {
		return false
	}
	if !b.IsTransactional() {
		return true
	}
	ranges := d.aborted[b.ProducerID()]
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].last >= offset })
	return i == len(ranges) || offset < ranges[i].first
}
