package tail

import "fmt"

// pieceBytes is the largest write of a WriteBack. Writes end at multiples of it
// in the file where they can.
const pieceBytes = 256 << 10

// pageBytes is what a kernel caches and writes as one.
const pageBytes = 4 << 10

// WriteBack writes into the file what lies below position below and is not
// there yet, unless that is fewer than least bytes; then it drops the chunks
// that are closed and written whole. With least above 0 the last incomplete page
// of the current chunk waits for a later call. What is written is in the page
// cache on return, not synced.
//
// written is how many bytes it wrote. An error is that of the file and final:
// every later call gives it again and writes nothing, and the bytes stay in
// memory. Writer only.
func (t *Tail) WriteBack(below int64, least int) (written int64, err error) {
	if t.failed != nil {
		return 0, t.failed
	}
	if least > 0 && t.Unwritten(below) < int64(least) {
		t.dropDrained()
		return 0, nil
	}
	for _, c := range *t.chunks.Load() {
		n, err := t.writeChunk(c, below, least > 0)
		written += n
		if err != nil {
			t.failed = err
			return written, err
		}
	}
	t.dropDrained()
	return written, nil
}

// writeChunk writes what is due of one chunk.
func (t *Tail) writeChunk(c *Chunk, below int64, wholePages bool) (int64, error) {
	// Looked at first: of a closed chunk, end is final.
	closed := c.closed.Load()
	from, to := c.start+c.written.Load(), min(c.end(), below)
	if wholePages && !closed {
		to -= to % pageBytes
	}
	if from >= to || !c.pin() {
		return 0, nil
	}
	defer c.unpin()
	first := from
	for from < to {
		end := min(to, from-from%pieceBytes+pieceBytes)
		if _, err := t.file.WriteAt(c.mem[from-c.start:end-c.start], from); err != nil {
			return from - first, fmt.Errorf("write back %d bytes at %d: %w", end-from, from, err)
		}
		from = end
		c.written.Store(from - c.start)
	}
	return from - first, nil
}

// Unwritten is how many bytes below a position are in memory only.
func (t *Tail) Unwritten(below int64) int64 {
	var total int64
	for _, c := range *t.chunks.Load() {
		total += max(0, min(c.end(), below)-c.start-c.written.Load())
	}
	return total
}
