package index

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

// The memory form takes chunks of 16, 32, 64 … 4096, 4096, 4096 … entries:
// small at first, and never so large that making one delays an append.
const (
	chunkBitsMin = 4
	chunkBitsMax = 12
)

// file is a list of entries of one size, as bytes: chunks that grow, or a view
// over somebody else's bytes.
//
// One goroutine appends, any number read, and there is no lock. The writer
// fills the slot behind the last entry, stores a new directory first if the
// slot lies in a new chunk, and stores n last. A reader loads n first and then
// touches only entries below what it loaded. Both stores and loads of n are
// atomic, so whatever the writer did before its store of n happens before what
// the reader does after its load: the bytes of the entries, and a directory
// that has their chunk. A directory loaded later may be a newer one; it still
// has the same chunks at the same places, for chunks never move and entries
// below n are never written again.
type file struct {
	// Set when made.
	entrySize int
	sealed    bool
	view      []byte // sealed: the entries, and perhaps a torn one behind them

	// Invariant: the directory has a chunk for every entry below n.
	n         atomic.Int64             // entries published
	directory atomic.Pointer[[][]byte] // memory form: the chunks; nil: none yet
}

// seal makes an empty file a view over the whole entries of b.
func (f *file) seal(b []byte) {
	f.sealed = true
	f.view = b
	f.n.Store(int64(len(b) / f.entrySize))
}

// len is the number of entries that the caller may touch.
func (f *file) len() int { return int(f.n.Load()) }

// entry is the bytes of entry i, which must be below a length loaded before.
func (f *file) entry(i int) []byte {
	if f.sealed {
		return f.view[i*f.entrySize : (i+1)*f.entrySize]
	}
	k, j := locate(i)
	chunk := (*f.directory.Load())[k]
	return chunk[j*f.entrySize : (j+1)*f.entrySize]
}

// locate gives the chunk of an entry and its place in that chunk. With the
// size of the first chunk added, the highest bit of an index tells its chunk.
func locate(i int) (chunk, place int) {
	x := uint(i) + 1<<chunkBitsMin
	if x >= 1<<chunkBitsMax {
		return int(x>>chunkBitsMax) + chunkBitsMax - chunkBitsMin - 1, int(x & (1<<chunkBitsMax - 1))
	}
	k := bits.Len(x) - 1 - chunkBitsMin
	return k, int(x - 1<<(k+chunkBitsMin))
}

// slot is the room for the next entry, which no reader sees until publish.
// For the writer only.
func (f *file) slot() []byte {
	k, j := locate(f.len())
	var chunks [][]byte
	if d := f.directory.Load(); d != nil {
		chunks = *d
	}
	if k == len(chunks) {
		// A reader may hold the old directory: it is copied, not extended.
		larger := make([][]byte, k+1)
		copy(larger, chunks)
		larger[k] = make([]byte, f.entrySize<<min(k+chunkBitsMin, chunkBitsMax))
		f.directory.Store(&larger)
		chunks = larger
	}
	return chunks[k][j*f.entrySize : (j+1)*f.entrySize]
}

// publish makes the entry in the slot visible. For the writer only.
func (f *file) publish() { f.n.Add(1) }

// appendTo appends the bytes of the entries from number from on to dst.
func (f *file) appendTo(dst []byte, from int) []byte {
	n := f.len()
	if from >= n {
		return dst
	}
	if f.sealed {
		return append(dst, f.view[from*f.entrySize:n*f.entrySize]...)
	}
	chunks := *f.directory.Load()
	for from < n {
		k, j := locate(from)
		end := min(len(chunks[k]), (j+n-from)*f.entrySize)
		dst = append(dst, chunks[k][j*f.entrySize:end]...)
		from += end/f.entrySize - j
	}
	return dst
}

// searchInt32 finds, among the first n entries, the first one whose 32-bit
// field at byte field is at least target; n if there is none.
func (f *file) searchInt32(n, field int, target int64) int {
	lo, hi := 0, n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if int64(int32(binary.BigEndian.Uint32(f.entry(mid)[field:]))) < target {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// searchInt64 is searchInt32 for a field of 64 bits.
func (f *file) searchInt64(n, field int, target int64) int {
	lo, hi := 0, n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if int64(binary.BigEndian.Uint64(f.entry(mid)[field:])) < target {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// relative is the stored form of an offset, false if it has none.
func relative(base, offset int64) (int32, bool) {
	r := offset - base
	if offset < base || r < 0 || r > 1<<31-1 {
		return 0, false
	}
	return int32(r), true
}
