package batch

import (
	"encoding/binary"
	"math"
)

// Sizes and positions of the header of a record batch, magic 2.
//
//	 0        8       12       16 17       21       23       27
//	 +--------+--------+--------+--+--------+--------+--------+
//	 | base   | batch  | leader |m | crc    | attri- | last   |
//	 | offset | length | epoch  |2 | 32C    | butes  | offset | ...
//	 |        |        |        |  |        |        | delta  |
//	 +--------+--------+--------+--+--------+--------+--------+
//	27               35              43            51      53     57      61
//	 +----------------+---------------+-------------+-------+------+-------+
//	 | base timestamp | max timestamp | producer id | epoch | base | count |
//	 |                |               |             |       | seq. |       |
//	 +----------------+---------------+-------------+-------+------+-------+
//
// The CRC covers everything from the attributes on: base offset, length,
// leader epoch and magic lie outside.
const (
	HeaderSize = 61 // bytes before the records
	// OverheadSize is what stands before the part that batchLength counts.
	OverheadSize = 12
	// MagicEnd is how many bytes are needed to tell the magic.
	MagicEnd = 17

	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posRecordCount     = 57

	lengthMin = 14 // smallest batchLength of any magic
)

// Bits of the attributes.
const (
	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// Magic is the version of the record batch that this package reads and writes.
const Magic = 2

// None stands for "no producer id", "no epoch", "no sequence", "no
// timestamp" wherever the format has such a field.
const None = -1

// Producer names one incarnation of a producer.
type Producer struct {
	ID    int64
	Epoch int16
}

// NoProducer is the producer of a batch that is neither idempotent nor
// transactional.
var NoProducer = Producer{ID: None, Epoch: None}

// TimestampType tells where the timestamps of a batch come from.
type TimestampType uint8

const (
	CreateTime    TimestampType = iota // the producer's clock, record by record
	LogAppendTime                      // the log's clock at the append, one for all records
)

// String is the name Kafka uses.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// Batch is the bytes of exactly one record batch: header and records. The
// accessors decode in place, allocate nothing, and presume what Parse has
// checked: at least HeaderSize bytes.
type Batch []byte

func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[posBaseOffset:])) }

// LeaderEpoch is the partition leader epoch; None as a producer sends it.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[posLeaderEpoch:])) }
func (b Batch) Magic() int8        { return int8(b[posMagic]) }
func (b Batch) CRC() uint32        { return binary.BigEndian.Uint32(b[posCRC:]) }
func (b Batch) Attributes() int16  { return int16(binary.BigEndian.Uint16(b[posAttributes:])) }

func (b Batch) Codec() Codec           { return Codec(b[posAttributes+1] & attrCodec) }
func (b Batch) IsTransactional() bool  { return b[posAttributes+1]&attrTransactional != 0 }
func (b Batch) IsControl() bool        { return b[posAttributes+1]&attrControl != 0 }
func (b Batch) HasDeleteHorizon() bool { return b[posAttributes+1]&attrDeleteHorizon != 0 }
func (b Batch) Timestamps() TimestampType {
	return TimestampType(b[posAttributes+1] & attrAppendTime >> 3)
}

// LastOffsetDelta is the last offset of the batch as it was produced, minus
// its base offset: compaction may have removed the record itself.
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

func (b Batch) LastOffset() int64    { return b.BaseOffset() + int64(b.LastOffsetDelta()) }
func (b Batch) NextOffset() int64    { return b.LastOffset() + 1 }
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])) }
func (b Batch) MaxTimestamp() int64  { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }
func (b Batch) ProducerID() int64    { return int64(binary.BigEndian.Uint64(b[posProducerID:])) }
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[posProducerEpoch:])) }

// Producer is the producer id and epoch.
func (b Batch) Producer() Producer { return Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch()} }

func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// LastSequence is the sequence of the last record as produced, None if the
// batch has none.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() == None {
		return None
	}
	return AddSequence(b.BaseSequence(), b.LastOffsetDelta())
}

// RecordCount is the number of records present; after compaction it may be
// smaller than LastOffsetDelta+1, down to 0.
func (b Batch) RecordCount() int32 { return int32(binary.BigEndian.Uint32(b[posRecordCount:])) }

// Stamp sets base offset and leader epoch in place. Both lie outside the CRC.
func (b Batch) Stamp(baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(baseOffset))
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(leaderEpoch))
}

// Header is the decoded header of one batch, without its magic, which is 2.
type Header struct {
	BaseOffset      int64
	Size            int // of the whole batch, in bytes
	LeaderEpoch     int32
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	Producer        Producer
	BaseSequence    int32
	RecordCount     int32
}

// Header decodes the header.
func (b Batch) Header() Header {
	return Header{
		BaseOffset:      b.BaseOffset(),
		Size:            OverheadSize + int(binary.BigEndian.Uint32(b[posLength:])),
		LeaderEpoch:     b.LeaderEpoch(),
		CRC:             b.CRC(),
		Attributes:      b.Attributes(),
		LastOffsetDelta: b.LastOffsetDelta(),
		BaseTimestamp:   b.BaseTimestamp(),
		MaxTimestamp:    b.MaxTimestamp(),
		Producer:        b.Producer(),
		BaseSequence:    b.BaseSequence(),
		RecordCount:     b.RecordCount(),
	}
}

func (h *Header) LastOffset() int64         { return h.BaseOffset + int64(h.LastOffsetDelta) }
func (h *Header) NextOffset() int64         { return h.LastOffset() + 1 }
func (h *Header) Codec() Codec              { return Codec(h.Attributes & attrCodec) }
func (h *Header) IsTransactional() bool     { return h.Attributes&attrTransactional != 0 }
func (h *Header) IsControl() bool           { return h.Attributes&attrControl != 0 }
func (h *Header) HasDeleteHorizon() bool    { return h.Attributes&attrDeleteHorizon != 0 }
func (h *Header) Timestamps() TimestampType { return TimestampType(h.Attributes & attrAppendTime >> 3) }

// LastSequence is the sequence of the last record, None if the batch has none.
func (h *Header) LastSequence() int32 {
	if h.BaseSequence == None {
		return None
	}
	return AddSequence(h.BaseSequence, h.LastOffsetDelta)
}

// AddSequence is the sequence n records after s. After 2147483647 comes 0.
func AddSequence(s, n int32) int32 {
	if s > math.MaxInt32-n {
		return n - (math.MaxInt32 - s) - 1
	}
	return s + n
}

// SubSequence is the sequence n records before s, over the same wrap.
func SubSequence(s, n int32) int32 {
	if s < n {
		return math.MaxInt32 - (n - s) + 1
	}
	return s - n
}

// FollowsSequence tells whether next is the sequence right after last, which
// is None when nothing came before.
func FollowsSequence(last, next int32) bool {
	return int64(next) == int64(last)+1 || next == 0 && last == math.MaxInt32
}
