package log

import (
	"io"
	"iter"
	"sync"

	"github.com/valyala/bytebufferpool"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
)

// Fetched is the answer to a read: whole batches, as stored. Everything in it
// is valid until Close, which must be called once; not safe for concurrent use.
type Fetched struct {
	// Frontiers as they were when the read began.
	Frontiers
	// Aborted are, for read_committed, the aborted transactions that overlap
	// what was answered, ordered by the offset of their marker: batches of
	// such a producer from First to its ABORT marker are to be left out.
	Aborted []index.AbortedTxn

	from, next int64
	bytes      []byte
	buffer     *bytebufferpool.ByteBuffer
}

var (
	fetchedPool sync.Pool
	readBuffers bytebufferpool.Pool
)

func newFetched() *Fetched {
	if f, ok := fetchedPool.Get().(*Fetched); ok {
		return f
	}
	return &Fetched{}
}

// grow gives a buffer of n bytes, whose content is undefined.
func (f *Fetched) grow(n int) []byte {
	if f.buffer == nil {
		f.buffer = readBuffers.Get()
	}
	if cap(f.buffer.B) < n {
		f.buffer.B = make([]byte, n)
	}
	f.buffer.B = f.buffer.B[:n]
	return f.buffer.B
}

// Bytes are the batches, one behind the other.
func (f *Fetched) Bytes() []byte { return f.bytes }

// Batches iterates over the batches.
func (f *Fetched) Batches() iter.Seq[batch.Batch] {
	return func(yield func(batch.Batch) bool) {
		for rest := f.bytes; len(rest) > 0; {
			b, err := batch.Parse(rest)
			if err != nil || !yield(b) {
				return
			}
			rest = rest[len(b):]
		}
	}
}

// NextOffset is where to read on: behind the last batch, or the asked offset
// if nothing was answered.
func (f *Fetched) NextOffset() int64 { return f.next }

// WriteTo writes the batches.
func (f *Fetched) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(f.bytes)
	return int64(n), err
}

// Close gives the memory back.
func (f *Fetched) Close() {
	if f.buffer != nil {
		readBuffers.Put(f.buffer)
	}
	*f = Fetched{Aborted: f.Aborted[:0]}
	fetchedPool.Put(f)
}
