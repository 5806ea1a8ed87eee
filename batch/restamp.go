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
