package main

import (
	"encoding/binary"
	"errors"

	"github.com/oncelog/oncelog/internal/checkpoint"
)

var (
	errFieldShort = errors.New("the bytes end before the fields do")
	errFieldLeft  = errors.New("bytes are left over behind the fields")
	errFieldNull  = errors.New("a field that cannot be null is null")
)

// fieldReader reads the fields of Kafka's messages one after the other. After
// the first error all methods give zeros, and end tells it. What is made is
// never larger than the bytes left: lengths from the input are checked first.
type fieldReader struct {
	b   []byte
	err error
}

// take gives the next n bytes.
func (r *fieldReader) take(n int) []byte {
	if r.err != nil || n > len(r.b) {
		r.fail(errFieldShort)
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *fieldReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// end tells whether everything was read, and nothing but that.
func (r *fieldReader) end() error {
	if r.err == nil && len(r.b) > 0 {
		return errFieldLeft
	}
	return r.err
}

func (r *fieldReader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *fieldReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *fieldReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *fieldReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string is one with a length of 16 bits, not null.
func (r *fieldReader) string() string {
	n := r.int16()
	if n < 0 {
		r.fail(errFieldNull)
		return ""
	}
	return string(r.take(int(n)))
}

// uuid is a topic's id as text.
func (r *fieldReader) uuid() string {
	var id checkpoint.TopicID
	copy(id[:], r.take(len(id)))
	return id.String()
}

// uvarint is a varint of at most 32 bits.
func (r *fieldReader) uvarint() uint32 {
	v, n := binary.Uvarint(r.b)
	if r.err != nil || n <= 0 || v > 1<<32-1 {
		r.fail(errFieldShort)
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

// compactLength is a length plus one; ok is false for null.
func (r *fieldReader) compactLength() (n int, ok bool) {
	v := r.uvarint()
	if v == 0 {
		return 0, false
	}
	if int64(v)-1 > int64(len(r.b)) {
		r.fail(errFieldShort)
		return 0, true
	}
	return int(v) - 1, true
}

// compactBytes gives nil for null.
func (r *fieldReader) compactBytes() []byte {
	n, ok := r.compactLength()
	if !ok || r.err != nil {
		return nil
	}
	if b := r.take(n); b != nil {
		return b
	}
	return []byte{}
}

func (r *fieldReader) nullableCompactString() *string {
	n, ok := r.compactLength()
	if !ok || r.err != nil {
		return nil
	}
	s := string(r.take(n))
	return &s
}

func (r *fieldReader) compactString() string {
	if s := r.nullableCompactString(); s != nil {
		return *s
	}
	r.fail(errFieldNull)
	return ""
}

// compactArray reads an array element by element, nil for null. An element
// has at least one byte.
func compactArray[T any](r *fieldReader, element func(*fieldReader) T) []T {
	n, ok := r.compactLength()
	if !ok || r.err != nil {
		return nil
	}
	all := []T{}
	for range n {
		v := element(r)
		if r.err != nil {
			return nil
		}
		all = append(all, v)
	}
	return all
}

// tags reads the tagged fields at the end of a structure. each gets those it
// may know; whatever it leaves unread is skipped. nil skips all.
func (r *fieldReader) tags(each func(tag uint32, field *fieldReader)) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag, size := r.uvarint(), r.uvarint()
		if int64(size) > int64(len(r.b)) {
			r.fail(errFieldShort)
			return
		}
		field := fieldReader{b: r.take(int(size))}
		if each == nil {
			continue
		}
		if each(tag, &field); field.err != nil {
			r.fail(field.err)
		}
	}
}
