package tail

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

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
// check is 32 bits of the xxhash64 over the generation of the slot, the number
// of the batch in it, the position of the batch in the segment, its base offset,
// and the other three. Descriptors grow down from the end of the slot.
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

// check binds the last twelve bytes of d to a place and an offset.
func (p place) check(offset int64, d []byte) uint32 {
	var b [44]byte
	binary.LittleEndian.PutUint64(b[0:], p.generation)
	binary.LittleEndian.PutUint64(b[8:], uint64(p.index))
	binary.LittleEndian.PutUint64(b[16:], uint64(p.pos))
	binary.LittleEndian.PutUint64(b[24:], uint64(offset))
	copy(b[32:44], d[4:descriptorSize])
	return uint32(xxhash.Sum64(b[:]))
}

// descriptorAt is where the descriptor of batch i lies in the area of a slot,
// which is the slot without its first block.
func descriptorAt(area []byte, i int) []byte {
	end := len(area) - i*descriptorSize
	return area[end-descriptorSize : end : end]
}

// descriptorBytes is the size of the batch that d describes.
func descriptorBytes(d []byte) int { return int(binary.LittleEndian.Uint32(d[8:])) }
