package producerstate

import "github.com/oncelog/oncelog/batch"

// CompletedTxn is a transaction that a marker has ended. It has data in this
// partition: the marker of an empty one completes nothing.
type CompletedTxn struct {
	ProducerID int64
	First      int64 // offset of its first batch
	Last       int64 // offset of its marker
	Commit     bool
	// LastStable is what the aborted-transaction index records: the first
	// offset of the earliest other open transaction, else Last+1.
	LastStable int64
}

// Apply records a batch that is in the log, with its offsets given: live after
// Check and the write, in replay without Check. m is the marker of a control
// batch that has one. It accepts whatever the log holds.
//
// now is the time in ms at which the producer counts as seen, for expiry: the
// log's clock; in replay the time at which the batch was written, as well as
// the caller knows it, and never ahead of the clock that Expire is given.
//
// It returns the transaction that the batch ended, if it did. No allocation
// in steady state.
func (t *Table) Apply(h *batch.Header, m *batch.Marker, now int64) (CompletedTxn, bool) {
	switch {
	case h.IsControl() && m == nil, h.Producer.ID < 0:
		return CompletedTxn{}, false
	case h.IsControl():
		return t.applyMarker(h, m, now)
	}
	t.applyData(h, now)
	return CompletedTxn{}, false
}

// enter gives the entry of a producer that a batch or marker is about to
// change, made if need be.
func (t *Table) enter(id int64) uint32 {
	if handle := t.index.find(&t.entries, id); handle != 0 {
		t.preserve(handle)
		return handle
	}
	t.makeRoom()
	handle := t.add(id)
	t.link(handle)
	return handle
}

func (t *Table) applyData(h *batch.Header, now int64) {
	handle := t.enter(h.Producer.ID)
	e := t.entries.at(handle)
	if e.epoch != h.Producer.Epoch {
		t.forgetBatches(e)
		e.epoch = h.Producer.Epoch
	}
	t.remember(handle, remembered{
		lastOffset:   h.LastOffset(),
		timestamp:    h.MaxTimestamp,
		lastSequence: h.LastSequence(),
		offsetDelta:  h.LastOffsetDelta,
	})
	e.time, e.seen = h.MaxTimestamp, now
	if h.IsTransactional() {
		t.guards.remove(h.Producer.ID)
		if !e.open() {
			t.unlink(handle)
			e.txnFirst = h.BaseOffset
			t.link(handle)
		}
	}
	t.touch(handle)
}

func (t *Table) applyMarker(h *batch.Header, m *batch.Marker, now int64) (CompletedTxn, bool) {
	p := h.Producer // of the marker too: it has no other place
	handle := t.enter(p.ID)
	e := t.entries.at(handle)
	if e.epoch != p.Epoch {
		t.forgetBatches(e)
		e.epoch = p.Epoch
	}
	t.guards.remove(p.ID)

	completed := CompletedTxn{}
	ended := e.open()
	if ended {
		completed = CompletedTxn{
			ProducerID: p.ID,
			First:      e.txnFirst,
			Last:       h.BaseOffset,
			Commit:     m.Commit,
			LastStable: t.lastStable(handle, h.BaseOffset),
		}
	}
	t.unlink(handle)
	e.txnFirst = batch.None
	e.coordinatorEpoch = m.CoordinatorEpoch
	e.time, e.seen = m.Timestamp, now
	t.link(handle)
	return completed, ended
}
