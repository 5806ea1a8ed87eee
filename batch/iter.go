package batch

// recordSizeMin is the smallest record: nulls, no headers.
const recordSizeMin = 7

// Records goes through the records of a batch:
//
//	records.Reset(b)
//	for records.Next() {
//		use(records.Record())
//	}
//	err := records.Err()
//
// It is strict about structure (lengths, counts, nothing left over) and takes
// any offsets and timestamps, because Kafka stores them. The zero value is
// ready; it is meant to be reused, and allocates nothing in steady state. It
// must not be copied while in use.
type Records struct {
	// Limit bounds the memory of decompressed records, in bytes; 0:
	// DefaultDecompressedMax. Read by Reset.
	Limit int

	b      []byte // the records, decompressed
	buffer *buffer
	header Header
	pos    int
	index  int // of the record that Next returns next
	record Record
	err    error
}

// Reset begins with the records of b, which Parse returned. It decompresses
// them all if need be, into a buffer that it holds until Close or the next
// Reset: until then keys, values and headers of records are valid. A codec's
// error is reported by Err.
func (r *Records) Reset(b Batch) {
	r.pos, r.index, r.err = 0, 0, nil
	r.header = b.Header()
	r.b = b[HeaderSize:]
	if r.header.RecordCount < 0 {
		r.fail("record count is negative", ErrInvalidRecord)
		return
	}
	if c := b.Codec(); c != CodecNone && len(r.b) > 0 {
		if r.buffer == nil {
			r.buffer = getBuffer()
		}
		var err error
		r.buffer.b, err = Decompress(r.buffer.b[:0], r.b, c, r.Limit)
		if r.b = r.buffer.b; err != nil {
			r.fail("none can be decompressed", err)
		}
	}
}

// Next moves to the next record, and tells whether there is one. After the
// last, or at the first that is wrong, it returns false, and Err says which.
func (r *Records) Next() bool {
	if r.err != nil {
		return false
	}
	if r.index >= int(r.header.RecordCount) {
		if r.pos != len(r.b) {
			r.fail("bytes left over behind the last record", ErrInvalidRecord)
		}
		return false
	}
	var l layout
	if reason := l.scan(r.b, r.pos); reason != "" {
		r.fail(reason, ErrInvalidRecord)
		return false
	}
	r.fill(&l)
	r.pos = l.end
	r.index++
	return true
}

func (r *Records) fill(l *layout) {
	e := &r.record
	e.OffsetDelta = l.offsetDelta
	e.Offset = r.header.BaseOffset + int64(l.offsetDelta)
	e.TimestampDelta = l.timestampDelta
	e.Timestamp = r.header.BaseTimestamp + l.timestampDelta
	if r.header.Timestamps() == LogAppendTime {
		e.Timestamp = r.header.MaxTimestamp
	}
	e.Size = l.end - r.pos
	e.Key, e.Value = nil, nil
	if l.keyStart >= 0 {
		e.Key = r.b[l.keyStart:l.keyEnd:l.keyEnd]
	}
	if l.valueStart >= 0 {
		e.Value = r.b[l.valueStart:l.valueEnd:l.valueEnd]
	}
	e.Headers = Headers{n: l.headers, b: r.b[l.headersStart:l.end]}
}

// Record is the record that Next moved to. The struct is valid until the next
// call of Next, what it points to until Close or Reset.
func (r *Records) Record() *Record { return &r.record }

// Err is nil if all records were read, or not all yet. Otherwise it is a
// *RecordError, with ErrInvalidRecord or with the error of Decompress.
func (r *Records) Err() error { return r.err }

// Close gives the memory back. r can be Reset again afterwards.
func (r *Records) Close() {
	if r.buffer != nil {
		putBuffer(r.buffer)
	}
	*r = Records{Limit: r.Limit}
}

func (r *Records) fail(reason string, err error) {
	r.err = &RecordError{Index: r.index, Pos: r.pos, Reason: reason, Err: err}
}
