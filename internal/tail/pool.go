package tail

import (
	"sync"

	"github.com/oncelog/oncelog/internal/invariant"
)

// Sizes of the chunks of a Pool: 16 KiB, 64 KiB, 256 KiB, 1 MiB.
const (
	ChunkBytesMin = 16 << 10
	ChunkBytesMax = 1 << 20

	classes = 4
)

// classBytes is the size of the chunks of a class.
func classBytes(class int) int { return ChunkBytesMin << (2 * class) }

// Pool is plain memory for the tails of a store, for level fsync: what is in it
// is gone with the process. All its chunks together, in use or kept for the
// next one, take no more than its limit. Safe for concurrent use.
type Pool struct {
	limit int64 // Set by NewPool.
	room  room

	mu      sync.Mutex // leaf, taken once in the life of a chunk and once at its end
	free    [classes][][]byte
	held    int64 // bytes in use and in free
	inUse   int64
	refused int64
}

// PoolStats is what a Pool tells of itself.
type PoolStats struct {
	InUse   int64 // bytes of chunks taken
	Held    int64 // InUse, and bytes kept for reuse; never more than Limit
	Limit   int64
	Refused int64 // calls of Take that found no memory, ever
}

// NewPool makes a pool of at most limit bytes. With less than ChunkBytesMin it
// never has a chunk.
func NewPool(limit int64) *Pool { return &Pool{limit: limit} }

// ChunkMax implements Source.
func (p *Pool) ChunkMax() int {
	for class := classes - 1; class >= 0; class-- {
		if int64(classBytes(class)) <= p.limit {
			return classBytes(class)
		}
	}
	return 0
}

// Freed implements Source.
func (p *Pool) Freed() <-chan struct{} { return p.room.wait() }

// Stats counts now.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{InUse: p.inUse, Held: p.held, Limit: p.limit, Refused: p.refused}
}

// Take implements Source. The chunk is as large as the hint says if there is
// memory for that, else smaller.
func (p *Pool) Take(_ Identity, pos, _ int64, size, hint int) *Chunk {
	if mem := p.take(size, hint); mem != nil {
		return newChunk(p, mem, pos)
	}
	return nil
}

func (p *Pool) take(size, hint int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for class := classFor(max(size, min(hint, ChunkBytesMax))); class >= 0 && classBytes(class) >= size; class-- {
		if mem := p.takeLocked(class); mem != nil {
			p.inUse += int64(len(mem))
			return mem
		}
	}
	p.refused++
	return nil
}

// classFor is the smallest class of at least size bytes, -1 if there is none.
func classFor(size int) int {
	for class := range classes {
		if classBytes(class) >= size {
			return class
		}
	}
	return -1
}

// takeLocked gives memory of a class that is kept, or new one as far as the limit allows.
func (p *Pool) takeLocked(class int) []byte {
	if n := len(p.free[class]); n > 0 {
		mem := p.free[class][n-1]
		p.free[class][n-1] = nil
		p.free[class] = p.free[class][:n-1]
		return mem
	}
	size := int64(classBytes(class))
	if p.inUse+size > p.limit {
		return nil
	}
	// There is room once memory of other sizes is no longer kept.
	for other := classes - 1; p.held+size > p.limit; {
		n := len(p.free[other])
		if n == 0 {
			other--
			continue
		}
		p.free[other][n-1] = nil
		p.free[other] = p.free[other][:n-1]
		p.held -= int64(classBytes(other))
	}
	p.held += size
	return make([]byte, size)
}

// giveBack implements home.
func (p *Pool) giveBack(c *Chunk) {
	if invariant.Enabled {
		// Whoever still reads here finds it out.
		for i := range c.mem {
			c.mem[i] = poisonByte
		}
	}
	mem := c.mem
	c.mem = nil
	p.keep(mem)
	p.room.announce()
}

func (p *Pool) keep(mem []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	class := classFor(len(mem))
	p.free[class] = append(p.free[class], mem)
	p.inUse -= int64(len(mem))
}

// poisonByte is what memory that was given back reads as.
const poisonByte = 0xdb
