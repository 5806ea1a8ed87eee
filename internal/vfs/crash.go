package vfs

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/oncelog/oncelog/internal/invariant"
)

// KeepNone and KeepAll are the two certain values of CrashOptions.KeepUnsynced.
const (
	KeepNone = 0.0
	KeepAll  = 1.0
)

// DirOrder says which of the changes of a directory that were not synced may
// survive a power loss.
type DirOrder uint8

const (
	// DirOrderAny draws one of the other two for each directory.
	DirOrderAny DirOrder = iota
	// DirOrderPrefix keeps the changes up to some moment, as a file system
	// with a journal does.
	DirOrderPrefix
	// DirOrderSubset keeps any changes that make sense without the others.
	DirOrderSubset
)

// CrashOptions says what becomes of what was not synced. The zero value loses
// all of it.
type CrashOptions struct {
	// Rand makes the choices; the same seed makes the same. It is used with
	// the Mem's lock held. It may be nil if KeepUnsynced is KeepNone or KeepAll.
	Rand *rand.Rand
	// KeepUnsynced is the probability for each page, length and directory
	// change to survive. Between KeepNone and KeepAll, one file in four
	// survives altogether or not at all.
	KeepUnsynced float64
	// Dirs binds the directory changes that survive.
	Dirs DirOrder
	// Tear lets a page survive in part, each of its sectors of 512 bytes
	// on its own: a disk promises no more.
	Tear bool
}

// sectorSize is what a disk writes as one.
const sectorSize = 512

// CrashClone gives the file system as a power loss at this moment would leave
// it, on a machine that is up again: what was synced, and of the rest what the
// options keep. A file whose directory was not synced may be missing although
// it was synced itself, and a removed one may be back. Nothing is open or
// locked in the clone, and it shares no state with m, which goes on unchanged.
func (m *Mem) CrashClone(o CrashOptions) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cloneLocked(m.root.crashed(newLottery(o)))
	// Derived, not drawn: a simulation must be the same every time.
	binary.BigEndian.PutUint64(c.place.Boot[:], binary.BigEndian.Uint64(c.place.Boot[:])+1)
	return c
}

// KillClone gives the file system as the end of the process at this moment
// would leave it: all that was written is there, and what was not synced may
// still be lost by a later CrashClone of the clone. Nothing is open or locked
// in it. A mapping that is written meanwhile is there in part.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cloneLocked(m.root.killed(make(map[*node]*node)))
}

// WriteBack stores some of what was not synced, as a kernel does at any time
// for reasons of its own. No read shows it; a later CrashClone may find states
// of pages between the last sync and now.
func (m *Mem) WriteBack(o CrashOptions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := newLottery(o)
	m.root.walk(func(n *node) {
		if n.dir != nil {
			n.dir.writeBack(l)
		} else {
			n.file.writeBack(l)
		}
	})
}

// LoseSyncDir is a SyncDir that fails in the way of FileLoser.LoseSync.
func (m *Mem) LoseSyncDir(name string, o CrashOptions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, err := m.find("sync", name); err == nil && n.dir != nil {
		n.dir.disk, n.dir.changes = n.dir.image(newLottery(o)), nil
	}
}

// Loser is a file or mapping of a Mem.
type Loser interface {
	// LoseSync is a sync that fails as on a real machine: of what was not synced
	// it stores some, and all of it counts as clean afterwards. Reads go on to
	// show it, a later sync succeeds and stores none of it, and a power loss
	// loses it.
	LoseSync(o CrashOptions)
}

// lottery draws what survives.
type lottery struct {
	o CrashOptions
	// keep is the probability in the file at hand.
	keep float64
}

func newLottery(o CrashOptions) *lottery {
	certain := o.KeepUnsynced <= KeepNone || o.KeepUnsynced >= KeepAll
	invariant.Check(certain || o.Rand != nil, "a crash that keeps %g of all needs a Rand", o.KeepUnsynced)
	return &lottery{o: o, keep: o.KeepUnsynced}
}

// nextFile begins a file. Independent pages alone would never lose or keep a
// large file as a whole.
func (l *lottery) nextFile() {
	l.keep = l.o.KeepUnsynced
	if l.certain() {
		return
	}
	switch l.o.Rand.IntN(8) {
	case 0:
		l.keep = KeepNone
	case 1:
		l.keep = KeepAll
	}
}

func (l *lottery) certain() bool { return l.keep <= KeepNone || l.keep >= KeepAll }

// keeps draws whether one thing survives.
func (l *lottery) keeps() bool {
	if l.certain() {
		return l.keep >= KeepAll
	}
	return l.o.Rand.Float64() < l.keep
}

// between draws a length from low to high: often one of the two, else any, or
// a whole number of pages.
func (l *lottery) between(low, high int64) int64 {
	if l.certain() || low == high {
		if l.keep >= KeepAll {
			return high
		}
		return low
	}
	switch l.o.Rand.IntN(4) {
	case 0:
		return low
	case 1:
		return high
	case 2:
		return low + l.o.Rand.Int64N(high-low+1)
	}
	return max(low, (low+l.o.Rand.Int64N(high-low+1))&^(pageSize-1))
}

// page draws one dirty page.
func (l *lottery) page(old *page, current func() *page) *page {
	if l.certain() || !l.o.Tear {
		if l.keeps() {
			return current()
		}
		return old
	}
	torn, now := copyPage(old), copyPage(current())
	for pos := 0; pos < pageSize; pos += sectorSize {
		if l.keeps() {
			copy(torn[pos:pos+sectorSize], now[pos:])
		}
	}
	return torn
}

// dirOrder draws the order for one directory.
func (l *lottery) dirOrder() DirOrder {
	if l.o.Dirs != DirOrderAny || l.certain() {
		return l.o.Dirs
	}
	return DirOrderPrefix + DirOrder(l.o.Rand.IntN(2))
}
