package tail

import (
	"encoding/binary"
	"math/bits"

	"github.com/oncelog/oncelog/batch"
)

// A descriptor says of one batch in a slot what the checksum in the batch does
// not: that it belongs to this use of the slot, and where in it.
//
//	0       4       8       12      16
//	+-------+-------+-------+-------+
//	| check | CRC   | size  | leader|
//	|       |       |       | epoch |
//	+-------+-------+-------+-------+
//
// check is 32 bits of a hash (place.check) of the generation of the slot, the
// number of the batch in it, the position of the batch in the segment, its base
// offset, and the other three. Descriptors grow down from the end of the slot.
const descriptorSize = 16

// place is where a batch lies.
type place struct {
	generation uint64
	index      int   // of the batch in the slot
	pos        int64 // of the batch in the segment
}

// encodeDescriptor writes the descriptor of a batch.
func encodeDescriptor(d []byte, p place, b batch.Batch) {
	binary.LittleEndian.PutUint32(d[4:], b.CRC())
	binary.LittleEndian.PutUint32(d[8:], uint32(len(b)))
	binary.LittleEndian.PutUint32(d[12:], uint32(b.LeaderEpoch()))
	binary.LittleEndian.PutUint32(d, p.check(b.BaseOffset(), d))
}

// describes says whether d is the descriptor of b at p.
func describes(d []byte, p place, b batch.Batch) bool {
	return binary.LittleEndian.Uint32(d[4:]) == b.CRC() &&
		binary.LittleEndian.Uint32(d[8:]) == uint32(len(b)) &&
		binary.LittleEndian.Uint32(d[12:]) == uint32(b.LeaderEpoch()) &&
		binary.LittleEndian.Uint32(d) == p.check(b.BaseOffset(), d)
}

// check binds the last twelve bytes of d to a place and an offset. The generation
// is random, so that it is enough to mix well: nobody picks the other words to
// meet it. A checksum made for streams would cost more than copying a small batch.
func (p place) check(offset int64, d []byte) uint32 {
	h := mix(p.generation^mixA, uint64(p.pos)^mixB)
	h = mix(h^uint64(offset), uint64(p.index)^mixC)
	h = mix(h^binary.LittleEndian.Uint64(d[4:]), uint64(binary.LittleEndian.Uint32(d[12:]))^mixD)
	return uint32(h ^ h>>32)
}

// Odd constants with about half of their bits set, from the digits of pi.
const (
	mixA = 0x243f6a8885a308d3
	mixB = 0x13198a2e03707345
	mixC = 0xa4093822299f31d1
	mixD = 0x082efa98ec4e6c89
)

// mix folds the product of two words: every bit of it depends on many of both.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// descriptorAt is where the descriptor of batch i lies in the area of a slot,
// which is the slot without its first block.
func descriptorAt(area []byte, i int) []byte {
	end := len(area) - i*descriptorSize
	return area[end-descriptorSize : end : end]
}

// descriptorBytes is the size of the batch that d describes.
func descriptorBytes(d []byte) int { return int(binary.LittleEndian.Uint32(d[8:])) }
