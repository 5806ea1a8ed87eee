package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// castagnoli selects the instruction of the processor where there is one.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lengthMinV2 is the smallest batchLength of magic 2: a header without records.
const lengthMinV2 = HeaderSize - OverheadSize

// Frame gives the size in bytes of the batch that begins with head, of which
// it needs MagicEnd bytes: for a scanner that has not read more yet.
//
// Errors: ErrShort if head is shorter; *MagicError for magic 0 and 1, with the
// size all the same, so that a scanner can tell how far the message goes;
// *FormatError with ErrCorrupt if no batch begins here.
func Frame(head []byte) (size int64, err error) {
	if len(head) < MagicEnd {
		return 0, ErrShort
	}
	length := int32(binary.BigEndian.Uint32(head[posLength:]))
	magic := int8(head[posMagic])
	if magic == Magic && length >= lengthMinV2 {
		return OverheadSize + int64(length), nil
	}
	return frameRefused(length, magic)
}

func frameRefused(length int32, magic int8) (int64, error) {
	switch {
	case length < lengthMin:
		return 0, corrupt(posLength, "batch length %d, the smallest of any format is %d", length, lengthMin)
	case magic < 0 || magic > Magic:
		return 0, corrupt(posMagic, "magic %d", magic)
	case magic < Magic:
		return OverheadSize + int64(length), &MagicError{Magic: magic}
	}
	return 0, corrupt(posLength, "batch length %d, a header alone makes %d", length, lengthMinV2)
}

// Parse returns the first batch of b, aliasing it. It looks at the framing
// only: Check and Rules.Validate do the rest.
//
// Errors: ErrShort if b ends before the batch does, and those of Frame.
func Parse(b []byte) (Batch, error) {
	size, err := Frame(b)
	if err != nil {
		return nil, err
	}
	if size > int64(len(b)) {
		return nil, ErrShort
	}
	return Batch(b[:size:size]), nil
}

// CRC computes the CRC-32C of b, which must have HeaderSize bytes: of
// everything from the attributes on.
func CRC(b Batch) uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

// CheckCRC compares the checksum in the header of b, which Parse returned,
// with that of its bytes. The error is a *FormatError with ErrCorrupt.
func (b Batch) CheckCRC() error {
	if got, want := CRC(b), b.CRC(); got != want {
		return corrupt(posCRC, "CRC is %08x, header says %08x", got, want)
	}
	return nil
}

// Check verifies what must hold for every batch that is stored, whoever took
// it: b is exactly one batch, its checksum is right, and base offset, last
// offset and record count make sense. It does not look into the records. b may
// be any bytes.
//
// Errors: those of Parse; *FormatError with ErrCorrupt.
func (b Batch) Check() error {
	size, err := Frame(b)
	if err != nil {
		return err
	}
	switch {
	case size > int64(len(b)):
		return ErrShort
	case size < int64(len(b)):
		return corrupt(int(size), "%d bytes behind the batch", int64(len(b))-size)
	}
	if err := b.CheckCRC(); err != nil {
		return err
	}
	base, delta := b.BaseOffset(), b.LastOffsetDelta()
	switch {
	case base < 0:
		return corrupt(posBaseOffset, "base offset %d", base)
	case delta < 0:
		return corrupt(posLastOffsetDelta, "last offset delta %d", delta)
	case base > math.MaxInt64-1-int64(delta):
		return corrupt(posBaseOffset, "base offset %d leaves no room for last offset delta %d", base, delta)
	case b.RecordCount() < 0:
		return corrupt(posRecordCount, "record count %d", b.RecordCount())
	}
	return nil
}

// SetMaxTimestamp rewrites maximum timestamp and timestamp type in place, as a
// leader does for a topic with LogAppendTime or when a producer's maximum was
// wrong, and computes the checksum anew. If both are there already, b stays as
// it is. b must have been checked: a new checksum hides old damage.
func (b Batch) SetMaxTimestamp(t TimestampType, max int64) {
	if b.Timestamps() == t && b.MaxTimestamp() == max {
		return
	}
	low := b[posAttributes+1] &^ attrAppendTime
	if t == LogAppendTime {
		low |= attrAppendTime
	}
	b[posAttributes+1] = low
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(max))
	binary.BigEndian.PutUint32(b[posCRC:], CRC(b))
}

// String describes the header for logs and test failures.
func (b Batch) String() string {
	if len(b) < HeaderSize {
		return fmt.Sprintf("batch of %d bytes", len(b))
	}
	return fmt.Sprintf("batch of %d bytes at offset %d, last offset delta %d, %d records, codec %v, attributes %#x",
		len(b), b.BaseOffset(), b.LastOffsetDelta(), b.RecordCount(), b.Codec(), b.Attributes())
}
