package vfs

import (
	"fmt"
	"io"
	"syscall"
	"time"
	"unsafe"

	"github.com/oncelog/oncelog/internal/invariant"
)

// content is what a file of a Mem holds: each page as reads see it and as the
// disk has it, and its length in both places. Mem.mu guards it; the memory of
// mappings is written without.
type content struct {
	// cells may be shorter than the file: what is missing is zeros, and longer
	// while pages cut off are still on disk.
	cells []cell
	// dirtyFrom and dirtyTo bound the cells with dirty set.
	dirtyFrom, dirtyTo int

	size      int64
	diskSize  int64
	low       int64 // smallest length since it was last stored; ≤ diskSize, size
	sizeDirty bool  // size changed since it was last stored

	// reserved cells from the front are blocks of the disk, whether written
	// or not; charged counts all blocks.
	reserved, charged int

	// The first pinned cells have their cache page in mapped, the memory that
	// all open mappings share. Memory of mappings never moves.
	mapped   []byte
	pinned   int
	mappings int
	writable bool // some mapping of mapped may be written

	modified time.Time
	links    int // names it has now: 0 or 1
	handles  int // files and mappings open
	locked   bool
}

// readAt is io.ReaderAt.
func (c *content) readAt(p []byte, pos int64) (int, error) {
	n := 0
	for n < len(p) && pos < c.size {
		i, from := int(pos/pageSize), int(pos%pageSize)
		step := int(min(int64(len(p)-n), pageSize-int64(from), c.size-pos))
		dst := p[n : n+step]
		switch {
		case i >= len(c.cells) || c.cells[i].cache == nil:
			clear(dst)
		case i < c.pinned:
			copyShared(dst, c.cells[i].cache[from:])
		default:
			copy(dst, c.cells[i].cache[from:])
		}
		n, pos = n+step, pos+int64(step)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// writeAt writes p page by page until the disk is full.
func (c *content) writeAt(s *space, p []byte, pos int64) (int, error) {
	n := 0
	for n < len(p) {
		i, from := int(pos/pageSize), int(pos%pageSize)
		if err := c.charge(s, i); err != nil {
			return n, err
		}
		step := min(len(p)-n, pageSize-from)
		dst := c.open(i, step == pageSize)[from:]
		if i < c.pinned {
			copyShared(dst, p[n:n+step])
		} else {
			copy(dst, p[n:n+step])
		}
		n, pos = n+step, pos+int64(step)
		if pos > c.size {
			c.setSize(pos)
		}
	}
	return n, nil
}

// open gives page i for writing and marks it dirty. whole says that all of it
// will be written.
func (c *content) open(i int, whole bool) *page {
	c.grow(i + 1)
	e := &c.cells[i]
	c.markDirty(i)
	if i < c.pinned || e.owned {
		return e.cache
	}
	if whole || e.cache == nil {
		e.cache = new(page)
	} else {
		e.cache = copyPage(e.cache)
	}
	e.owned = true
	return e.cache
}

func (c *content) grow(n int) {
	for len(c.cells) < n {
		c.cells = append(c.cells, cell{})
	}
}

func (c *content) markDirty(i int) {
	c.cells[i].dirty = true
	if c.dirtyFrom == c.dirtyTo {
		c.dirtyFrom, c.dirtyTo = i, i+1
		return
	}
	c.dirtyFrom, c.dirtyTo = min(c.dirtyFrom, i), max(c.dirtyTo, i+1)
}

func (c *content) setSize(size int64) {
	c.low = min(c.low, c.size, size)
	c.size, c.sizeDirty = size, true
}

// truncate sets the length; blocks behind it are free.
func (c *content) truncate(s *space, size int64) {
	if size == c.size {
		return
	}
	if size < c.size {
		c.cut(size)
		c.uncharge(s, pages(size))
	}
	c.setSize(size)
}

// cut makes everything from size on zeros, in the cache.
func (c *content) cut(size int64) {
	if tail := int(size % pageSize); tail != 0 && pages(size) <= len(c.cells) && c.cells[pages(size)-1].cache != nil {
		clear(c.open(pages(size)-1, false)[tail:])
	}
	for i := pages(size); i < len(c.cells); i++ {
		e := &c.cells[i]
		if i < c.pinned {
			clear(e.cache[:])
			c.markDirty(i)
			continue
		}
		e.cache, e.owned = nil, false
		if e.dirty || e.disk != nil {
			c.markDirty(i)
		}
	}
}

// allocate reserves blocks for [0, size).
func (c *content) allocate(s *space, size int64) error {
	total, more := pages(size), 0
	for i := c.reserved; i < total; i++ {
		if i >= len(c.cells) {
			more += total - i
			break
		}
		if !c.cells[i].charged {
			more++
		}
	}
	if err := s.take(more); err != nil {
		return err
	}
	c.reserved, c.charged = max(c.reserved, total), c.charged+more
	if size > c.size {
		c.setSize(size)
	}
	return nil
}

// charge counts page i as a block of the disk.
func (c *content) charge(s *space, i int) error {
	if i < c.reserved || i < len(c.cells) && c.cells[i].charged {
		return nil
	}
	if err := s.take(1); err != nil {
		return err
	}
	c.grow(i + 1)
	c.cells[i].charged = true
	c.charged++
	return nil
}

// uncharge gives the blocks from page i on back.
func (c *content) uncharge(s *space, i int) {
	c.reserved = min(c.reserved, i)
	left := c.reserved
	for j := range c.cells {
		if j >= i {
			c.cells[j].charged = false
		}
		if j >= c.reserved && c.cells[j].charged {
			left++
		}
	}
	s.give(c.charged - left)
	c.charged = left
}

// mapHead gives the memory of the first size bytes, which changes with the
// file from now on until unmap.
func (c *content) mapHead(s *space, size int64, writable bool) ([]byte, error) {
	if size < 0 || size > c.size {
		return nil, fmt.Errorf("%d bytes of a file of %d: %w", size, c.size, syscall.EINVAL)
	}
	if writable {
		// A write into a hole would ask for a block when no error can be told.
		for i := range pages(size) {
			if err := c.charge(s, i); err != nil {
				return nil, err
			}
		}
	}
	if c.mappings == 0 {
		c.pin(max(size, min(c.size, int64(len(c.cells))*pageSize), min(c.size, mapAheadBytes)))
	}
	if pages(size) > c.pinned {
		return nil, fmt.Errorf("a mapping from before the file was as long is still open: %w", syscall.ENOTSUP)
	}
	c.mappings++
	c.writable = c.writable || writable
	return c.mapped[:size:size], nil
}

// mapAheadBytes is how much of a file gets memory that does not move at its
// first mapping, however little is mapped and written.
const mapAheadBytes = 1 << 20

// pin moves the cache of the first size bytes into one piece of memory.
func (c *content) pin(size int64) {
	c.pinned = pages(size)
	c.mapped = make([]byte, c.pinned*pageSize)
	c.grow(c.pinned)
	for i := range c.pinned {
		e := &c.cells[i]
		p := (*page)(unsafe.Pointer(unsafe.SliceData(c.mapped[i*pageSize:])))
		if e.cache != nil {
			*p = *e.cache // nobody has the memory of p yet
		}
		// Of a dirty cell base is not looked at.
		e.base, e.cache, e.owned = e.cache, p, true
	}
}

// unmap ends one mapping; the last one gives the memory back.
func (c *content) unmap() {
	c.mappings--
	if c.mappings > 0 {
		return
	}
	for i := range c.pinned {
		e := &c.cells[i]
		if c.isDirty(i) {
			c.markDirty(i)
			e.cache = copyPage(e.cache)
		} else {
			e.cache, e.owned = e.base, false
		}
		e.base = nil
	}
	if invariant.Enabled {
		// Whoever still reads here finds it out.
		poison(c.mapped)
	}
	c.mapped, c.pinned, c.writable = nil, 0, false
}

// poisonByte is what memory of a closed mapping reads as.
const poisonByte = 0xdb
