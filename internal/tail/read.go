package tail

import (
	"math"

	"github.com/oncelog/oncelog/internal/invariant"
)

// copyBytesMax is how much a reader copies under one pin: memory that is given
// back waits for no more than that.
const copyBytesMax = 64 << 10

// ReadAt is io.ReaderAt over memory and file. It gives what was put or written
// below the position that the caller knew to be published when it called; above
// that, whatever is there. io.EOF comes at the end of both, or of the file alone
// where a chunk does not go on behind it. It takes no lock and allocates nothing.
func (t *Tail) ReadAt(p []byte, pos int64) (int, error) {
	if len(p) == 0 || pos < 0 {
		return t.file.ReadAt(p, pos)
	}
	for n := 0; n < len(p); {
		at := pos + int64(n)
		c, next := find(*t.chunks.Load(), at)
		if c != nil {
			// Nothing, if it was dropped just now: then it was taken out of
			// the list before, and what it had is in the file.
			n += c.read(p[n:], at)
			continue
		}
		part := p[n:]
		part = part[:min(int64(len(part)), next-at)]
		step, err := t.file.ReadAt(part, at)
		n += step
		if step < len(part) {
			return n, err
		}
	}
	return len(p), nil
}

// find gives the chunk that has the byte at pos. If none has, next is where the
// first chunk behind pos begins.
func find(list []*Chunk, pos int64) (c *Chunk, next int64) {
	next = math.MaxInt64
	for i := len(list) - 1; i >= 0; i-- {
		c := list[i]
		if c.start > pos {
			next = c.start
			continue
		}
		if pos < c.end() {
			return c, next
		}
		break
	}
	return nil, next
}

// read copies what the chunk has from pos on, up to copyBytesMax. It copies
// nothing if the chunk is gone or was cut.
func (c *Chunk) read(p []byte, pos int64) int {
	if !c.pin() {
		return 0
	}
	n := 0
	if from, to := pos-c.start, c.filled.Load(); from < to {
		n = copy(p[:min(len(p), copyBytesMax)], c.mem[from:to])
	}
	c.unpin()
	return n
}

// Pieces appends to dst the memory that holds the bytes [from, to), all of which
// must be in chunks. The memory is the tail's: it is valid, and stays as it is,
// until a WriteBack is given a position above from, or until Forget, Cut or
// Close. It allocates nothing if dst has room.
func (t *Tail) Pieces(dst [][]byte, from, to int64) [][]byte {
	list := *t.chunks.Load()
	for from < to {
		c, _ := find(list, from)
		if c == nil {
			invariant.Check(false, "byte %d of [%d, %d) is not in memory", from, from, to)
		}
		end := min(to, c.end())
		dst = append(dst, c.mem[from-c.start:end-c.start:end-c.start])
		from = end
	}
	return dst
}
