package batch

import (
	"bytes"
	"iter"
)

// Record is one record of a batch. Key, Value and Headers alias the batch, or
// the buffer of the Records that decompressed it.
type Record struct {
	Offset         int64
	Timestamp      int64 // ms; None: has none. For LogAppendTime that of the whole batch
	TimestampDelta int64 // as stored
	OffsetDelta    int32
	Size           int    // in bytes, length prefix included, decompressed
	Key, Value     []byte // nil is null
	Headers        Headers
}

// RecordHeader is one header of a record. A nil Value is null.
type RecordHeader struct {
	Key   string
	Value []byte
}

// Headers are the headers of a record as they are stored: in order, keys may
// repeat. The zero value has none. It aliases what the record does.
type Headers struct {
	n int
	b []byte // the encoded headers, checked before
}

// Len is the number of headers.
func (h Headers) Len() int { return h.n }

// Clone is a copy that aliases nothing.
func (h Headers) Clone() Headers { return Headers{h.n, bytes.Clone(h.b)} }

// All goes through keys and values in order. A nil value is null.
func (h Headers) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		pos := 0
		var size int32
		for range h.n {
			size, pos = varint(h.b, pos)
			key := h.b[pos : pos+int(size) : pos+int(size)]
			pos += int(size)
			var value []byte
			if size, pos = varint(h.b, pos); size >= 0 {
				value = h.b[pos : pos+int(size) : pos+int(size)]
				pos += int(size)
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// Append appends copies of all headers to dst, for callers that keep them.
func (h Headers) Append(dst []RecordHeader) []RecordHeader {
	for key, value := range h.All() {
		dst = append(dst, RecordHeader{Key: string(key), Value: append(value[:0:0], value...)})
	}
	return dst
}

// layout is where the parts of one encoded record are, as positions in the
// records. A start of −1 is null.
type layout struct {
	end                  int // where the next record begins
	timestampDelta       int64
	offsetDelta          int32
	keyStart, keyEnd     int
	valueStart, valueEnd int
	headers              int // number
	headersStart         int
}

// Reasons for refusing a record. Constants, so that a refusal costs nothing
// until somebody wraps it.
const (
	reasonLength      = "length leads past the end of the records"
	reasonVarint      = "number is cut off or too long"
	reasonKey         = "key leads past the end of the record"
	reasonValue       = "value leads past the end of the record"
	reasonHeaderCount = "header count is negative or more than the record has room for"
	reasonHeader      = "header leads past the end of the record"
	reasonHeaderKey   = "header key is null"
	reasonLeftover    = "bytes left over behind the last header"
)

// scan checks the structure of the record at b[pos:] completely and fills in
// l. It returns "" or the reason for refusing it. It is the one walk that
// validating and iterating share, and the most frequent work of the package:
// hence numbers of one byte are decoded in line.
func (l *layout) scan(b []byte, pos int) string {
	length, pos := varint(b, pos)
	if pos < 0 {
		return reasonVarint
	}
	if length < 1 || int(length) > len(b)-pos {
		return reasonLength
	}
	l.end = pos + int(length)
	b = b[:l.end] // nothing below reads past the record
	pos++         // attributes: unused
	if delta, ok := short(b, pos); ok {
		l.timestampDelta, pos = int64(delta), pos+1
	} else if l.timestampDelta, pos = varlong(b, pos); pos < 0 {
		return reasonVarint
	}
	if delta, ok := short(b, pos); ok {
		l.offsetDelta, pos = delta, pos+1
	} else if l.offsetDelta, pos = varint(b, pos); pos < 0 {
		return reasonVarint
	}
	return l.scanFields(b, pos)
}

// scanFields goes on with key, value and headers, which must fill b[pos:].
func (l *layout) scanFields(b []byte, pos int) string {
	size, ok := short(b, pos)
	if ok {
		pos++
	} else if size, pos = varint(b, pos); pos < 0 {
		return reasonVarint
	}
	if l.keyStart = -1; size >= 0 {
		if int(size) > len(b)-pos {
			return reasonKey
		}
		l.keyStart = pos
		pos += int(size)
		l.keyEnd = pos
	}
	if size, ok = short(b, pos); ok {
		pos++
	} else if size, pos = varint(b, pos); pos < 0 {
		return reasonVarint
	}
	if l.valueStart = -1; size >= 0 {
		if int(size) > len(b)-pos {
			return reasonValue
		}
		l.valueStart = pos
		pos += int(size)
		l.valueEnd = pos
	}
	if size, ok = short(b, pos); ok {
		pos++
	} else if size, pos = varint(b, pos); pos < 0 {
		return reasonVarint
	}
	l.headers, l.headersStart = int(size), pos
	if size != 0 {
		return scanHeaders(b, pos, int(size))
	}
	if pos != len(b) {
		return reasonLeftover
	}
	return ""
}

// scanHeaders checks n headers that must fill b[pos:].
func scanHeaders(b []byte, pos, n int) string {
	if n < 0 || n > len(b)-pos {
		return reasonHeaderCount
	}
	var size int32
	for range n {
		if size, pos = varint(b, pos); pos < 0 {
			return reasonVarint
		}
		if size < 0 {
			return reasonHeaderKey
		}
		if int(size) > len(b)-pos {
			return reasonHeader
		}
		if size, pos = varint(b, pos+int(size)); pos < 0 {
			return reasonVarint
		}
		if size > 0 {
			if int(size) > len(b)-pos {
				return reasonHeader
			}
			pos += int(size)
		}
	}
	if pos != len(b) {
		return reasonLeftover
	}
	return ""
}
