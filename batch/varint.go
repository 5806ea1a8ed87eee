package batch

// Zig-zag varints. The decoders take what Kafka's take: an encoding longer
// than needed, and bits that do not fit in the last byte, which are dropped.
// They refuse only an encoding that goes on after 5 bytes (10 for 64 bits) or
// past the end of b. On refusal the returned position is −1.

const (
	varintMax  = 5  // bytes of a varint
	varlongMax = 10 // bytes of a varlong
)

// short decodes the one-byte number at b[pos:], which nearly all fields are.
// It is small enough to be inlined where that counts, as varint is not.
func short(b []byte, pos int) (v int32, ok bool) {
	if uint(pos) < uint(len(b)) && b[pos] < 0x80 {
		return int32(b[pos]>>1) ^ -int32(b[pos]&1), true
	}
	return 0, false
}

// varint decodes the 32-bit number at b[pos:].
func varint(b []byte, pos int) (v int32, next int) {
	if v, ok := short(b, pos); ok {
		return v, pos + 1
	}
	return varintLong(b, pos)
}

//go:noinline
func varintLong(b []byte, pos int) (int32, int) {
	// Two bytes: lengths from 64 to 8191.
	if pos+1 < len(b) && b[pos+1] < 0x80 {
		u := uint32(b[pos]&0x7f) | uint32(b[pos+1])<<7
		return int32(u>>1) ^ -int32(u&1), pos + 2
	}
	var u uint32
	for i := range varintMax {
		if pos+i >= len(b) {
			break
		}
		c := b[pos+i]
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), pos + i + 1
		}
	}
	return 0, -1
}

// varlong decodes the 64-bit number at b[pos:].
func varlong(b []byte, pos int) (v int64, next int) {
	if v, ok := short(b, pos); ok {
		return int64(v), pos + 1
	}
	return varlongLong(b, pos)
}

//go:noinline
func varlongLong(b []byte, pos int) (int64, int) {
	var u uint64
	for i := range varlongMax {
		if pos+i >= len(b) {
			break
		}
		c := b[pos+i]
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), pos + i + 1
		}
	}
	return 0, -1
}

// appendVarlong appends v, which for numbers of 32 bits gives the same bytes
// as a varint.
func appendVarlong(dst []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varlongSize is how many bytes appendVarlong writes.
func varlongSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
