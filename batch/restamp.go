package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// Restamp sets timestamp type and max timestamp in head, a copy of the header
// of a batch whose records are body, and recomputes the CRC over both: what
// SetMaxTimestamp does, for a caller that may not write into the batch.
func Restamp(head Batch, body []byte, t TimestampType, max int64) {
	head[posAttributes+1] = head[posAttributes+1]&^attrAppendTime | byte(t)<<3
	binary.BigEndian.PutUint64(head[posMaxTimestamp:], uint64(max))
	crc := crc32.Checksum(head[posAttributes:HeaderSize], castagnoli)
	binary.BigEndian.PutUint32(head[posCRC:], crc32.Update(crc, castagnoli, body))
}

// Retarget sets producer id, epoch and base sequence of a batch in place and
// recomputes the CRC: for a producer whose epoch was raised before a batch was
// sent, and for load generators that reuse one batch.
func Retarget(b Batch, p Producer, baseSequence int32) {
	binary.BigEndian.PutUint64(b[posProducerID:], uint64(p.ID))
	binary.BigEndian.PutUint16(b[posProducerEpoch:], uint16(p.Epoch))
	binary.BigEndian.PutUint32(b[posBaseSequence:], uint32(baseSequence))
	binary.BigEndian.PutUint32(b[posCRC:], CRC(b))
}
