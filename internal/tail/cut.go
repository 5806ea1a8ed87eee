package tail

import "github.com/oncelog/oncelog/internal/invariant"

// Cut takes away what the chunks hold at pos and above, for a truncation there.
// pos must be where a batch begins or ends. The chunk across ends there and is
// closed; there is no current chunk afterwards. Readers of what goes may find it
// or not.
//
// Over Slots the end of the process cannot bring back what was cut. Before the
// truncation is answered Slots.Settle must have returned, so that a power loss
// cannot either. Appender and writer, both: neither may be at work meanwhile.
func (t *Tail) Cut(pos int64) {
	t.Skip()
	t.dropIf(func(c *Chunk) bool { return c.start >= pos })
	for _, c := range *t.chunks.Load() {
		if c.end() > pos {
			c.cut(int(pos - c.start))
		}
	}
}

// Forget drops all chunks, what is not written included: after a truncation of
// the whole segment, with Slots.Settle as for Cut, or when a partition is given
// up for good. Appender and writer, both; the file stays open.
func (t *Tail) Forget() {
	t.Skip()
	t.recent = 0
	t.dropIf(func(*Chunk) bool { return true })
}

// Close drops all chunks and closes the file. A slot with bytes that are not in
// the file stays taken, for the next recovery to find. Appender and writer, both.
func (t *Tail) Close() error {
	t.Skip()
	t.dropDrained()
	for _, c := range t.takeOut(func(*Chunk) bool { return true }) {
		if c.slot != nil {
			c.slot.keep()
		}
		c.unpin()
	}
	return t.file.Close()
}

// cut lets a closed chunk end after size bytes.
func (c *Chunk) cut(size int) {
	if size > int(c.filled.Load()) {
		invariant.Check(false, "cut after %d bytes of %d", size, c.filled.Load())
	}
	if c.slot != nil {
		c.slot.cut(size, c.batches)
	}
	c.filled.Store(int64(size))
	c.written.Store(min(c.written.Load(), int64(size)))
}
