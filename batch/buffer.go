package batch

import "sync"

// buffer is memory for decompressed records and for records to be compressed.
// A pool that learns sizes (bytebufferpool) was measured and drops the largest
// buffers of a mix of codecs again and again; here only giants are dropped.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// bufferKeepMax is the capacity in bytes up to which a buffer goes back: a rare
// giant should not stay.
const bufferKeepMax = 8 << 20

func getBuffer() *buffer { return buffers.Get().(*buffer) }

func putBuffer(b *buffer) {
	if cap(b.b) <= bufferKeepMax {
		buffers.Put(b)
	}
}

// grow returns dst with room for at least n more bytes behind its length. It
// doubles, so that growing bit by bit costs little, but not past max bytes of
// capacity unless n needs it.
func grow(dst []byte, n, max int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	size := len(dst) + n
	if size < max {
		size = min(2*size, max)
	}
	bigger := make([]byte, len(dst), size)
	copy(bigger, dst)
	return bigger
}
