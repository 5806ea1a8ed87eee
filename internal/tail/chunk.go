package tail

import "sync/atomic"

// Identity says whose bytes a chunk has.
type Identity struct {
	Topic     [16]byte
	Partition int32
	Segment   int64 // base offset of the segment
}

// Source is where the memory of chunks comes from: a Pool or Slots. It is safe
// for concurrent use by all tails of a store.
type Source interface {
	// Take gives a chunk for the bytes of id from position pos on, whose first
	// batch has the base offset given. It has room for a batch of size bytes at
	// least. Nil if there is none now, which is counted; it never waits. hint is
	// how many bytes are likely to come soon.
	Take(id Identity, pos, offset int64, size, hint int) *Chunk
	// ChunkMax is the largest size that Take can ever serve.
	ChunkMax() int
	// Freed gives a channel that is closed when memory is given back after the
	// call. To wait for room: get the channel, try Take, then wait.
	Freed() <-chan struct{}
}

// Chunk is one contiguous piece of a segment, from position start on, filled
// front to back by one appender. A Chunk is made for one use of its memory and
// never used again: whoever finds a stale pointer to it cannot pin it.
//
// Pins and memory order. refs counts the list of the tail, as one, and every
// reader that copies. A pin raises it from above 0 only. The appender copies a
// batch and then stores filled: a reader that loads filled sees those bytes. A
// reader copies and then lowers refs, and only who lowers it to 0 gives the
// memory to its home, whose lock the next user takes: all that a reader loaded
// it loaded before any byte of the next use was stored. Both need acquire and
// release, no more, which every operation of sync/atomic is, on arm64 as well.
// What would not do there is to copy first and look afterwards whether the chunk
// was still in use: plain loads may be delayed beyond an atomic one after them.
type Chunk struct {
	// Set by Take.
	start int64
	mem   []byte // nil once given back: only who holds a pin looks
	size  int    // of mem
	home  home
	slot  *slot // of memory in a mapped file, else nil

	batches int // that were put; appender only

	filled  atomic.Int64 // bytes that readers may see; mem[:filled] does not change any more
	written atomic.Int64 // bytes from the front that are in the file
	closed  atomic.Bool  // nothing is put any more
	refs    atomic.Int64 // 0: gone for ever
}

// home takes back the memory of a chunk that nobody can see any more.
type home interface {
	giveBack(c *Chunk)
}

// newChunk makes a chunk with the one reference that a tail's list holds.
func newChunk(h home, mem []byte, start int64) *Chunk {
	c := &Chunk{start: start, mem: mem, size: len(mem), home: h}
	c.refs.Store(1)
	return c
}

// end is the position behind the last byte that readers may see.
func (c *Chunk) end() int64 { return c.start + c.filled.Load() }

// room is how large a batch may be that is put. Appender only.
func (c *Chunk) room() int {
	room := c.size - int(c.filled.Load())
	if c.slot != nil {
		room -= (c.batches + 1) * descriptorSize
	}
	return max(room, 0)
}

// put copies one batch behind what is there and publishes it. Appender only.
func (c *Chunk) put(bufs [][]byte) {
	from := int(c.filled.Load())
	to := from
	for _, buf := range bufs {
		to += copy(c.mem[to:], buf)
	}
	if c.slot != nil {
		c.slot.publish(c.mem[from:to], c.batches, to)
	}
	c.batches++
	c.filled.Store(int64(to))
}

// pin keeps the memory for the caller until unpin; false if it is gone.
func (c *Chunk) pin() bool {
	for {
		n := c.refs.Load()
		if n == 0 {
			return false
		}
		if c.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *Chunk) unpin() {
	if c.refs.Add(-1) == 0 {
		c.home.giveBack(c)
	}
}

// drained tells that the chunk is closed and all of it is in the file.
func (c *Chunk) drained() bool {
	return c.closed.Load() && c.written.Load() == c.filled.Load()
}

// drop ends the chunk for its tail, which has taken it out of its list before.
// A slot is free from now on for whoever reads the file, though its memory is
// given away only when the last reader is out of it.
func (c *Chunk) drop() {
	if c.slot != nil {
		c.slot.free()
	}
	c.unpin()
}
