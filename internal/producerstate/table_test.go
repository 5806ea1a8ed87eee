package producerstate

import (
	"fmt"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

const (
	bitTransactional = 0x10
	bitControl       = 0x20
)

// dataBatch is the header of a batch of n records.
func dataBatch(offset int64, p batch.Producer, sequence, n int32, transactional bool) *batch.Header {
	h := &batch.Header{
		BaseOffset:      offset,
		LastOffsetDelta: n - 1,
		RecordCount:     n,
		Producer:        p,
		BaseSequence:    sequence,
		MaxTimestamp:    1000 + offset,
	}
	if transactional {
		h.Attributes |= bitTransactional
	}
	return h
}

// markerBatch is a marker and the header of its batch.
func markerBatch(offset int64, p batch.Producer, commit bool, coordinatorEpoch int32) (*batch.Header, *batch.Marker) {
	h := &batch.Header{
		BaseOffset:   offset,
		RecordCount:  1,
		Producer:     p,
		BaseSequence: batch.None,
		MaxTimestamp: 1000 + offset,
		Attributes:   bitTransactional | bitControl,
	}
	return h, &batch.Marker{Producer: p, Commit: commit, CoordinatorEpoch: coordinatorEpoch, Timestamp: 1000 + offset}
}

// partition is a table with a log end, as package log drives it.
type partition struct {
	table *Table
	end   int64
	clock int64
}

func newPartition() *partition { return &partition{table: New(Options{}), clock: 1_000_000} }

// data appends a batch without asking.
func (p *partition) data(producer batch.Producer, sequence, n int32, transactional bool) {
	p.table.Apply(dataBatch(p.end, producer, sequence, n, transactional), nil, p.clock)
	p.end += int64(n)
}

func (p *partition) marker(producer batch.Producer, commit bool, coordinatorEpoch int32) (CompletedTxn, bool) {
	h, m := markerBatch(p.end, producer, commit, coordinatorEpoch)
	p.end++
	return p.table.Apply(h, m, p.clock)
}

// audit checks everything that ties the parts of a table together.
func audit(t *Table) error {
	n := t.entries.n
	onLists := uint32(0)
	for name, l := range map[string]*list{"ongoing": &t.ongoing, "plain": &t.plain, "transactional": &t.transactional} {
		before := uint32(0)
		for handle := l.head; handle != 0; handle = t.entries.at(handle).next {
			e := t.entries.at(handle)
			if t.listOf(e) != l {
				return fmt.Errorf("producer %d is on list %s", e.id, name)
			}
			if e.prev != before {
				return fmt.Errorf("producer %d on list %s: prev %d, not %d", e.id, name, e.prev, before)
			}
			if name == "ongoing" && before != 0 && t.entries.at(before).txnFirst > e.txnFirst {
				return fmt.Errorf("transaction at %d after one at %d", e.txnFirst, t.entries.at(before).txnFirst)
			}
			before = handle
			if onLists++; onLists > n {
				return fmt.Errorf("more than %d entries on lists", n)
			}
		}
		if l.tail != before {
			return fmt.Errorf("list %s ends at %d, not %d", name, l.tail, before)
		}
	}
	if onLists != n {
		return fmt.Errorf("%d of %d entries on lists", onLists, n)
	}
	older := uint32(0)
	for handle := uint32(1); handle <= n; handle++ {
		e := t.entries.at(handle)
		if found := t.index.find(&t.entries, e.id); found != handle {
			return fmt.Errorf("producer %d is at %d, the index says %d", e.id, handle, found)
		}
		if (e.batches > 1) && e.older == 0 || e.batches > batchesMax {
			return fmt.Errorf("producer %d: %d batches, older %d", e.id, e.batches, e.older)
		}
		if e.older != 0 {
			older++
			if owner := t.older.at(e.older).owner; owner != handle {
				return fmt.Errorf("older batches of producer %d belong to %d", e.id, owner)
			}
		}
	}
	if older != t.older.n {
		return fmt.Errorf("%d of %d older batches have owners", older, t.older.n)
	}
	used, before := 0, (*slots)(nil)
	for _, s := range t.index.dir {
		if s != before {
			used += s.used
		}
		before = s
	}
	if used != int(n) {
		return fmt.Errorf("index holds %d of %d", used, n)
	}
	return nil
}

func mustAudit(tb testing.TB, t *Table) {
	tb.Helper()
	if err := audit(t); err != nil {
		tb.Fatal(err)
	}
}

func TestGrowAndShrink(t *testing.T) {
	const n = 20_000
	p := newPartition()
	for id := range int64(n) {
		p.data(batch.Producer{ID: id * 7}, 0, 1, false)
		p.data(batch.Producer{ID: id * 7}, 1, 1, false)
		if id%997 == 0 {
			mustAudit(t, p.table)
		}
	}
	mustAudit(t, p.table)
	grown := p.table.Bytes()
	for id := range int64(n) {
		info, ok := p.table.Info(id * 7)
		want := Info{
			Producer:         batch.Producer{ID: id * 7},
			LastSequence:     1,
			CoordinatorEpoch: batch.None,
			Batches:          2,
			LastOffset:       2*id + 1,
			LastTimestamp:    1000 + 2*id + 1,
			TxnFirst:         batch.None,
		}
		if !ok || info != want {
			t.Fatalf("producer %d: %+v %v, want %+v", id*7, info, ok, want)
		}
		if _, ok := p.table.Info(id*7 + 1); ok {
			t.Fatalf("producer %d is known", id*7+1)
		}
	}
	for p.table.Len() > 0 {
		if p.table.Len()%1999 == 0 {
			mustAudit(t, p.table)
		}
		if p.table.ExpireSome(p.clock+10, 10, 1) != 1 {
			t.Fatal("nothing expired")
		}
	}
	mustAudit(t, p.table)
	if left := p.table.Bytes(); left > 4096 {
		t.Errorf("an empty table holds %d bytes, full it was %d", left, grown)
	}
}

func TestSmallTableIsSmall(t *testing.T) {
	p := newPartition()
	p.data(batch.Producer{ID: 1}, 0, 1, false)
	if size := p.table.Bytes(); size > 2048 {
		t.Errorf("a table with one producer holds %d bytes", size)
	}
}

func TestProducersMax(t *testing.T) {
	table := New(Options{ProducersMax: 10})
	offset := int64(0)
	data := func(id int64, sequence int32, transactional bool) {
		table.Apply(dataBatch(offset, batch.Producer{ID: id}, sequence, 1, transactional), nil, 0)
		offset++
	}
	// One transaction open, two ended, then a flood with one that stays busy.
	data(1, 0, true)
	for id := int64(2); id <= 3; id++ {
		data(id, 0, true)
		h, m := markerBatch(offset, batch.Producer{ID: id}, true, 0)
		table.Apply(h, m, 0)
		offset++
	}
	for i := range int32(1000) {
		data(4, i, false)
		data(1000+int64(i), 0, false)
		if table.Len() > 10 {
			t.Fatalf("%d producers", table.Len())
		}
	}
	for id := int64(1); id <= 4; id++ {
		if _, ok := table.Info(id); !ok {
			t.Errorf("producer %d was evicted before idle plain ones", id)
		}
	}
	// 4 + 1000 producers came, 10 are left.
	if got := table.Evicted(); got != 994 {
		t.Errorf("evicted %d, want 994", got)
	}
	mustAudit(t, table)

	// Open transactions alone may exceed the bound.
	for id := int64(5000); id < 5050; id++ {
		data(id, 0, true)
	}
	ongoing := 0
	for range table.Ongoing() {
		ongoing++
	}
	if ongoing != 51 || table.Len() != 51 {
		t.Errorf("%d open transactions of 51, %d producers", ongoing, table.Len())
	}
	mustAudit(t, table)
}

func TestLoweredBoundTakesEffectGradually(t *testing.T) {
	p := newPartition()
	for id := range int64(1000) {
		p.data(batch.Producer{ID: id}, 0, 1, false)
	}
	p.table.SetProducersMax(100)
	for id := int64(1000); p.table.Len() > 100; id++ {
		before := p.table.Len()
		p.data(batch.Producer{ID: id}, 0, 1, false)
		if gone := before + 1 - p.table.Len(); gone > evictionsMax {
			t.Fatalf("%d evictions in one Apply", gone)
		}
		if id > 2000 {
			t.Fatal("the table does not shrink")
		}
	}
	mustAudit(t, p.table)
}

func TestManyOpenTransactions(t *testing.T) {
	const n = 100_000
	p := newPartition()
	for id := range int64(n) {
		p.data(batch.Producer{ID: id}, 0, 1, true)
	}
	if first, ok := p.table.FirstUndecided(); !ok || first != 0 {
		t.Fatalf("first undecided %d %v", first, ok)
	}
	// Ended from the inside out: the earliest is open to the last.
	for id := int64(1); id < n; id++ {
		c, ok := p.marker(batch.Producer{ID: id}, false, 0)
		if !ok || c.First != id || c.LastStable != 0 {
			t.Fatalf("completed %+v %v", c, ok)
		}
	}
	if first, ok := p.table.FirstUndecided(); !ok || first != 0 {
		t.Fatalf("first undecided %d %v", first, ok)
	}
	if c, ok := p.marker(batch.Producer{}, false, 0); !ok || c.LastStable != c.Last+1 {
		t.Fatalf("completed %+v %v", c, ok)
	}
	if _, ok := p.table.FirstUndecided(); ok {
		t.Fatal("a transaction is left")
	}
	mustAudit(t, p.table)
}

func TestEqual(t *testing.T) {
	build := func(change func(p *partition)) *Table {
		p := newPartition()
		p.data(batch.Producer{ID: 1}, 0, 1, false)
		p.data(batch.Producer{ID: 2, Epoch: 1}, 0, 2, true)
		change(p)
		return p.table
	}
	a := build(func(*partition) {})
	if !a.Equal(build(func(*partition) {})) {
		t.Error("equal tables differ")
	}
	for i, change := range []func(p *partition){
		func(p *partition) { p.data(batch.Producer{ID: 3}, 0, 1, false) },
		func(p *partition) { p.data(batch.Producer{ID: 1}, 1, 1, false) },
		func(p *partition) { p.marker(batch.Producer{ID: 2, Epoch: 1}, true, 0) },
	} {
		if a.Equal(build(change)) {
			t.Errorf("change %d makes no difference", i)
		}
	}
}
