package producerstate

import (
	"math/bits"
	"math/rand/v2"
	"unsafe"

	"github.com/oncelog/oncelog/internal/invariant"
)

const (
	slotsMin = 8
	slotsMax = 1024 // of one table; a full one is split in two
)

// index finds the handle of a producer id. It is a directory over small
// tables with open addressing, chosen by the upper bits of the hash: a table
// that is full splits in two on its own, so that growing never costs more than
// one table's rehash, at any size.
//
// The hash has a random seed: ids come from clients, who could otherwise
// choose them so that they collide.
type index struct {
	seed  uint64
	depth uint8    // bits of the hash that the directory uses
	dir   []*slots // 1<<depth; neighbours may share a table
}

// slots is one table: linear probing, no tombstones. tags hold seven bits of
// the hash (0: free) so that a probe rarely looks at an entry in vain.
type slots struct {
	tags  []uint8
	refs  []uint32 // handles
	used  int
	depth uint8 // bits of the hash that all its ids have in common
}

func newIndex() index {
	x := index{seed: rand.Uint64()}
	x.dir = []*slots{newSlots(slotsMin, 0)}
	return x
}

func newSlots(n int, depth uint8) *slots {
	return &slots{tags: make([]uint8, n), refs: make([]uint32, n), depth: depth}
}

// hash mixes by one 128-bit product. Table by the upper bits, slot by the
// lower ten, tag by others between.
func (x *index) hash(id int64) uint64 {
	hi, lo := bits.Mul64(uint64(id)^x.seed, 0x9e3779b97f4a7c15)
	hi2, lo2 := bits.Mul64(hi^lo^x.seed, 0xd6e8feb86659fd93)
	return hi2 ^ lo2
}

func tagOf(hash uint64) uint8 { return uint8(hash>>16) | 1 }

func (x *index) table(hash uint64) *slots {
	// A shift by 64 gives 0: a directory of one.
	return x.dir[hash>>(64-x.depth)]
}

// find is the handle of an id, 0 if it has none.
func (x *index) find(entries *pool[entry], id int64) uint32 {
	h := x.hash(id)
	s := x.table(h)
	mask := len(s.tags) - 1
	tag := tagOf(h)
	for i := int(h) & mask; s.tags[i] != 0; i = (i + 1) & mask {
		if s.tags[i] == tag && entries.at(s.refs[i]).id == id {
			return s.refs[i]
		}
	}
	return 0
}

// insert adds a handle whose entry has its id already. The id must be new.
func (x *index) insert(entries *pool[entry], handle uint32) {
	h := x.hash(entries.at(handle).id)
	s := x.table(h)
	for s.full() {
		x.grow(entries, h, s)
		s = x.table(h)
	}
	s.put(h, handle)
}

// full keeps probes short: at most 13 of 16 slots are used.
func (s *slots) full() bool { return s.used >= len(s.tags)*13/16 }

func (s *slots) put(hash uint64, handle uint32) {
	mask := len(s.tags) - 1
	i := int(hash) & mask
	for s.tags[i] != 0 {
		i = (i + 1) & mask
	}
	s.tags[i], s.refs[i] = tagOf(hash), handle
	s.used++
}

// grow doubles a small table, splits a large one.
func (x *index) grow(entries *pool[entry], hash uint64, s *slots) {
	if len(s.tags) < slotsMax {
		larger := newSlots(2*len(s.tags), s.depth)
		x.move(entries, s, func(uint64) *slots { return larger })
		x.set(hash, s.depth, larger)
		return
	}
	if s.depth == x.depth {
		doubled := make([]*slots, 2*len(x.dir))
		for i, t := range x.dir {
			doubled[2*i], doubled[2*i+1] = t, t
		}
		x.dir = doubled
		x.depth++
	}
	depth := s.depth + 1
	halves := [2]*slots{newSlots(slotsMax, depth), newSlots(slotsMax, depth)}
	x.move(entries, s, func(h uint64) *slots { return halves[h>>(64-depth)&1] })
	bit := uint64(1) << (64 - depth)
	x.set(hash&^bit, depth, halves[0])
	x.set(hash|bit, depth, halves[1])
}

func (x *index) move(entries *pool[entry], from *slots, to func(hash uint64) *slots) {
	for i, tag := range from.tags {
		if tag != 0 {
			h := x.hash(entries.at(from.refs[i]).id)
			to(h).put(h, from.refs[i])
		}
	}
}

// set enters a table for all hashes that share their first depth bits.
func (x *index) set(hash uint64, depth uint8, s *slots) {
	n := 1 << (x.depth - depth)
	first := int(hash>>(64-depth)) * n
	for i := range n {
		x.dir[first+i] = s
	}
}

// rename gives the id of a handle that has moved its new handle.
func (x *index) rename(id int64, from, to uint32) {
	s, i := x.locate(id, from)
	s.refs[i] = to
}

func (x *index) locate(id int64, handle uint32) (*slots, int) {
	h := x.hash(id)
	s := x.table(h)
	mask := len(s.tags) - 1
	i := int(h) & mask
	for s.refs[i] != handle {
		if s.tags[i] == 0 { // asked first: the arguments would be allocated
			invariant.Check(false, "producer %d is not in the index", id)
		}
		i = (i + 1) & mask
	}
	return s, i
}

// remove takes an id out. Later entries of the same run close the gap.
func (x *index) remove(entries *pool[entry], id int64, handle uint32) {
	s, hole := x.locate(id, handle)
	mask := len(s.tags) - 1
	for i := (hole + 1) & mask; s.tags[i] != 0; i = (i + 1) & mask {
		home := int(x.hash(entries.at(s.refs[i]).id)) & mask
		// It may move to the hole if that is not before its home.
		if (i-home)&mask >= (i-hole)&mask {
			s.tags[hole], s.refs[hole] = s.tags[i], s.refs[i]
			hole = i
		}
	}
	s.tags[hole], s.refs[hole] = 0, 0
	s.used--
	if s.depth > 0 && s.used < slotsMax/8 {
		x.merge(entries, x.hash(id), s)
	}
}

// merge joins a nearly empty table with its other half, if that is too.
func (x *index) merge(entries *pool[entry], hash uint64, s *slots) {
	other := x.table(hash ^ 1<<(64-s.depth))
	if other.depth != s.depth || s.used+other.used > slotsMax/4 {
		return
	}
	joined := newSlots(slotsMax, s.depth-1)
	for _, half := range []*slots{s, other} {
		x.move(entries, half, func(uint64) *slots { return joined })
	}
	x.set(hash, joined.depth, joined)
}

func (x *index) bytes() int {
	size := cap(x.dir) * int(unsafe.Sizeof((*slots)(nil)))
	var before *slots
	for _, s := range x.dir {
		if s != before {
			size += int(unsafe.Sizeof(*s)) + len(s.tags)*(1+int(unsafe.Sizeof(uint32(0))))
		}
		before = s
	}
	return size
}
