package producerstate

import (
	"iter"
	"unsafe"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/invariant"
)

// Options configures a Table. The zero value is ready to use.
type Options struct {
	// ProducersMax bounds the producers remembered; 0: no bound. Beyond it
	// the idlest go first, those that never ended a transaction before those
	// that did; never one with an open transaction, so as many of those as
	// there are may exceed the bound.
	ProducersMax int
}

// Table is the producer state of one partition. It is not safe for concurrent
// use: whoever appends holds the lock under which all its methods are called.
type Table struct {
	entries pool[entry] // dense: handles 1…n
	older   pool[olderBatches]
	index   index

	// Each entry is on exactly one of these.
	ongoing       list // with an open transaction, by its first offset
	plain         list // the others, idlest first: no marker seen so far,
	transactional list // or some marker seen

	guards       verifications
	snapshot     *Snapshot // under way; nil: none
	producersMax int
	evicted      uint64
}

// New gives an empty table.
func New(o Options) *Table {
	return &Table{index: newIndex(), producersMax: o.ProducersMax}
}

// Len is the number of producers known.
func (t *Table) Len() int { return int(t.entries.n) }

// Evicted counts the producers that went because of ProducersMax.
func (t *Table) Evicted() uint64 { return t.evicted }

// SetProducersMax changes the bound (0: none). Nothing is evicted at once:
// each Apply and each Expire brings the table some producers nearer to it.
func (t *Table) SetProducersMax(n int) { t.producersMax = n }

// Bytes is the memory held, unused room in blocks included; verifications
// are estimated.
func (t *Table) Bytes() int {
	size := int(unsafe.Sizeof(*t)) + t.entries.bytes() + t.older.bytes() + t.index.bytes() + t.guards.bytes()
	if t.snapshot != nil {
		size += t.snapshot.bytes()
	}
	return size
}

// Info tells what is known of a producer id.
func (t *Table) Info(id int64) (Info, bool) {
	handle := t.index.find(&t.entries, id)
	if handle == 0 {
		return Info{}, false
	}
	return t.entries.at(handle).info(), true
}

// All gives every producer, in no order. The table must not change meanwhile.
func (t *Table) All() iter.Seq[Info] {
	return func(yield func(Info) bool) {
		for handle := uint32(1); handle <= t.entries.n; handle++ {
			if !yield(t.entries.at(handle).info()) {
				return
			}
		}
	}
}

// Equal tells whether both tables know the same of the same producers. Only
// what a snapshot keeps counts: not the batches before the last, not when an
// entry was last seen, not guards.
func (t *Table) Equal(o *Table) bool {
	if t.Len() != o.Len() {
		return false
	}
	for a := range t.All() {
		b, ok := o.Info(a.Producer.ID)
		a.Batches, b.Batches = min(a.Batches, 1), min(b.Batches, 1)
		if !ok || a != b {
			return false
		}
	}
	return true
}

// lookup is the entry of a producer id to read; of an unknown one the entry
// that stands for nothing known.
func (t *Table) lookup(id int64) (e *entry, known bool) {
	if handle := t.index.find(&t.entries, id); handle != 0 {
		return t.entries.at(handle), true
	}
	return &absent, false
}

// add makes an entry for an id that has none, on no list yet.
func (t *Table) add(id int64) uint32 {
	handle := t.entries.push()
	e := t.entries.at(handle)
	*e = absent
	e.id = id
	t.index.insert(&t.entries, handle)
	return handle
}

// remove forgets a producer without an open transaction. The last entry moves
// into its place, so handles held across this call are void.
func (t *Table) remove(handle uint32) {
	e := t.entries.at(handle)
	if e.open() {
		invariant.Check(false, "producer %d is forgotten in an open transaction", e.id)
	}
	end := t.entries.n
	t.preserve(handle)
	t.preserve(end)
	t.unlink(handle)
	t.forgetBatches(e)
	t.index.remove(&t.entries, e.id, handle)
	if handle != end {
		moved := t.entries.at(end)
		t.index.rename(moved.id, end, handle)
		if moved.older != 0 {
			t.older.at(moved.older).owner = handle
		}
		t.relink(end, handle)
		*e = *moved
	}
	t.entries.pop()
	if t.entries.n == 0 && t.index.depth > 0 {
		// What a flood of producers needed is given back with the last.
		t.entries, t.older, t.index = pool[entry]{}, pool[olderBatches]{}, newIndex()
	}
}

// evictionsMax is how many producers one Apply may evict: enough for the
// table to shrink under a lowered bound, too few to be felt.
const evictionsMax = 4

// makeRoom evicts the idlest until one more producer fits, in small steps.
func (t *Table) makeRoom() {
	if t.producersMax <= 0 {
		return
	}
	for range evictionsMax {
		if t.Len() < t.producersMax || !t.evict() {
			return
		}
	}
}

// evict forgets the idlest producer; false if all have open transactions.
func (t *Table) evict() bool {
	handle := t.plain.head
	if handle == 0 {
		handle = t.transactional.head
	}
	if handle == 0 {
		return false
	}
	t.remove(handle)
	t.evicted++
	return true
}

// HasOngoing tells whether this producer, at this epoch, has an open
// transaction here.
func (t *Table) HasOngoing(p batch.Producer) bool {
	e, _ := t.lookup(p.ID)
	return e.open() && e.epoch == p.Epoch
}
