package producerstate

import (
	"iter"

	"github.com/oncelog/oncelog/batch"
)

// list is a doubly linked list of entries by handle.
type list struct{ head, tail uint32 }

// listOf is the list that an entry in this state belongs on. It must be asked
// before a change that matters to it, to unlink, and after, to link.
func (t *Table) listOf(e *entry) *list {
	switch {
	case e.open():
		return &t.ongoing
	case e.coordinatorEpoch != batch.None:
		return &t.transactional
	default:
		return &t.plain
	}
}

// link puts an entry on its list. Lists of the idle are in the order of the
// last touch. Open transactions are in the order of their first offsets;
// batches come in the order of offsets, so the place is the end but for logs
// whose offsets go back, which only a damaged one does.
func (t *Table) link(handle uint32) {
	e := t.entries.at(handle)
	l := t.listOf(e)
	before := l.tail
	if e.open() {
		for before != 0 && t.entries.at(before).txnFirst > e.txnFirst {
			before = t.entries.at(before).prev
		}
	}
	e.prev = before
	if before == 0 {
		e.next, l.head = l.head, handle
	} else {
		p := t.entries.at(before)
		e.next, p.next = p.next, handle
	}
	if e.next == 0 {
		l.tail = handle
	} else {
		t.entries.at(e.next).prev = handle
	}
}

// unlink takes an entry off its list.
func (t *Table) unlink(handle uint32) {
	e := t.entries.at(handle)
	l := t.listOf(e)
	if e.prev == 0 {
		l.head = e.next
	} else {
		t.entries.at(e.prev).next = e.next
	}
	if e.next == 0 {
		l.tail = e.prev
	} else {
		t.entries.at(e.next).prev = e.prev
	}
	e.prev, e.next = 0, 0
}

// relink corrects what points to an entry that moves to another handle.
func (t *Table) relink(from, to uint32) {
	e := t.entries.at(from)
	l := t.listOf(e)
	if e.prev == 0 {
		l.head = to
	} else {
		t.entries.at(e.prev).next = to
	}
	if e.next == 0 {
		l.tail = to
	} else {
		t.entries.at(e.next).prev = to
	}
}

// touch moves an idle entry to the end of its list.
func (t *Table) touch(handle uint32) {
	e := t.entries.at(handle)
	if e.open() || t.listOf(e).tail == handle {
		return
	}
	t.unlink(handle)
	t.link(handle)
}

// FirstUndecided is the first offset of the earliest open transaction; ok is
// false if none is open. O(1).
func (t *Table) FirstUndecided() (offset int64, ok bool) {
	if t.ongoing.head == 0 {
		return 0, false
	}
	return t.entries.at(t.ongoing.head).txnFirst, true
}

// OngoingTxn is one open transaction.
type OngoingTxn struct {
	Producer      batch.Producer
	First         int64 // offset of its first batch
	LastTimestamp int64 // ms, of its last batch, by its own record
}

// Ongoing gives the open transactions in the order of their first offsets.
// The table must not change meanwhile.
func (t *Table) Ongoing() iter.Seq[OngoingTxn] {
	return func(yield func(OngoingTxn) bool) {
		for handle := t.ongoing.head; handle != 0; {
			e := t.entries.at(handle)
			txn := OngoingTxn{
				Producer:      batch.Producer{ID: e.id, Epoch: e.epoch},
				First:         e.txnFirst,
				LastTimestamp: e.time,
			}
			if !yield(txn) {
				return
			}
			handle = e.next
		}
	}
}

// lastStable is what the aborted-transaction index records when the
// transaction of this entry ends with a marker at the given offset: the first
// offset of the earliest other open transaction, else the offset behind the
// marker. The high watermark plays no part.
func (t *Table) lastStable(handle uint32, marker int64) int64 {
	other := t.ongoing.head
	if other == handle {
		other = t.entries.at(handle).next
	}
	if other == 0 {
		return marker + 1
	}
	return t.entries.at(other).txnFirst
}
