package journal

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/vfs"
)

const (
	// gatherBytesMax is the size below which a piece is copied beside its
	// neighbours instead of being a buffer of its own in the system call.
	gatherBytesMax = 4 << 10
	// gatherBufferBytes is the memory for such pieces.
	gatherBufferBytes = 256 << 10
	// vectorsMax is how many buffers go into one system call.
	vectorsMax = 1024
)

var zeroBlock [blockBytes]byte

// runWriter writes one run after the other, with few system calls and, after
// its first runs, without allocating. It keeps what it is given until flush.
type runWriter struct {
	// Set by newRunWriter.
	file vfs.File

	pos     int64 // where the next bytes go
	hash    xxhash.Digest
	buffer  []byte   // gathered pieces, never grown
	open    int      // from here the buffer is not yet in vectors nor hashed
	vectors [][]byte // not yet written
}

func newRunWriter(file vfs.File) *runWriter {
	return &runWriter{file: file, buffer: make([]byte, 0, gatherBufferBytes), vectors: make([][]byte, 0, vectorsMax)}
}

// begin starts a run at the position in its header.
func (w *runWriter) begin(h *runHeader) error {
	w.pos = h.pos
	w.hash.Reset()
	b, err := w.room(runHeaderBytes)
	if err == nil {
		h.put(b)
	}
	return err
}

// frame writes the header of a frame.
func (w *runWriter) frame(f *Frame) error {
	b, err := w.room(frameHeaderBytes)
	if err == nil {
		f.put(b)
	}
	return err
}

// add writes a piece, which must not change before flush.
func (w *runWriter) add(p []byte) error {
	if len(p) < gatherBytesMax {
		b, err := w.room(len(p))
		copy(b, p)
		return err
	}
	w.close()
	if len(w.vectors) >= vectorsMax-1 { // one more for what follows it
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.hash.Write(p)
	w.vectors = append(w.vectors, p)
	return nil
}

// end writes the sum, which it returns, and zeros to the block boundary, and
// brings all to the file.
func (w *runWriter) end(h *runHeader) (sum uint64, err error) {
	w.close()
	sum = w.hash.Sum64()
	b, err := w.room(runTrailerBytes)
	if err != nil {
		return 0, err
	}
	binary.LittleEndian.PutUint64(b, sum)
	if err := w.add(zeroBlock[:padded(h.size)-h.size]); err != nil {
		return 0, err
	}
	return sum, w.flush()
}

// room gives n < gatherBytesMax bytes of the buffer to fill.
func (w *runWriter) room(n int) ([]byte, error) {
	if len(w.buffer)+n > cap(w.buffer) {
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
	at := len(w.buffer)
	w.buffer = w.buffer[:at+n]
	return w.buffer[at:], nil
}

// close makes a vector of what was gathered.
func (w *runWriter) close() {
	if p := w.buffer[w.open:]; len(p) > 0 {
		w.hash.Write(p)
		w.vectors = append(w.vectors, p)
		w.open = len(w.buffer)
	}
}

// flush brings everything to the file. The pieces that were added are free.
func (w *runWriter) flush() error {
	w.close()
	var err error
	if len(w.vectors) > 0 {
		var n int
		n, err = w.file.WriteVAt(w.vectors, w.pos)
		w.pos += int64(n)
	}
	clear(w.vectors)
	w.vectors, w.buffer, w.open = w.vectors[:0], w.buffer[:0], 0
	return err
}
