package vfs

// pageSize is what the memory file system tracks changes by: what a kernel
// writes back, and a power loss keeps or loses, as one.
const pageSize = 4 << 10

// page is the content of one page. A page that a cell does not own never
// changes: files, clones of files and what is on disk share it.
type page [pageSize]byte

// pages gives the number of pages that hold size bytes.
func pages(size int64) int { return int((size + pageSize - 1) / pageSize) }

// cell is one page of a file, in its two places.
//
// Invariant: a cell that is neither owned nor pinned has an immutable cache
// page. disk and base always are immutable.
type cell struct {
	cache *page // what reads see; nil: zeros
	disk  *page // what a power loss leaves; nil: zeros
	base  *page // of a pinned cell: cache when it was last clean; nil: zeros

	dirty   bool // not stored since it was written by a call
	owned   bool // cache may be changed in place
	charged bool // counts as a block of the disk
}

// equalShared compares two pages, nil being zeros.
func equalShared(a, b *page) bool {
	if a == b {
		return true
	}
	var zeros page
	if a == nil {
		a = &zeros
	}
	if b == nil {
		b = &zeros
	}
	return samePage(a, b)
}

// copyPage gives a page of the same content that nobody else has.
func copyPage(p *page) *page {
	c := new(page)
	if p != nil {
		copyShared(c[:], p[:])
	}
	return c
}

// cutPage gives p with zeros from byte n on, without changing it.
func cutPage(p *page, n int) *page {
	if p == nil || n >= pageSize {
		return p
	}
	if n <= 0 {
		return nil
	}
	c := copyPage(p)
	clear(c[n:])
	return c
}

// cutAt gives the byte of page i at which a file of size bytes ends: 0 if before
// it, pageSize if behind.
func cutAt(size int64, i int) int {
	return int(max(0, min(pageSize, size-int64(i)*pageSize)))
}
