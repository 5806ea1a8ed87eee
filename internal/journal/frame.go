package journal

import "encoding/binary"

// Kind says what a frame stands for.
type Kind uint8

const (
	// KindBytes has bytes of a segment with it.
	KindBytes Kind = 1 + iota
	// KindReference stands for a batch that was synced in its segment before:
	// position, length and CRC, no bytes.
	KindReference
	// KindTruncation removes what frames before it hold at or above its offset.
	KindTruncation
)

// String is the kind in one word.
func (k Kind) String() string {
	switch k {
	case KindBytes:
		return "bytes"
	case KindReference:
		return "reference"
	case KindTruncation:
		return "truncation"
	}
	return "unknown"
}

// Frame is one entry of a run.
type Frame struct {
	Topic     [16]byte
	Partition int32
	Kind      Kind
	Segment   int64  // base offset of the segment
	Pos       int64  // byte position in the segment; of a truncation: where the segment ends
	Length    int64  // bytes in the segment; 0 for a truncation
	First     int64  // offset of the first record; of a truncation: the offset
	Next      int64  // offset behind the last record; of a truncation: the offset
	CRC       uint32 // of a reference, as the appender gave it

	at int64 // where the frame's bytes begin in the file it was read from
}

// Key names a partition: what frames are sorted by.
type Key struct {
	Topic     [16]byte
	Partition int32
}

// Key gives the partition of the frame.
func (f *Frame) Key() Key { return Key{f.Topic, f.Partition} }

// carried is how many bytes follow the frame's header in the run.
func (f *Frame) carried() int64 {
	if f.Kind == KindBytes {
		return f.Length
	}
	return 0
}

// shorten cuts a frame across the offset, which stands at pos in the segment.
// False: it does not stand inside these bytes.
func (f *Frame) shorten(offset, segment, pos int64) bool {
	if f.Kind != KindBytes || segment != f.Segment || pos <= f.Pos || pos >= f.Pos+f.Length {
		return false
	}
	f.Length, f.Next = pos-f.Pos, offset
	return true
}

const frameHeaderBytes = 72

// put encodes the header of the frame into b.
func (f *Frame) put(b []byte) {
	_ = b[frameHeaderBytes-1]
	copy(b, f.Topic[:])
	binary.LittleEndian.PutUint32(b[16:], uint32(f.Partition))
	binary.LittleEndian.PutUint32(b[20:], uint32(f.Kind))
	binary.LittleEndian.PutUint64(b[24:], uint64(f.Segment))
	binary.LittleEndian.PutUint64(b[32:], uint64(f.Pos))
	binary.LittleEndian.PutUint64(b[40:], uint64(f.Length))
	binary.LittleEndian.PutUint64(b[48:], uint64(f.First))
	binary.LittleEndian.PutUint64(b[56:], uint64(f.Next))
	binary.LittleEndian.PutUint64(b[64:], uint64(f.CRC))
}

// parseFrame decodes the header of a frame and tells whether it makes sense.
func parseFrame(b []byte) (Frame, bool) {
	_ = b[frameHeaderBytes-1]
	f := Frame{
		Topic:     [16]byte(b[:16]),
		Partition: int32(binary.LittleEndian.Uint32(b[16:])),
		Kind:      Kind(b[20]),
		Segment:   int64(binary.LittleEndian.Uint64(b[24:])),
		Pos:       int64(binary.LittleEndian.Uint64(b[32:])),
		Length:    int64(binary.LittleEndian.Uint64(b[40:])),
		First:     int64(binary.LittleEndian.Uint64(b[48:])),
		Next:      int64(binary.LittleEndian.Uint64(b[56:])),
		CRC:       binary.LittleEndian.Uint32(b[64:]),
	}
	return f, f.sane()
}

// sane is checked on both sides: before a frame is queued and after it is read.
func (f *Frame) sane() bool {
	if f.Partition < 0 || f.Segment < 0 || f.Pos < 0 || f.First < f.Segment || f.Length < 0 || f.Pos+f.Length < f.Pos {
		return false
	}
	switch f.Kind {
	case KindBytes, KindReference:
		return f.Length > 0 && f.Next > f.First
	case KindTruncation:
		return f.Length == 0 && f.Next == f.First
	}
	return false
}
