package journal

import (
	"context"

	"github.com/oncelog/oncelog/internal/invariant"
	"github.com/oncelog/oncelog/internal/plant"
)

// Member is a log as the journal sees it. All calls come from the flusher of
// the moment with its lock held: they store a value and wake, never block and
// never call back into the journal.
type Member interface {
	// Pieces appends to dst the memory that holds the bytes [from, to) of a
	// segment, in order; the bytes must not change until Durable or Fail. It
	// is asked only for what was published and neither truncated nor left.
	Pieces(dst [][]byte, segment, from, to int64) [][]byte
	// Durable says that everything below offset next is durable, which is byte
	// pos of a segment. Calls of one flush come in the order of publishing, over
	// all members: whoever learns of something finds that all published before
	// it is known already.
	Durable(segment, pos, next int64)
	// Fail says that the journal failed, once. Nothing becomes durable any more.
	Fail(err error)
}

// Handle is a log's place in the journal. Its methods are safe for concurrent
// use, but the publishing ones follow one another (the log's own lock), and
// none runs beside Truncate or Leave.
type Handle struct {
	// Set by Join.
	journal *Journal
	key     Key
	member  Member

	left bool    // guarded by queue.mu
	in   [2]bool // whether it has frames in each half; guarded by flushMu
}

// Member is what Join was given.
func (h *Handle) Member() Member { return h.member }

// Key is the partition that Join was given.
func (h *Handle) Key() Key { return h.key }

// Publish queues the bytes [from, to) of a segment, which hold the offsets
// [first, next). The appender calls it when the bytes are in memory and before
// its readers can see them, so that what is published later, here or in
// another log, comes later in the journal. At most BatchMax bytes. It takes a
// leaf lock for nanoseconds, allocates nothing in steady state, and after the
// journal's failure does nothing.
func (h *Handle) Publish(segment, from, to, first, next int64) {
	h.publish(&Frame{
		Topic: h.key.Topic, Partition: h.key.Partition, Kind: KindBytes,
		Segment: segment, Pos: from, Length: to - from, First: first, Next: next,
	})
}

// PublishLarge queues a batch that is in its segment already, and synced there:
// only its place and crc, which recovery compares, go into the journal.
func (h *Handle) PublishLarge(segment, pos, length, first, next int64, crc uint32) {
	h.publish(&Frame{
		Topic: h.key.Topic, Partition: h.key.Partition, Kind: KindReference,
		Segment: segment, Pos: pos, Length: length, First: first, Next: next, CRC: crc,
	})
}

func (h *Handle) publish(f *Frame) {
	switch signal, _ := h.journal.queue.put(h, f); signal {
	case signalFirst:
		h.journal.beginDelay()
	case signalDue:
		h.journal.kick()
	}
}

// Truncate removes what the log has queued at or above an offset, which stands
// at pos in the segment, and queues a frame that takes back what the journal
// holds of it. It returns once that frame is durable, making the flushes
// itself; without room it waits for Free. The only error is that of Err.
//
// Nothing above the offset that was not durable at the call will be: a flush
// under way is waited for, then queue and pending entries are cut before
// another can begin.
func (h *Handle) Truncate(offset, segment, pos int64) error {
	j := h.journal
	j.flushMu.Lock()
	j.removeLocked(func(e *entry) bool { return e.handle != h || e.cut(offset, segment, pos) })
	_, ticket := j.queue.put(h, &Frame{
		Topic: h.key.Topic, Partition: h.key.Partition, Kind: KindTruncation,
		Segment: segment, Pos: pos, First: offset, Next: offset,
	})
	j.release()
	if plant.Enabled && plant.Is(plant.TruncationEarly) {
		return nil
	}
	return j.through(context.Background(), ticket)
}

// cut shortens the entry to what lies below the offset, and tells whether
// anything does. An older truncation stays: it takes back what is durable.
func (e *entry) cut(offset, segment, pos int64) bool {
	f := &e.frame
	if f.Kind == KindTruncation || f.Next <= offset {
		return true
	}
	if f.First >= offset {
		return false
	}
	shortened := f.shorten(offset, segment, pos)
	invariant.Check(shortened, "truncation at %d, position %d of segment %d, cuts %+v", offset, pos, segment, *f)
	return true
}

// Leave ends the log's part in the journal: what it has queued is dropped, the
// flush under way is waited for, and afterwards nobody uses its memory nor
// calls it. What the journal's file holds of it stays, and Due still tells of it:
// only its caller knows whether the log was synced, or deleted, or must be
// recovered from there.
func (h *Handle) Leave() {
	j := h.journal
	j.flushMu.Lock()
	j.removeLocked(func(e *entry) bool { return e.handle != h })
	j.queue.mu.Lock()
	h.left = true
	delete(j.members, h)
	j.queue.mu.Unlock()
	j.release()
}
