package producerstate

import (
	"sync/atomic"

	"github.com/oncelog/oncelog/batch"
)

// Guard proves that a coordinator was asked about a transaction after the
// last one of that producer ended here. 0 is none.
type Guard uint64

// lastGuard makes guards unique in the process, over all tables: after a
// truncation a partition has a new table, in which a guard of the old one
// must not hold.
var lastGuard atomic.Uint64

// verificationsMax bounds the producers between Verify and their first
// transactional batch. Beyond it the oldest goes; its guard no longer holds.
const verificationsMax = 1 << 16

// verification is what is known of a producer that was verified and has not
// written yet. Never persisted.
type verification struct {
	id         int64
	created    int64 // ms
	guard      Guard
	lowest     int32 // smallest sequence asked for that may be the first; None: none
	prev, next uint32
	epoch      int16
	tv2        bool
}

// verifications are few: one for each producer between its verification and
// its first batch. In the order of their making.
type verifications struct {
	handles map[int64]uint32
	all     pool[verification]
	oldest  uint32
	newest  uint32
}

// Verify prepares the first transactional batch of a transaction: the caller
// takes the guard, asks the coordinator whether the partition is part of the
// transaction, and appends with the guard. needed is false, and the guard 0,
// if the transaction of this producer and epoch is open here already.
//
// A guard holds until a transactional batch or a marker of the producer is
// applied: one that was taken before an abort is void after it. The guard of a
// fenced epoch is 0: Check refuses the batch with ErrInvalidProducerEpoch.
//
// tv2 says that the transaction is of version 2, whose first sequence is 0.
// baseSequence is that of the batch, None for offset commits. As long as nothing
// is known of the producer, Check refuses higher sequences than the lowest one
// asked for, so that a batch whose verification must be repeated is not
// overtaken. Once something is, it knows the one sequence that is due, and a
// retry or a gap that was asked for must not bar that one.
func (t *Table) Verify(p batch.Producer, baseSequence int32, tv2 bool, now int64) (g Guard, needed bool) {
	e, known := t.lookup(p.ID)
	if e.open() && e.epoch == p.Epoch {
		return 0, false
	}
	if p.Epoch < e.epoch || p.ID < 0 {
		return 0, true
	}
	v := t.guards.find(p.ID)
	if v == nil {
		v = t.guards.add(p, now)
	}
	if v.epoch < p.Epoch {
		v.epoch, v.lowest = p.Epoch, batch.None
	}
	if v.epoch > p.Epoch {
		return v.guard, true
	}
	v.tv2 = tv2
	mayBegin := !known && baseSequence >= 0 && (!tv2 || baseSequence == 0)
	if mayBegin && (v.lowest == batch.None || baseSequence < v.lowest) {
		v.lowest = baseSequence
	}
	return v.guard, true
}

// find is the verification of a producer id, nil if there is none. Good until
// the next add or remove.
func (v *verifications) find(id int64) *verification {
	if len(v.handles) == 0 {
		return nil
	}
	if handle, ok := v.handles[id]; ok {
		return v.all.at(handle)
	}
	return nil
}

// holds tells whether g is the guard of this producer's verification.
func (v *verifications) holds(id int64, g Guard) bool {
	if g == 0 {
		return false
	}
	found := v.find(id)
	return found != nil && found.guard == g
}

func (v *verifications) add(p batch.Producer, now int64) *verification {
	if v.all.n >= verificationsMax {
		v.remove(v.all.at(v.oldest).id)
	}
	if v.handles == nil {
		v.handles = make(map[int64]uint32)
	}
	handle := v.all.push()
	v.handles[p.ID] = handle
	added := v.all.at(handle)
	*added = verification{
		id:      p.ID,
		created: now,
		guard:   Guard(lastGuard.Add(1)),
		lowest:  batch.None,
		prev:    v.newest,
		epoch:   p.Epoch,
	}
	if v.newest == 0 {
		v.oldest = handle
	} else {
		v.all.at(v.newest).next = handle
	}
	v.newest = handle
	return added
}

// remove forgets the verification of a producer id, if there is one.
func (v *verifications) remove(id int64) {
	if len(v.handles) == 0 {
		return
	}
	handle, ok := v.handles[id]
	if !ok {
		return
	}
	delete(v.handles, id)
	gone := *v.all.at(handle)
	v.point(gone.prev, gone.next, gone.next, gone.prev)
	if end := v.all.n; handle != end {
		moved := *v.all.at(end)
		*v.all.at(handle) = moved
		v.handles[moved.id] = handle
		v.point(moved.prev, handle, moved.next, handle)
	}
	v.all.pop()
}

// point lets the element prev have the successor next, and the element after
// have the predecessor before; 0 stands for the ends of the list.
func (v *verifications) point(prev, next, after, before uint32) {
	if prev == 0 {
		v.oldest = next
	} else {
		v.all.at(prev).next = next
	}
	if after == 0 {
		v.newest = before
	} else {
		v.all.at(after).prev = before
	}
}

// expire forgets what was made olderThan ms ago or earlier, at most n of them.
func (v *verifications) expire(now, olderThan int64, n int) int {
	for i := range n {
		if v.oldest == 0 {
			return i
		}
		oldest := v.all.at(v.oldest)
		if now-oldest.created < olderThan {
			return i
		}
		v.remove(oldest.id)
	}
	return n
}

// bytes estimates the map: a key, a handle and the tables' slack.
func (v *verifications) bytes() int { return v.all.bytes() + 24*len(v.handles) }
