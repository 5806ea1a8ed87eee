package sim

import (
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/log"
)

// closure holds recovery against the promise of the journal: nothing survives
// without all that was published before it began. Clock values are counts of
// what happened in the history, not time.
//
// Only what was published at level fsync of a store with a journal takes part:
// nothing else is ordered with it. What was truncated or deleted is neither
// lost nor a survivor.
type closure struct {
	clock  int64
	opened int64 // the last time that the store was, or one partition again
	// losses are those of that opening, the earliest of each partition.
	losses []lostBatch
	// crashLosses are what losses were when the store was opened.
	crashLosses []lostBatch
}

// lostBatch is a batch that an opening lost. What began after that says nothing
// about it.
type lostBatch struct {
	published, opened int64
	name              string
}

// moment is when a batch was on its way. A batch of which no answer came has
// no time at which it was published.
type moment struct {
	begin, published int64
	ordered          bool // takes part
}

// tick is the clock for the next event.
func (c *closure) tick() int64 {
	c.clock++
	return c.clock
}

// opens begins to count what is lost.
func (c *closure) opens() { c.opened, c.losses = c.tick(), nil }

// publishedNow notes that a batch is in its log. Nobody is let in between its
// coming there and that, so the order is the true one.
func (h *history) publishedNow(p *partition, e *entry) {
	e.when.published = h.order.tick()
	e.when.ordered = h.ordered(p)
}

// ordered tells whether what is appended to a partition takes part.
func (h *history) ordered(p *partition) bool {
	return h.scene.journaled() && p.config.Durability == log.DurabilityFsync
}

// loses notes what a partition lost when it, or the store, was opened. What a
// truncation on its way takes is no loss.
func (h *history) loses(p *partition, lost []entry) {
	opened := h.order.opened
	if p.awaits != lossNone {
		opened = p.awaitsAt
	}
	for i := range lost {
		e := &lost[i]
		if p.truncateTo >= 0 && e.next() > p.truncateTo || !e.when.ordered || e.when.published == 0 {
			continue
		}
		h.order.losses = append(h.order.losses, lostBatch{e.when.published, opened, entryName(p, e)})
		return
	}
}

func entryName(p *partition, e *entry) string {
	return fmt.Sprintf("%s: the batch of offset %d (%+v)", p.tp, e.header.BaseOffset, e.when)
}

// checkClosure fails if a batch survived that came after one that is lost.
func (h *history) checkClosure() {
	for _, lost := range slices.Concat(h.order.losses, h.order.crashLosses) {
		for _, p := range h.partitions() {
			if e := p.survivor(lost); e != nil && p.awaits == lossNone {
				h.fail("%s survived, and %s, which was published before it, is lost", entryName(p, e), lost.name)
			}
		}
	}
}

// survivor is a batch that should have been lost with another.
func (p *partition) survivor(lost lostBatch) *entry {
	for i := len(p.log) - 1; i >= 0; i-- {
		e := &p.log[i]
		if !e.when.ordered {
			continue
		}
		at := e.when.published
		if at == 0 { // of which nobody heard
			at = e.when.begin
		}
		if at <= lost.published {
			return nil // what comes before it in its log came earlier
		}
		if at <= lost.opened {
			return e
		}
	}
	return nil
}
