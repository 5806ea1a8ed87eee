package batch

import (
	"fmt"
	"math"
)

// DefaultSizeMax is Kafka's default for the size of a batch from a client, in
// bytes (max.message.bytes).
const DefaultSizeMax = 1<<20 + OverheadSize

// Rules are what a leader asks of a batch that comes from a client: all that
// Kafka asks, in its order, with the same class of error. Beyond that they
// refuse, because consumers or producers come to harm otherwise:
//
//   - bytes behind the batch, which Kafka drops silently
//   - a producer id without an epoch, a transactional batch without a producer
//     id, records whose offset deltas are not 0, 1, 2 …, in a compressed batch
//     a record whose length is wrong (ErrInvalidRecord)
//   - timestamps below −1 or too large for 64 bits (ErrInvalidTimestamp)
//   - records that decompress to more than DecompressedMax
//
// and name the error (ErrCorrupt, ErrUnsupportedCodec) where Kafka answers
// that it does not know (−1) for a payload that is none of its codec, or a
// codec that does not exist.
//
// The zero value is right for a topic with Kafka's default configuration but
// for its bound on timestamps of the future. Validate changes nothing in it.
type Rules struct {
	SizeMax         int           // bytes of the whole batch, compressed; 0: DefaultSizeMax
	DecompressedMax int           // bytes of its records, decompressed; 0: DefaultDecompressedMax
	KeysRequired    bool          // compacted topic: a null key is refused
	Timestamps      TimestampType // of the topic
	// How far timestamps may lie from Now, in ms; 0: no bound. Only for
	// CreateTime.
	BeforeMax, AfterMax int64
	Now                 int64 // ms since 1970
	// Coordinator: the batch comes from a transaction or group coordinator of
	// ours, which may write control records, and data without a sequence.
	Coordinator bool
}

// Validated is what Validate found out on the way.
type Validated struct {
	// MaxTimestamp is the largest timestamp of the records, None if no record
	// has one. A producer may have put another one into the header.
	MaxTimestamp int64
	// OffsetOfMax is the offset delta of the first record that has it; None if
	// no record has a timestamp.
	OffsetOfMax int64
}

// Validate decides whether b, any bytes that should be exactly one batch, may
// be stored. Nothing is allocated unless it is refused, save what a codec
// needs when its pool is empty. Safe for concurrent use.
//
// Errors: *FormatError or *RecordError with ErrCorrupt, ErrLegacyMagic,
// ErrInvalidRecord, ErrInvalidTimestamp or ErrTooLarge; ErrUnsupportedCodec
// and those of Decompress, wrapped.
func (r *Rules) Validate(b Batch) (Validated, error) {
	if err := r.checkFrame(b); err != nil {
		return Validated{}, err
	}
	h := b.Header()
	if err := r.checkHeader(&h); err != nil {
		return Validated{}, err
	}
	if h.Codec() != CodecNone {
		return r.walkCompressed(&h, b[HeaderSize:])
	}
	return r.walk(&h, b[HeaderSize:])
}

func (r *Rules) walkCompressed(h *Header, packed []byte) (Validated, error) {
	scratch := getBuffer()
	defer putBuffer(scratch)
	var err error
	if scratch.b, err = Decompress(scratch.b[:0], packed, h.Codec(), r.DecompressedMax); err != nil {
		return Validated{}, err
	}
	return r.walk(h, scratch.b)
}

// checkFrame checks framing, size and checksum.
func (r *Rules) checkFrame(b Batch) error {
	size, err := Frame(b)
	if err != nil {
		if err == ErrShort {
			return invalid(0, "no batch in %d bytes", len(b))
		}
		return err
	}
	sizeMax := r.SizeMax
	if sizeMax == 0 {
		sizeMax = DefaultSizeMax
	}
	switch {
	case size > int64(len(b)):
		return invalid(posLength, "batch of %d bytes in %d", size, len(b))
	case size < int64(len(b)):
		return invalid(int(size), "%d bytes behind the batch", int64(len(b))-size)
	case b.BaseOffset() != 0 && !r.Coordinator:
		return invalid(posBaseOffset, "base offset %d is not 0", b.BaseOffset())
	case size > int64(sizeMax):
		return &FormatError{Pos: posLength, Reason: fmt.Sprintf("%d bytes, at most %d are allowed", size, sizeMax), Err: ErrTooLarge}
	}
	return b.CheckCRC()
}

// checkHeader checks what can be told without the records.
func (r *Rules) checkHeader(h *Header) error {
	switch {
	case h.LastOffsetDelta < 0 || h.LastOffsetDelta == math.MaxInt32:
		return invalid(posLastOffsetDelta, "last offset delta %d", h.LastOffsetDelta)
	case h.RecordCount <= 0 && !r.Coordinator, h.RecordCount < 0:
		return invalid(posRecordCount, "record count %d", h.RecordCount)
	case h.RecordCount-1 != h.LastOffsetDelta && !r.Coordinator:
		return invalid(posRecordCount, "record count %d with last offset delta %d", h.RecordCount, h.LastOffsetDelta)
	case h.IsControl() && !r.Coordinator:
		return invalid(posAttributes, "control batch from a client")
	case h.Producer.ID >= 0 && h.BaseSequence < 0 && !r.Coordinator:
		return invalid(posBaseSequence, "producer id %d with base sequence %d", h.Producer.ID, h.BaseSequence)
	case h.Producer.ID >= 0 && h.Producer.Epoch < 0:
		return invalid(posProducerEpoch, "producer id %d with epoch %d", h.Producer.ID, h.Producer.Epoch)
	case h.Producer.ID < 0 && h.IsTransactional():
		return invalid(posProducerID, "transactional batch without a producer id")
	case h.Codec() > CodecZstd:
		return &FormatError{Pos: posAttributes, Reason: h.Codec().String(), Err: ErrUnsupportedCodec}
	}
	// A batch in which the producer claims to be the log's clock. On a topic
	// with CreateTime it counts as CreateTime, if it has a time at all.
	if h.Timestamps() == LogAppendTime && (r.Timestamps == LogAppendTime || h.MaxTimestamp == None) {
		return &FormatError{Pos: posAttributes, Reason: "LogAppendTime from a client", Err: ErrInvalidTimestamp}
	}
	return nil
}

// walk goes through the records once. Damage ends it; of rules that records
// break, a timestamp's comes first, whichever record breaks it.
func (r *Rules) walk(h *Header, records []byte) (Validated, error) {
	count := int(h.RecordCount)
	if count > len(records)/recordSizeMin {
		return Validated{}, invalid(posRecordCount, "record count %d in %d bytes", count, len(records))
	}
	low, high := r.window()
	v := Validated{MaxTimestamp: None, OffsetOfMax: None}
	var broken, late error
	var l layout
	pos := 0
	expected := int32(0)
	for i := range count {
		if reason := l.scan(records, pos); reason != "" {
			return Validated{}, &RecordError{Index: i, Pos: pos, Reason: reason, Err: ErrInvalidRecord}
		}
		if l.offsetDelta != expected && !r.Coordinator || l.offsetDelta < expected || l.offsetDelta > h.LastOffsetDelta {
			return Validated{}, &RecordError{Index: i, Pos: pos, Reason: fmt.Sprintf("offset delta %d", l.offsetDelta), Err: ErrInvalidRecord}
		}
		expected = l.offsetDelta + 1
		timestamp := h.BaseTimestamp + l.timestampDelta
		if timestamp < low || timestamp > high || (timestamp < h.BaseTimestamp) != (l.timestampDelta < 0) {
			if late == nil && r.refusesTime(timestamp, h.BaseTimestamp, l.timestampDelta) {
				late = &RecordError{Index: i, Pos: pos, Reason: fmt.Sprintf("timestamp %d", timestamp), Err: ErrInvalidTimestamp}
			}
		}
		if timestamp > v.MaxTimestamp {
			v.MaxTimestamp, v.OffsetOfMax = timestamp, int64(l.offsetDelta)
		}
		if r.KeysRequired && l.keyStart < 0 && broken == nil {
			broken = &RecordError{Index: i, Pos: pos, Reason: "null key in a compacted topic", Err: ErrInvalidRecord}
		}
		pos = l.end
	}
	switch {
	case pos != len(records):
		return Validated{}, &RecordError{Index: count, Pos: pos, Reason: "bytes left over behind the last record", Err: ErrInvalidRecord}
	case late != nil:
		return Validated{}, late
	case broken != nil:
		return Validated{}, broken
	}
	return v, nil
}

// window is the range of timestamps that need no second look.
func (r *Rules) window() (low, high int64) {
	low, high = 0, math.MaxInt64
	if r.BeforeMax > 0 && r.Now > math.MinInt64+r.BeforeMax {
		low = max(low, r.Now-r.BeforeMax)
	}
	if r.AfterMax > 0 && r.Now < math.MaxInt64-r.AfterMax {
		high = r.Now + r.AfterMax
	}
	return low, high
}

// refusesTime looks closer at a timestamp outside the window, or one that came
// from base and delta by an overflow.
func (r *Rules) refusesTime(timestamp, base, delta int64) bool {
	if r.Timestamps == LogAppendTime {
		return false // the log's clock will replace it
	}
	if (timestamp < base) != (delta < 0) {
		return true
	}
	low, high := r.window()
	return timestamp != None && (timestamp < low || timestamp > high)
}
