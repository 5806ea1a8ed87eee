package index

import (
	"encoding/binary"
	"fmt"
	"math"
)

// TimeEntrySize is the size of an entry of .timeindex, in bytes.
const TimeEntrySize = 12

const (
	posTimeTimestamp = 0
	posTimeRelative  = 8
)

// TimeEntry says that no record of the segment up to Offset has a larger
// timestamp (in ms) than Timestamp.
type TimeEntry struct{ Timestamp, Offset int64 }

// noTimestamp stands before the first entry: records without a timestamp get
// none.
const noTimestamp = -1

// Time is the time index of one segment: the running maximum of its
// timestamps, by which a search by time finds where to start scanning.
// MaybeAppend is for one goroutine at a time, everything else for any number.
type Time struct {
	base int64
	file file
}

// NewTime makes an empty index, which grows, for the segment with that base
// offset.
func NewTime(base int64) *Time {
	return &Time{base: base, file: file{entrySize: TimeEntrySize}}
}

// ViewTime makes an index over the bytes of a finished file, without copying
// them: b must stay as it is while the index is in use. It looks at the first
// and the last entry only (Check looks at all); a file that is not a whole
// number of entries, or ends in the zeros of a crashed one, is a *FormatError.
func ViewTime(base int64, b []byte) (*Time, error) {
	if odd := len(b) % TimeEntrySize; odd != 0 {
		return nil, &FormatError{kindTime, int64(len(b) - odd), fmt.Sprintf("%d bytes behind the last entry", odd)}
	}
	x := NewTime(base)
	x.file.seal(b)
	n := x.Len()
	if n == 0 {
		return x, nil
	}
	if err := x.check(x.start(), 0); err != nil {
		return nil, err
	}
	if n > 1 {
		if err := x.check(x.At(0), n-1); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// LoadTime makes an index that grows from the bytes of a file whose end is not
// known: that of an active segment, or one left by a crash. It takes entries
// from the front while they are in order and below endOffset, and leaves out
// the rest. It copies: b is free afterwards.
//
// Unlike in an offset index, a first slot of zeros can be an entry: timestamp
// 0 at the base offset. It is taken for one unless more zeros follow it, as
// they do in a file allocated ahead. An entry lost by that costs nothing: a
// search starts at the base offset without it too.
func LoadTime(base int64, b []byte, endOffset int64) *Time {
	x := NewTime(base)
	if len(b) >= 2*TimeEntrySize && [2 * TimeEntrySize]byte(b) == [2 * TimeEntrySize]byte{} {
		return x
	}
	for ; len(b) >= TimeEntrySize; b = b[TimeEntrySize:] {
		e := decodeTime(base, b)
		if e.Offset >= endOffset {
			break
		}
		if added, err := x.MaybeAppend(e); !added || err != nil {
			break
		}
	}
	return x
}

func (x *Time) start() TimeEntry { return TimeEntry{Timestamp: noTimestamp, Offset: x.base} }

// MaybeAppend adds an entry behind the last one if its timestamp is larger, or
// not negative if there is none yet; it tells whether it did. The offset must
// then not be below that of the last entry (ErrUnordered), and must fit the
// file (ErrOverflow, also for one below the base). A view refuses with
// ErrReadOnly.
func (x *Time) MaybeAppend(e TimeEntry) (bool, error) {
	if x.file.sealed {
		return false, ErrReadOnly
	}
	last, ok := x.Last()
	if !ok {
		last = x.start()
	}
	if e.Timestamp <= last.Timestamp {
		return false, nil
	}
	r, ok := relative(x.base, e.Offset)
	if !ok {
		return false, fmt.Errorf("append offset %d to the time index of segment %d: %w", e.Offset, x.base, ErrOverflow)
	}
	if e.Offset < last.Offset {
		return false, fmt.Errorf("append timestamp %d of offset %d behind offset %d: %w", e.Timestamp, e.Offset, last.Offset, ErrUnordered)
	}
	b := x.file.slot()
	binary.BigEndian.PutUint64(b[posTimeTimestamp:], uint64(e.Timestamp))
	binary.BigEndian.PutUint32(b[posTimeRelative:], uint32(r))
	x.file.publish()
	return true, nil
}

// Lookup is the entry with the greatest timestamp that is not above timestamp;
// timestamp −1 at the base offset if there is none. Every record with a larger
// timestamp than the entry has a larger offset than it.
func (x *Time) Lookup(timestamp int64) TimeEntry {
	i := x.Len()
	if timestamp < math.MaxInt64 {
		i = x.file.searchInt64(i, posTimeTimestamp, timestamp+1)
	}
	if i == 0 {
		return x.start()
	}
	return x.At(i - 1)
}

// Len is the number of entries.
func (x *Time) Len() int { return x.file.len() }

// At is entry i, counted from 0; i must be below a Len seen before.
func (x *Time) At(i int) TimeEntry { return decodeTime(x.base, x.file.entry(i)) }

// Last is the last entry, false if there is none.
func (x *Time) Last() (TimeEntry, bool) {
	n := x.Len()
	if n == 0 {
		return TimeEntry{}, false
	}
	return x.At(n - 1), true
}

// Truncated is a new index, which grows, with the entries below offset.
func (x *Time) Truncated(offset int64) *Time {
	return LoadTime(x.base, x.AppendTo(nil, 0), offset)
}

// AppendTo appends the file's bytes of the entries [from, Len) to dst.
func (x *Time) AppendTo(dst []byte, from int) []byte { return x.file.appendTo(dst, from) }

// Check looks at every entry: a *FormatError names the first that is out of
// order. Only a view can have one.
func (x *Time) Check() error {
	last := x.start()
	for i := range x.Len() {
		if err := x.check(last, i); err != nil {
			return err
		}
		last = x.At(i)
	}
	return nil
}

// check tells whether entry i may stand somewhere behind the entry before.
func (x *Time) check(before TimeEntry, i int) error {
	e := x.At(i)
	if e.Timestamp > before.Timestamp && e.Offset >= before.Offset {
		return nil
	}
	return &FormatError{kindTime, int64(i) * TimeEntrySize,
		fmt.Sprintf("timestamp %d of offset %d behind %d of %d", e.Timestamp, e.Offset, before.Timestamp, before.Offset)}
}

func decodeTime(base int64, b []byte) TimeEntry {
	return TimeEntry{
		Timestamp: int64(binary.BigEndian.Uint64(b[posTimeTimestamp:])),
		Offset:    base + int64(int32(binary.BigEndian.Uint32(b[posTimeRelative:]))),
	}
}
