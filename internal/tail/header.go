package tail

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// FileName is the name of the file of Slots.
const FileName = "oncelog.tail"

// version is the format that this package reads and writes.
const version = 1

// blockBytes is the size of the header of the file and of each slot.
const blockBytes = 4 << 10

// Limits of the geometry of a file.
const (
	slotBytesMin = 4 * blockBytes
	slotBytesMax = 256 << 20
	fileBytesMax = 64 << 30
)

// The header of the file, written before anything is put into it:
//
//	0              16       20       24            32            40      56
//	+--------------+--------+--------+-------------+-------------+-------+----------+
//	| oncelog tail | version| count  | slot size   | store       | boot  | xxhash64 |
//	+--------------+--------+--------+-------------+-------------+-------+----------+
const (
	fileMagic      = "oncelog tail\x00\x00\x00\x00"
	posVersion     = 16
	posCount       = 20
	posSlotBytes   = 24
	posStore       = 32
	posBoot        = 40
	posFileSum     = 56
	fileHeaderSize = 64
)

// fileHeader is the geometry of a file, and the boot whose mapping filled it.
type fileHeader struct {
	slotBytes int64
	count     int
	boot      [16]byte
	store     [8]byte
}

func (h fileHeader) fileBytes() int64 { return blockBytes + int64(h.count)*h.slotBytes }

// slotPos is where slot i begins.
func (h fileHeader) slotPos(i int) int64 { return blockBytes + int64(i)*h.slotBytes }

func (h fileHeader) encode() []byte {
	b := make([]byte, fileHeaderSize)
	copy(b, fileMagic)
	binary.LittleEndian.PutUint32(b[posVersion:], version)
	binary.LittleEndian.PutUint32(b[posCount:], uint32(h.count))
	binary.LittleEndian.PutUint64(b[posSlotBytes:], uint64(h.slotBytes))
	copy(b[posStore:], h.store[:])
	copy(b[posBoot:], h.boot[:])
	binary.LittleEndian.PutUint64(b[posFileSum:], xxhash.Sum64(b[:posFileSum]))
	return b
}

// decodeFileHeader reads the header of a file of size bytes.
func decodeFileHeader(name string, b []byte, size int64) (fileHeader, error) {
	var h fileHeader
	if len(b) < fileHeaderSize {
		return h, &FormatError{File: name, Pos: int64(len(b)), Reason: "the file ends within its header"}
	}
	if string(b[:len(fileMagic)]) != fileMagic {
		return h, &FormatError{File: name, Reason: "it does not begin as a tail file does"}
	}
	if v := binary.LittleEndian.Uint32(b[posVersion:]); v > version {
		return h, fmt.Errorf("%s has version %d, this program knows %d: %w", name, v, version, ErrNewerFormat)
	}
	if xxhash.Sum64(b[:posFileSum]) != binary.LittleEndian.Uint64(b[posFileSum:]) {
		return h, &FormatError{File: name, Pos: posFileSum, Reason: "the checksum of the header is wrong"}
	}
	h.count = int(binary.LittleEndian.Uint32(b[posCount:]))
	h.slotBytes = int64(binary.LittleEndian.Uint64(b[posSlotBytes:]))
	copy(h.store[:], b[posStore:])
	copy(h.boot[:], b[posBoot:])
	if reason := h.wrong(); reason != "" {
		return h, &FormatError{File: name, Pos: posCount, Reason: reason}
	}
	if want := h.fileBytes(); size != want {
		return h, &FormatError{File: name, Pos: min(size, want),
			Reason: fmt.Sprintf("the file has %d bytes, %d slots of %d make %d", size, h.count, h.slotBytes, want)}
	}
	return h, nil
}

// wrong says why there can be no file of this geometry; empty if there can.
func (h fileHeader) wrong() string {
	switch {
	case h.slotBytes < slotBytesMin || h.slotBytes > slotBytesMax || h.slotBytes%blockBytes != 0:
		return fmt.Sprintf("slots of %d bytes: not a multiple of %d from %d to %d", h.slotBytes, blockBytes, slotBytesMin, slotBytesMax)
	case h.count < 1 || h.fileBytes() > fileBytesMax:
		return fmt.Sprintf("%d slots of %d bytes: none, or more than %d bytes", h.count, h.slotBytes, int64(fileBytesMax))
	}
	return ""
}

// The header of a slot, twice in its first block, with the published word
// between; each of the three lies in a sector of its own:
//
//	0          8          16         24      28      32        48        56       64       72      76    80
//	+----------+----------+----------+-------+-------+---------+---------+--------+--------+-------+-----+
//	| xxhash64 | sequence | generat- | state | parti-| topic   | segment | pos    | base   | slot  | 0   |
//	|          |          | ion      |       | tion  |         |         |        | offset |       |     |
//	+----------+----------+----------+-------+-------+---------+---------+--------+--------+-------+-----+
const (
	posHeaderA     = 0
	posPublished   = 1024
	posHeaderB     = 2048
	slotHeaderSize = 80
)

// state of a slot.
type state uint32

const (
	stateFree state = 1
	stateUsed state = 2
)

// slotHeader is what a slot says of itself.
type slotHeader struct {
	sequence   uint64 // rises with every header that is written in the file
	generation uint64 // random, of one use of the slot; 0 if free
	state      state
	identity   Identity
	pos        int64 // in the segment, of the first byte of data
	offset     int64 // base offset of the first batch
	slot       int   // number of the slot: a header at another place is none
}

func (h *slotHeader) encode(b []byte) {
	binary.LittleEndian.PutUint64(b[8:], h.sequence)
	binary.LittleEndian.PutUint64(b[16:], h.generation)
	binary.LittleEndian.PutUint32(b[24:], uint32(h.state))
	binary.LittleEndian.PutUint32(b[28:], uint32(h.identity.Partition))
	copy(b[32:48], h.identity.Topic[:])
	binary.LittleEndian.PutUint64(b[48:], uint64(h.identity.Segment))
	binary.LittleEndian.PutUint64(b[56:], uint64(h.pos))
	binary.LittleEndian.PutUint64(b[64:], uint64(h.offset))
	binary.LittleEndian.PutUint32(b[72:], uint32(h.slot))
	binary.LittleEndian.PutUint32(b[76:], 0)
	binary.LittleEndian.PutUint64(b, xxhash.Sum64(b[8:slotHeaderSize]))
}

// decodeSlotHeader reads one copy; false if it is not whole.
func decodeSlotHeader(b []byte, slot int) (slotHeader, bool) {
	if xxhash.Sum64(b[8:slotHeaderSize]) != binary.LittleEndian.Uint64(b) {
		return slotHeader{}, false
	}
	h := slotHeader{
		sequence:   binary.LittleEndian.Uint64(b[8:]),
		generation: binary.LittleEndian.Uint64(b[16:]),
		state:      state(binary.LittleEndian.Uint32(b[24:])),
		pos:        int64(binary.LittleEndian.Uint64(b[56:])),
		offset:     int64(binary.LittleEndian.Uint64(b[64:])),
		slot:       int(binary.LittleEndian.Uint32(b[72:])),
	}
	h.identity.Partition = int32(binary.LittleEndian.Uint32(b[28:]))
	copy(h.identity.Topic[:], b[32:48])
	h.identity.Segment = int64(binary.LittleEndian.Uint64(b[48:]))
	sane := h.slot == slot && h.pos >= 0 && h.pos <= math.MaxInt64-slotBytesMax && h.offset >= 0 && (h.state == stateFree || h.state == stateUsed)
	return h, sane
}

// newestHeader reads the first block of a slot: the newer of its copies.
func newestHeader(block []byte, slot int) (slotHeader, bool) {
	a, okA := decodeSlotHeader(block[posHeaderA:posHeaderA+slotHeaderSize], slot)
	b, okB := decodeSlotHeader(block[posHeaderB:posHeaderB+slotHeaderSize], slot)
	if okB && (!okA || b.sequence > a.sequence) {
		return b, true
	}
	return a, okA
}
