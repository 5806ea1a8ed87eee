package batch

import (
	"encoding/binary"
	"fmt"
	"math"
)

// BuilderOptions are the header fields of a batch that a Builder does not
// compute. The zero value names producer 0 with epoch 0 and sequence 0: begin
// with Plain for a batch without a producer.
type BuilderOptions struct {
	BaseOffset    int64
	Producer      Producer
	BaseSequence  int32
	LeaderEpoch   int32
	Transactional bool
	Control       bool
	Timestamps    TimestampType
	Codec         Codec
	Level         int // of compression, see Compress; 0: Kafka's default
}

// Plain is a batch as a producer sends it that is neither idempotent nor
// transactional.
var Plain = BuilderOptions{Producer: NoProducer, BaseSequence: None, LeaderEpoch: None}

// Builder writes one batch after another, each straight into the buffer of the
// caller:
//
//	builder.Reset(dst, batch.Plain)
//	builder.Add(now, key, value)
//	dst, err = builder.Finish()
//
// It copies keys and values when they are added and keeps none. The zero value
// is ready for Reset; reused with a dst that has room it allocates nothing.
type Builder struct {
	options BuilderOptions
	dst     []byte
	start   int // of the batch in dst
	// records take what is added if it will be compressed; otherwise it goes to
	// dst behind the room for the header.
	records       *buffer
	count         int
	baseTimestamp int64
	maxTimestamp  int64
	err           error
}

// Reset begins a batch that will be appended to dst. What was added and not
// finished is dropped.
func (w *Builder) Reset(dst []byte, o BuilderOptions) {
	w.options, w.dst, w.start = o, dst, len(dst)
	w.count, w.err = 0, nil
	w.baseTimestamp, w.maxTimestamp = None, None
	if o.Codec != CodecNone {
		if w.records == nil {
			w.records = getBuffer()
		}
		w.records.b = w.records.b[:0]
	}
	var header [HeaderSize]byte
	w.dst = append(w.dst, header[:]...)
}

// Add appends a record, with the next offset and, in ms, the time given; None
// for no time. A nil key or value is null. What is wrong is told by Finish.
func (w *Builder) Add(timestamp int64, key, value []byte, headers ...RecordHeader) {
	if timestamp < None && w.err == nil {
		w.err = fmt.Errorf("record %d with timestamp %d: %w", w.count, timestamp, ErrInvalidTimestamp)
	}
	if w.count == 0 {
		w.baseTimestamp = timestamp
	}
	w.maxTimestamp = max(w.maxTimestamp, timestamp)
	delta := timestamp - w.baseTimestamp
	size := 1 + varlongSize(delta) + varlongSize(int64(w.count)) +
		fieldSize(key) + fieldSize(value) + varlongSize(int64(len(headers)))
	for i := range headers {
		h := &headers[i]
		size += varlongSize(int64(len(h.Key))) + len(h.Key) + fieldSize(h.Value)
	}
	if size > math.MaxInt32 || w.count == math.MaxInt32 {
		w.fail(size)
		return
	}
	if w.options.Codec == CodecNone {
		w.dst = w.appendRecord(w.dst, size, delta, key, value, headers)
	} else {
		w.records.b = w.appendRecord(w.records.b, size, delta, key, value, headers)
	}
	w.count++
}

func (w *Builder) fail(size int) {
	if w.err == nil {
		w.err = fmt.Errorf("record %d of %d bytes: %w", w.count, size, ErrTooLarge)
	}
}

func (w *Builder) appendRecord(dst []byte, size int, delta int64, key, value []byte, headers []RecordHeader) []byte {
	dst = appendVarlong(dst, int64(size))
	dst = append(dst, 0) // attributes
	dst = appendVarlong(dst, delta)
	dst = appendVarlong(dst, int64(w.count))
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = appendVarlong(dst, int64(len(headers)))
	for i := range headers {
		h := &headers[i]
		dst = appendVarlong(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendField(dst, h.Value)
	}
	return dst
}

// Count is the number of records added.
func (w *Builder) Count() int { return w.count }

// Len is the size in bytes that the batch has so far, not compressed; 0 once it
// is finished.
func (w *Builder) Len() int {
	if w.options.Codec != CodecNone && w.records != nil {
		return HeaderSize + len(w.records.b)
	}
	return len(w.dst) - w.start
}

// Finish completes the batch, compressing it here, and returns dst with the
// batch appended; the Builder keeps no hold of it. On error dst is returned as
// it was given: ErrInvalidRecord if no record was added, ErrTooLarge,
// ErrInvalidTimestamp for one below −1, ErrUnsupportedCodec.
func (w *Builder) Finish() ([]byte, error) {
	dst, start := w.dst, w.start
	w.dst, w.start = nil, 0
	o := &w.options
	err := w.err
	if err == nil && w.count == 0 {
		err = fmt.Errorf("batch without a record: %w", ErrInvalidRecord)
	}
	if o.Codec != CodecNone && w.records != nil {
		if err == nil {
			dst, err = Compress(dst, w.records.b, o.Codec, o.Level)
		}
		putBuffer(w.records)
		w.records = nil
	}
	if size := len(dst) - start; err == nil && size-OverheadSize > math.MaxInt32 {
		err = fmt.Errorf("batch of %d bytes: %w", size, ErrTooLarge)
	}
	if err != nil {
		return dst[:start], err
	}
	putHeader(dst[start:], &Header{
		BaseOffset:      o.BaseOffset,
		LeaderEpoch:     o.LeaderEpoch,
		Attributes:      o.attributes(),
		LastOffsetDelta: int32(w.count - 1),
		BaseTimestamp:   w.baseTimestamp,
		MaxTimestamp:    w.maxTimestamp,
		Producer:        o.Producer,
		BaseSequence:    o.BaseSequence,
		RecordCount:     int32(w.count),
	})
	return dst, nil
}

func (o *BuilderOptions) attributes() int16 {
	a := int16(o.Codec)
	if o.Timestamps == LogAppendTime {
		a |= attrAppendTime
	}
	if o.Transactional {
		a |= attrTransactional
	}
	if o.Control {
		a |= attrControl
	}
	return a
}

// putHeader writes the header of b, whose records are in place: its size and
// checksum are computed, not taken from h.
func putHeader(b Batch, h *Header) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-OverheadSize))
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(h.LeaderEpoch))
	b[posMagic] = Magic
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(h.Attributes))
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(h.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(h.BaseTimestamp))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(h.MaxTimestamp))
	binary.BigEndian.PutUint64(b[posProducerID:], uint64(h.Producer.ID))
	binary.BigEndian.PutUint16(b[posProducerEpoch:], uint16(h.Producer.Epoch))
	binary.BigEndian.PutUint32(b[posBaseSequence:], uint32(h.BaseSequence))
	binary.BigEndian.PutUint32(b[posRecordCount:], uint32(h.RecordCount))
	binary.BigEndian.PutUint32(b[posCRC:], CRC(b))
}

// fieldSize is how many bytes appendField writes.
func fieldSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varlongSize(int64(len(b))) + len(b)
}

// appendField appends length and bytes; nil is null.
func appendField(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // −1
	}
	return append(appendVarlong(dst, int64(len(b))), b...)
}
