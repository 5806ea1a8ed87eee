package producerstate

import "unsafe"

const (
	blockBits = 10
	blockLen  = 1 << blockBits // elements of a block
	blockMin  = 8              // elements the first block begins with
)

// pool is a dense array of pointer-free elements in blocks that never move,
// but for the first, which doubles until it is whole so that a table with few
// producers is small. Handles count from 1; 0 is none.
//
// It shrinks from the end only: who frees an element moves the last one into
// its place and corrects what points there.
type pool[T any] struct {
	blocks [][]T
	n      uint32 // elements in use: handles 1…n
}

// at is the element of a handle. The pointer is good until the next push.
func (p *pool[T]) at(handle uint32) *T {
	i := handle - 1
	return &p.blocks[i>>blockBits][i&(blockLen-1)]
}

// push adds a zero element and gives its handle.
func (p *pool[T]) push() uint32 {
	i := p.n
	switch block := int(i >> blockBits); {
	case len(p.blocks) == 0:
		p.blocks = append(p.blocks, make([]T, blockMin))
	case block == len(p.blocks):
		p.blocks = append(p.blocks, make([]T, blockLen))
	case block == 0 && int(i) == len(p.blocks[0]):
		grown := make([]T, 2*len(p.blocks[0]))
		copy(grown, p.blocks[0])
		p.blocks[0] = grown
	}
	p.n++
	return p.n
}

// pop drops the last element. One empty block is kept, so that a table that
// swings around the edge of a block does not allocate.
func (p *pool[T]) pop() {
	*p.at(p.n) = *new(T)
	p.n--
	used := int(p.n+blockLen-1) >> blockBits
	if spare := used + 1; spare < len(p.blocks) {
		p.blocks[spare] = nil
		p.blocks = p.blocks[:spare]
	}
}

func (p *pool[T]) bytes() int {
	size := cap(p.blocks) * int(unsafe.Sizeof([]T(nil)))
	for _, b := range p.blocks {
		size += len(b) * int(unsafe.Sizeof(*new(T)))
	}
	return size
}
