package vfs

import (
	"github.com/oncelog/oncelog/internal/invariant"
)

// This file is the way of a file's content from the cache to the disk.

// isDirty says whether the disk has not been given what the cache has. After a
// sync that failed a page may be clean and yet not on disk.
func (c *content) isDirty(i int) bool {
	e := &c.cells[i]
	if e.dirty || i >= c.pinned {
		return e.dirty
	}
	if equalShared(e.cache, e.base) {
		return false
	}
	invariant.Check(c.writable, "page %d was written through a read-only mapping", i)
	return true
}

// freeze gives page i as it is now; it will not change.
func (c *content) freeze(i int) *page {
	e := &c.cells[i]
	if i < c.pinned {
		return copyPage(e.cache)
	}
	e.owned = false
	return e.cache
}

// markClean says that page i, which is frozen, was taken care of.
func (c *content) markClean(i int, frozen *page) {
	e := &c.cells[i]
	e.dirty = false
	if i < c.pinned {
		e.base = frozen
	}
}

// sync stores everything.
func (c *content) sync() {
	c.syncSize()
	c.syncPages(c.dirtyFrom, c.dirtyTo)
	c.syncPages(0, c.pinned)
	c.dirtyFrom, c.dirtyTo = 0, 0
	for n := len(c.cells); n > c.pinned && n > pages(c.size) && c.cells[n-1] == (cell{}); n-- {
		c.cells = c.cells[:n-1]
	}
}

// syncPages stores the pages [from, to).
func (c *content) syncPages(from, to int) {
	for i := from; i < to; i++ {
		if c.isDirty(i) {
			p := c.freeze(i)
			c.cells[i].disk = p
			c.markClean(i, p)
		}
	}
}

// syncSize stores the length, before any page: what a cut took away goes, also
// where a page after it is not stored now. The length stays what it was on disk
// if only a sync that failed saw it change.
func (c *content) syncSize() {
	if !c.sizeDirty {
		return
	}
	for i := int(c.low / pageSize); c.low < c.diskSize && i < len(c.cells); i++ {
		c.cells[i].disk = cutPage(c.cells[i].disk, cutAt(c.low, i))
	}
	c.diskSize, c.sizeDirty = c.size, false
	c.low = c.size
}

// image is what a power loss would leave of a file.
type image struct {
	pages []*page // what is missing of size is zeros
	size  int64
	// cut says that a shorter length that the file had meanwhile is stored too.
	cut bool
}

// image draws one of the allowed states of the disk. A longer file may have
// any length up to the current one; pages inside that were not kept are what
// the disk had, or zeros. A file that was cut is either uncut, with the old
// content, or cut and then as much longer as it may be.
func (c *content) image(l *lottery) image {
	l.nextFile()
	m := image{size: c.diskSize}
	pending := c.sizeDirty && c.low < c.diskSize
	m.cut = pending && l.keeps()
	if c.sizeDirty && (m.cut || !pending) {
		m.size = l.between(c.low, c.size)
	}
	m.pages = make([]*page, min(pages(m.size), len(c.cells)))
	for i := range m.pages {
		old := c.cells[i].disk
		start := int64(i) * pageSize
		if m.cut {
			old = cutPage(old, cutAt(c.low, i))
		}
		m.pages[i] = old
		// Blocks that a cut freed belong to the old file until the cut is
		// stored, so nothing new can be seen there.
		if pending && !m.cut && start+pageSize > c.low || start >= c.size || !c.isDirty(i) {
			continue
		}
		m.pages[i] = l.page(old, func() *page { return c.freeze(i) })
	}
	if last := len(m.pages) - 1; last >= 0 {
		m.pages[last] = cutPage(m.pages[last], cutAt(m.size, last))
	}
	return m
}

// become makes an image the state of the disk and leaves the cache alone.
func (c *content) become(m image) {
	c.grow(len(m.pages))
	for i := range c.cells {
		if i < len(m.pages) {
			c.cells[i].disk = m.pages[i]
		} else {
			c.cells[i].disk = nil
		}
	}
	c.diskSize = m.size
}

// failSync is a sync that fails: some of what was not stored is, the rest never
// will be by another sync, for everything counts as clean.
func (c *content) failSync(l *lottery) {
	c.become(c.image(l))
	for i := range c.cells {
		if c.isDirty(i) {
			c.markClean(i, c.freeze(i))
		}
	}
	c.dirtyFrom, c.dirtyTo = 0, 0
	c.low, c.sizeDirty = min(c.size, c.diskSize), false
}

// writeBack is the kernel storing some pages for reasons of its own.
func (c *content) writeBack(l *lottery) {
	m := c.image(l)
	pending := c.sizeDirty && c.low < c.diskSize
	c.become(m)
	if !pending || m.cut {
		c.low = min(c.size, c.diskSize)
	}
}

// crashed is the content that a power loss leaves.
func (c *content) crashed(l *lottery) *content {
	m := c.image(l)
	d := &content{
		cells:    make([]cell, len(m.pages)),
		size:     m.size,
		diskSize: m.size,
		low:      m.size,
		modified: c.modified,
		reserved: min(c.reserved, pages(m.size)),
	}
	for i, p := range m.pages {
		d.cells[i] = cell{cache: p, disk: p, charged: p != nil}
	}
	d.recount()
	return d
}

// killed is the content that the end of the process leaves: the cache as it
// was, and what is not stored yet still is not.
func (c *content) killed() *content {
	d := &content{
		cells:     make([]cell, len(c.cells)),
		dirtyFrom: c.dirtyFrom, dirtyTo: c.dirtyTo,
		size: c.size, diskSize: c.diskSize, low: c.low, sizeDirty: c.sizeDirty,
		modified: c.modified,
		reserved: c.reserved,
	}
	for i := range c.cells {
		e := &c.cells[i]
		dirty := c.isDirty(i)
		p := e.base
		if dirty || i >= c.pinned {
			p = c.freeze(i)
		}
		d.cells[i] = cell{cache: p, disk: e.disk, charged: e.charged}
		if dirty {
			d.markDirty(i)
		}
	}
	d.recount()
	return d
}

// recount finds charged anew.
func (c *content) recount() {
	c.charged = c.reserved
	for i := c.reserved; i < len(c.cells); i++ {
		if c.cells[i].charged {
			c.charged++
		}
	}
}
