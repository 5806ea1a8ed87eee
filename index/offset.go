package index

import (
	"encoding/binary"
	"fmt"
	"math"
)

// OffsetEntrySize is the size of an entry of .index, in bytes.
const OffsetEntrySize = 8

const (
	posOffsetRelative = 0
	posOffsetPos      = 4
)

// OffsetEntry says that the batch with the last offset Offset starts at byte
// Pos of the segment file.
type OffsetEntry struct{ Offset, Pos int64 }

// Offset is the offset index of one segment: a sparse list of batches, by
// which a read finds where to start scanning. Append is for one goroutine at a
// time, everything else for any number.
type Offset struct {
	base int64
	file file
}

// NewOffset makes an empty index, which grows, for the segment with that base
// offset.
func NewOffset(base int64) *Offset {
	return &Offset{base: base, file: file{entrySize: OffsetEntrySize}}
}

// ViewOffset makes an index over the bytes of a finished file, without copying
// them: b must stay as it is while the index is in use. It looks at the first
// and the last entry only (Check looks at all); a file that is not a whole
// number of entries, or ends in the zeros of a crashed one, is a *FormatError.
func ViewOffset(base int64, b []byte) (*Offset, error) {
	if odd := len(b) % OffsetEntrySize; odd != 0 {
		return nil, &FormatError{kindOffset, int64(len(b) - odd), fmt.Sprintf("%d bytes behind the last entry", odd)}
	}
	x := NewOffset(base)
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

// LoadOffset makes an index that grows from the bytes of a file whose end is
// not known: that of an active segment, or one left by a crash. It takes
// entries from the front while they are in order, below endOffset and below
// endPos, and leaves out the rest. It copies: b is free afterwards.
func LoadOffset(base int64, b []byte, endOffset, endPos int64) *Offset {
	x := NewOffset(base)
	for ; len(b) >= OffsetEntrySize; b = b[OffsetEntrySize:] {
		e := decodeOffset(base, b)
		if e.Offset >= endOffset || e.Pos >= endPos || x.Append(e) != nil {
			break
		}
	}
	return x
}

// start is what stands before the first entry: a segment starts at position 0,
// and the batch there needs no entry. So the zeros at the end of a crashed
// file are never an entry.
func (x *Offset) start() OffsetEntry { return OffsetEntry{Offset: x.base - 1, Pos: 0} }

// Append adds an entry behind the last one. Its offset and its position must
// be larger than those of the last entry, and the position larger than 0:
// ErrUnordered. Both must fit the file: ErrOverflow, also for an offset below
// the base. A view refuses with ErrReadOnly.
func (x *Offset) Append(e OffsetEntry) error {
	if x.file.sealed {
		return ErrReadOnly
	}
	r, ok := relative(x.base, e.Offset)
	if !ok || e.Pos > math.MaxInt32 {
		return fmt.Errorf("append offset %d at %d to the offset index of segment %d: %w", e.Offset, e.Pos, x.base, ErrOverflow)
	}
	last, ok := x.Last()
	if !ok {
		last = x.start()
	}
	if e.Offset <= last.Offset || e.Pos <= last.Pos {
		return fmt.Errorf("append offset %d at %d behind offset %d at %d: %w", e.Offset, e.Pos, last.Offset, last.Pos, ErrUnordered)
	}
	b := x.file.slot()
	binary.BigEndian.PutUint32(b[posOffsetRelative:], uint32(r))
	binary.BigEndian.PutUint32(b[posOffsetPos:], uint32(e.Pos))
	x.file.publish()
	return nil
}

// Lookup is the entry with the greatest offset that is not above offset; the
// base offset at position 0 if there is none.
func (x *Offset) Lookup(offset int64) OffsetEntry {
	if offset < x.base {
		return OffsetEntry{Offset: x.base}
	}
	r := min(uint64(offset)-uint64(x.base), math.MaxInt32)
	i := x.file.searchInt32(x.Len(), posOffsetRelative, int64(r)+1)
	if i == 0 {
		return OffsetEntry{Offset: x.base}
	}
	return x.At(i - 1)
}

// AfterPos is the first entry whose position is greater than pos, false if
// there is none.
func (x *Offset) AfterPos(pos int64) (OffsetEntry, bool) {
	n := x.Len()
	i := x.file.searchInt32(n, posOffsetPos, min(pos, math.MaxInt32)+1)
	if i == n {
		return OffsetEntry{}, false
	}
	return x.At(i), true
}

// Len is the number of entries.
func (x *Offset) Len() int { return x.file.len() }

// At is entry i, counted from 0; i must be below a Len seen before.
func (x *Offset) At(i int) OffsetEntry { return decodeOffset(x.base, x.file.entry(i)) }

// Last is the last entry, false if there is none.
func (x *Offset) Last() (OffsetEntry, bool) {
	n := x.Len()
	if n == 0 {
		return OffsetEntry{}, false
	}
	return x.At(n - 1), true
}

// Truncated is a new index, which grows, with the entries below offset.
func (x *Offset) Truncated(offset int64) *Offset {
	return LoadOffset(x.base, x.AppendTo(nil, 0), offset, math.MaxInt64)
}

// AppendTo appends the file's bytes of the entries [from, Len) to dst.
func (x *Offset) AppendTo(dst []byte, from int) []byte { return x.file.appendTo(dst, from) }

// Check looks at every entry: a *FormatError names the first that is out of
// order. Only a view can have one.
func (x *Offset) Check() error {
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
func (x *Offset) check(before OffsetEntry, i int) error {
	e := x.At(i)
	if e.Offset > before.Offset && e.Pos > before.Pos {
		return nil
	}
	return &FormatError{kindOffset, int64(i) * OffsetEntrySize,
		fmt.Sprintf("offset %d at %d behind offset %d at %d", e.Offset, e.Pos, before.Offset, before.Pos)}
}

func decodeOffset(base int64, b []byte) OffsetEntry {
	return OffsetEntry{
		Offset: base + int64(int32(binary.BigEndian.Uint32(b[posOffsetRelative:]))),
		Pos:    int64(int32(binary.BigEndian.Uint32(b[posOffsetPos:]))),
	}
}
