package producerstate

import "github.com/oncelog/oncelog/batch"

// batchesMax is how many batches of a producer are remembered: as many as a
// client may have in flight.
const batchesMax = 5

// remembered is one batch that a retry is compared with.
type remembered struct {
	lastOffset   int64
	timestamp    int64 // largest of the batch
	lastSequence int32 // None: of a coordinator, without sequences
	offsetDelta  int32 // last offset minus first
}

func (r *remembered) firstOffset() int64 { return r.lastOffset - int64(r.offsetDelta) }

func (r *remembered) firstSequence() int32 {
	if r.lastSequence == batch.None {
		return batch.None
	}
	return batch.SubSequence(r.lastSequence, r.offsetDelta)
}

// entry is what is known of one producer id. 80 bytes, no pointers: a million
// of them cost the collector nothing.
type entry struct {
	id       int64
	last     remembered // of the newest batch; meaningless while batches is 0
	time     int64      // of the last batch or marker, as it says itself; goes into snapshots
	seen     int64      // when the log took it, by its own clock; decides on expiry
	txnFirst int64      // first offset of the open transaction, None if none is

	coordinatorEpoch int32  // of the last marker, None if there was none
	older            uint32 // handle of the batches before the last, 0 while there is none

	// Neighbours in the one list that the entry is on (see Table.listOf).
	prev, next uint32

	epoch   int16
	batches uint8 // 0…batchesMax, the newest included
	cursor  uint8 // place in older that is written next
}

// olderBatches holds batches two to five of a producer, in a ring.
type olderBatches struct {
	ring  [batchesMax - 1]remembered
	owner uint32 // handle of the entry
}

// absent is what a producer id is judged by of which nothing is known.
var absent = entry{epoch: batch.None, coordinatorEpoch: batch.None, time: batch.None, txnFirst: batch.None}

func (e *entry) open() bool { return e.txnFirst != batch.None }

// lastSequence is None if no batch of this epoch is remembered.
func (e *entry) lastSequence() int32 {
	if e.batches == 0 {
		return batch.None
	}
	return e.last.lastSequence
}

// Info is what the table knows of one producer, and what a snapshot keeps.
type Info struct {
	Producer         batch.Producer
	LastSequence     int32 // None: no batch of this epoch, or of a coordinator
	OffsetDelta      int32 // last offset minus first of the last batch
	CoordinatorEpoch int32 // None: no marker so far
	Batches          int   // remembered: 0…5; of a snapshot 0 or 1
	LastOffset       int64 // of the last batch; None if Batches is 0
	LastTimestamp    int64 // ms, of the last batch or marker, by its own record
	TxnFirst         int64 // first offset of the open transaction; None: none
}

// FirstSequence is the sequence of the first record of the last batch.
func (i *Info) FirstSequence() int32 {
	if i.LastSequence == batch.None {
		return batch.None
	}
	return batch.SubSequence(i.LastSequence, i.OffsetDelta)
}

func (e *entry) info() Info {
	i := Info{
		Producer:         batch.Producer{ID: e.id, Epoch: e.epoch},
		LastSequence:     batch.None,
		CoordinatorEpoch: e.coordinatorEpoch,
		Batches:          int(e.batches),
		LastOffset:       batch.None,
		LastTimestamp:    e.time,
		TxnFirst:         e.txnFirst,
	}
	if e.batches > 0 {
		i.LastSequence, i.LastOffset, i.OffsetDelta = e.last.lastSequence, e.last.lastOffset, e.last.offsetDelta
	}
	return i
}

// remember makes b the newest batch of e.
func (t *Table) remember(handle uint32, b remembered) {
	e := t.entries.at(handle)
	if e.batches > 0 {
		if e.older == 0 {
			e.older = t.older.push()
			t.older.at(e.older).owner = handle
		}
		t.older.at(e.older).ring[e.cursor] = e.last
		e.cursor = (e.cursor + 1) % (batchesMax - 1)
	}
	e.batches = min(e.batches+1, batchesMax)
	e.last = b
}

// forgetBatches drops all batches of e: its epoch has changed, or it goes.
func (t *Table) forgetBatches(e *entry) {
	e.batches, e.cursor = 0, 0
	e.last = remembered{}
	if e.older == 0 {
		return
	}
	hole := e.older
	e.older = 0
	if end := t.older.n; hole != end {
		moved := t.older.at(end)
		*t.older.at(hole) = *moved
		t.entries.at(moved.owner).older = hole
	}
	t.older.pop()
}

// find looks for a remembered batch with exactly these sequences, oldest
// first: a log that was replayed over an expiry may hold two.
func (t *Table) find(e *entry, first, last int32) (remembered, bool) {
	if e.batches > 1 {
		ring := &t.older.at(e.older).ring
		place := e.cursor + batchesMax - e.batches // of the oldest
		for range e.batches - 1 {
			r := &ring[place%(batchesMax-1)]
			if r.lastSequence == last && r.firstSequence() == first {
				return *r, true
			}
			place++
		}
	}
	if e.batches > 0 && e.last.lastSequence == last && e.last.firstSequence() == first {
		return e.last, true
	}
	return remembered{}, false
}
