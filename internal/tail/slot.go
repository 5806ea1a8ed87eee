package tail

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/invariant"
)

// slot is one slot of a mapped file, for as long as the file is mapped. Only the
// chunk that has it touches its memory.
type slot struct {
	// Set by OpenSlots.
	slots     *Slots
	number    int
	block     []byte         // the header
	area      []byte         // data from the front, descriptors from the back
	published *atomic.Uint64 // in block: batches << 32 | bytes of data

	// stale says that the disk may hold what this slot was before: staleHeader
	// or staleAll. Settle clears it.
	stale atomic.Int32

	header slotHeader // as in block; of the chunk that has the slot
	kept   bool       // for the next recovery; guarded by Slots.mu
	idle   bool       // kept, and given back by its last reader; likewise
}

const (
	staleHeader = 1
	staleAll    = 2 // descriptors too
)

// newSlot is slot number n, in its piece of the mapping.
func newSlot(s *Slots, n int, mem []byte) *slot {
	return &slot{
		slots: s, number: n,
		block:     mem[:blockBytes:blockBytes],
		area:      mem[blockBytes:],
		published: (*atomic.Uint64)(unsafe.Pointer(&mem[posPublished])),
	}
}

// publishedWord packs how much of a slot is published into one word, so that a
// process that ends between any two instructions leaves a count and a size that
// belong together.
func publishedWord(batches, size int) uint64 { return uint64(batches)<<32 | uint64(size) }

// loadWord reads such a word out of a file. Memory is little endian wherever
// this program runs.
func loadWord(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func splitWord(w uint64) (batches, size int64) { return int64(w >> 32), int64(w & (1<<32 - 1)) }

// take makes the slot one of another partition. The count comes first: a process
// that ends behind it leaves a free slot, and one that ends after the first copy
// of the header leaves an empty one.
func (s *slot) take(h slotHeader) {
	s.published.Store(0)
	s.writeHeader(h)
}

// free says in the file that the slot holds nothing.
func (s *slot) free() {
	s.writeHeader(slotHeader{sequence: s.slots.sequence.Add(1), state: stateFree, slot: s.number})
}

func (s *slot) writeHeader(h slotHeader) {
	s.header = h
	h.encode(s.block[posHeaderA:])
	h.encode(s.block[posHeaderB:])
	s.markStale(staleHeader)
}

func (s *slot) markStale(what int32) {
	for {
		old := s.stale.Load()
		if old >= what || s.stale.CompareAndSwap(old, what) {
			return
		}
	}
}

// publish describes the batch that was copied behind the others, which makes
// size bytes of data with it, then counts it. The stores of one goroutine are in
// memory in program order for whoever looks after the end of the process: what
// was executed when it ended is there, whole and in order, and an atomic store
// is not moved before plain ones. Between processors the lock of the appender
// orders them.
func (s *slot) publish(b batch.Batch, index, size int) {
	if invariant.Enabled {
		parsed, err := batch.Parse(b)
		invariant.Check(err == nil && len(parsed) == len(b), "%d bytes that are not one batch: %v", len(b), err)
	}
	encodeDescriptor(descriptorAt(s.area, index), s.place(index, size-len(b)), b)
	s.published.Store(publishedWord(index+1, size))
}

// place is that of batch index, which begins after from bytes of data.
func (s *slot) place(index, from int) place {
	return place{generation: s.header.generation, index: index, pos: s.header.pos + int64(from)}
}

// cut leaves the first size bytes of data of a slot with n batches.
func (s *slot) cut(size, n int) {
	kept, end := 0, 0
	for kept < n && end < size {
		end += descriptorBytes(descriptorAt(s.area, kept))
		kept++
	}
	if end != size {
		invariant.Check(false, "cut after %d bytes, where no batch ends", size)
	}
	s.published.Store(publishedWord(kept, size))
	for i := kept; i < n; i++ {
		clear(descriptorAt(s.area, i))
	}
	s.markStale(staleAll)
}

// keep leaves the slot as it is until the file is recovered.
func (s *slot) keep() {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	s.kept = true
}
