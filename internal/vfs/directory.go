package vfs

import (
	"io/fs"
	"maps"
	"slices"
	"time"
)

// node is a file or a directory of a Mem.
type node struct {
	file *content   // of a file
	dir  *directory // of a directory
	mode fs.FileMode
}

// directory is what a directory of a Mem holds, now and on disk, and how the
// one came from the other. Mem.mu guards it.
type directory struct {
	entries map[string]*node
	disk    map[string]*node
	changes []change // since the last sync, in order

	modified time.Time
}

// change is one change of a directory, which a power loss keeps or loses as a
// whole.
type change struct {
	kind changeKind
	node *node
	name string
	to   string // of a rename: the new name
}

type changeKind uint8

const (
	changeLink   changeKind = iota // a new file or directory
	changeUnlink                   // it is removed
	changeRename                   // it goes from name to to, over what is there
)

func newDirectory(modified time.Time) *directory {
	return &directory{entries: make(map[string]*node), disk: make(map[string]*node), modified: modified}
}

// do makes a change, for readers.
func (d *directory) do(c change, now time.Time) {
	c.apply(d.entries)
	d.changes = append(d.changes, c)
	d.modified = now
}

// apply makes the change whatever there is.
func (c change) apply(entries map[string]*node) {
	switch c.kind {
	case changeLink:
		entries[c.name] = c.node
	case changeUnlink:
		if entries[c.name] == c.node {
			delete(entries, c.name)
		}
	case changeRename:
		if entries[c.name] == c.node {
			delete(entries, c.name)
		}
		entries[c.to] = c.node
	}
}

// possible says whether the change makes sense where others before it may be
// missing: a new name must be free, a name changed or removed must be there.
func (c change) possible(entries map[string]*node) bool {
	there, ok := entries[c.name]
	if c.kind == changeLink {
		return !ok
	}
	return there == c.node
}

// sync makes the entries durable.
func (d *directory) sync() {
	for _, c := range d.changes {
		c.apply(d.disk)
	}
	d.changes = nil
}

// image draws what a power loss would leave.
func (d *directory) image(l *lottery) map[string]*node {
	l.keep = l.o.KeepUnsynced
	entries := maps.Clone(d.disk)
	if len(d.changes) == 0 {
		return entries
	}
	if l.certain() || l.dirOrder() == DirOrderPrefix {
		for _, c := range d.changes[:l.prefix(len(d.changes))] {
			c.apply(entries)
		}
		return entries
	}
	for _, c := range d.changes {
		if l.keeps() && c.possible(entries) {
			c.apply(entries)
		}
	}
	return entries
}

// prefix draws how many of n changes survive.
func (l *lottery) prefix(n int) int {
	return int(l.between(0, int64(n)))
}

// writeBack stores the changes up to some moment.
func (d *directory) writeBack(l *lottery) {
	l.keep = l.o.KeepUnsynced
	n := l.prefix(len(d.changes))
	for _, c := range d.changes[:n] {
		c.apply(d.disk)
	}
	d.changes = slices.Clone(d.changes[n:])
}

// crashed is the tree from n on that a power loss leaves. Names are taken in
// order, so that the same draws make the same tree.
func (n *node) crashed(l *lottery) *node {
	if n.file != nil {
		return &node{file: n.file.crashed(l), mode: n.mode}
	}
	entries := n.dir.image(l)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entries[name] = entries[name].crashed(l)
	}
	return &node{
		dir:  &directory{entries: entries, disk: maps.Clone(entries), modified: n.dir.modified},
		mode: n.mode,
	}
}

// killed is the tree from n on that the end of the process leaves, with what
// is on disk. done has the nodes cloned so far, for the two share theirs.
func (n *node) killed(done map[*node]*node) *node {
	if k, ok := done[n]; ok {
		return k
	}
	k := &node{mode: n.mode}
	done[n] = k
	if n.file != nil {
		k.file = n.file.killed()
		return k
	}
	k.dir = newDirectory(n.dir.modified)
	for name, child := range n.dir.entries {
		k.dir.entries[name] = child.killed(done)
	}
	for name, child := range n.dir.disk {
		k.dir.disk[name] = child.killed(done)
	}
	for _, c := range n.dir.changes {
		c.node = c.node.killed(done)
		k.dir.changes = append(k.dir.changes, c)
	}
	return k
}

// walk calls visit for every node that has a name, parents and smaller names
// first.
func (n *node) walk(visit func(*node)) {
	visit(n)
	if n.dir == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(n.dir.entries)) {
		n.dir.entries[name].walk(visit)
	}
}
