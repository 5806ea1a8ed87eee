package journal

import (
	"sync"
	"sync/atomic"

	"github.com/oncelog/oncelog/internal/invariant"
)

// entry is a frame that is not written yet, of one handle. Bytes that are
// published one behind the other are one entry.
type entry struct {
	handle *Handle
	frame  Frame
	ticket int64 // place in the order of all entries ever queued, from 1
}

// runBytes is what the entry takes in a run.
func (e *entry) runBytes() int64 { return frameHeaderBytes + e.frame.carried() }

// queue is what was published and is in no run: the order of publishing is the
// order of entries. It has no limit of its own: an entry stands for bytes in
// the memory of a tail, which is bounded.
type queue struct {
	mu      sync.Mutex // a leaf; guards all below
	entries []entry    // not taken by the flusher yet
	bytes   int64      // carried by entries
	last    int64      // ticket of the youngest entry there ever was
	done    int64      // all entries with tickets up to this are durable, or removed
	// wanted: a flush is asked for until done has reached it.
	// Invariant: done ≤ last, wanted ≤ last.
	wanted  int64
	waiters int
	err     error         // final: nothing is queued any more
	changed chan struct{} // closed when done or err changed; nil if nobody looks
	stuck   chan struct{} // closed while the journal is full and cannot be emptied
	isStuck atomic.Bool   // likewise; read without mu
	stats   Stats
}

// signal is what the flusher's goroutine must hear of after publishing.
type signal uint8

const (
	signalNone  signal = iota
	signalFirst        // the queue was empty: the delay begins
	signalDue          // so much is queued that a flush is due
)

// stick closes stuck, unstick makes it anew; with mu held.
func (q *queue) stick() {
	if !q.isStuck.Swap(true) {
		close(q.stuck)
	}
}

func (q *queue) unstick() {
	if q.isStuck.Swap(false) {
		q.stuck = make(chan struct{})
	}
}

// put queues an entry and gives its ticket.
func (q *queue) put(h *Handle, f *Frame) (signal, int64) {
	if invariant.Enabled && (!f.sane() || f.carried() > h.journal.batchMax) {
		invariant.Check(false, "frame %+v published", *f)
	}
	q.mu.Lock()
	if q.err != nil || h.left {
		last := q.last
		q.mu.Unlock()
		return signalNone, last
	}
	n := len(q.entries)
	before := q.bytes
	q.bytes += f.carried()
	if n == 0 || !q.entries[n-1].merge(h, f, h.journal.batchMax) {
		q.last++
		q.entries = append(q.entries, entry{handle: h, frame: *f, ticket: q.last})
	}
	s := signalNone
	switch {
	case before < dueBytes && q.bytes >= dueBytes:
		q.wanted = q.last
		s = signalDue
	case n == 0:
		s = signalFirst
	}
	last := q.last
	q.mu.Unlock()
	return s, last
}

// merge makes f part of the entry if it is the next piece of the same segment.
func (e *entry) merge(h *Handle, f *Frame, lengthMax int64) bool {
	g := &e.frame
	if e.handle != h || f.Kind != KindBytes || g.Kind != KindBytes || g.Segment != f.Segment ||
		g.Pos+g.Length != f.Pos || g.Next != f.First || g.Length+f.Length > lengthMax {
		return false
	}
	g.Length += f.Length
	g.Next = f.Next
	return true
}

// want asks for a flush of all that is queued, and gives the last ticket.
func (q *queue) want() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wanted = q.last
	return q.last
}

// isWanted tells whether a flush is asked for that was not made.
func (q *queue) isWanted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err == nil && q.wanted > q.done
}

// look tells whether all up to the ticket is durable; if not, the channel is
// closed when that may have changed.
func (q *queue) look(ticket int64) (done bool, changed <-chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil { // first: what was published since is in no queue
		return false, nil, q.err
	}
	if q.done >= ticket {
		return true, nil, nil
	}
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return false, q.changed, nil
}

// notifyLocked wakes who looks.
func (q *queue) notifyLocked() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// settleLocked moves done up to the entry before the first that is left. The
// caller holds flushMu too, since taken entries are older than those queued.
func (q *queue) settleLocked(taken []entry) {
	switch {
	case len(taken) > 0:
		q.done = taken[0].ticket - 1
	case len(q.entries) > 0:
		q.done = q.entries[0].ticket - 1
	default:
		q.done = q.last
	}
}

// failLocked ends the queue.
func (q *queue) failLocked(err error) bool {
	if q.err != nil {
		return false
	}
	q.err = err
	clear(q.entries)
	q.entries, q.bytes = nil, 0
	return true
}
