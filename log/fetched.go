package log

import (
	"io"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/valyala/bytebufferpool"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
)

// Fetched is the answer to a read: whole batches, as stored. Everything in it
// is valid until Close; not safe for concurrent use. A nil one holds nothing.
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

	// lease counts answers that this memory served, and their ends: it is odd
	// while one is open.
	lease atomic.Uint64
}

var (
	fetchedPool sync.Pool
	readBuffers bytebufferpool.Pool
)

func newFetched() *Fetched {
	f, ok := fetchedPool.Get().(*Fetched)
	if !ok {
		f = &Fetched{}
	}
	f.lease.Add(1)
	return f
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
func (f *Fetched) Bytes() []byte {
	if f == nil {
		return nil
	}
	return f.bytes
}

// Batches iterates over the batches.
func (f *Fetched) Batches() iter.Seq[batch.Batch] {
	return func(yield func(batch.Batch) bool) {
		for rest := f.Bytes(); len(rest) > 0; {
			b, err := batch.Parse(rest)
			if err != nil || !yield(b) {
				return
			}
			rest = rest[len(b):]
		}
	}
}

// NextOffset is where to read on: behind the last batch, or the asked offset
// if nothing was answered; -1 of a nil one.
func (f *Fetched) NextOffset() int64 {
	if f == nil {
		return -1
	}
	return f.next
}

// WriteTo writes the batches.
func (f *Fetched) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(f.Bytes())
	return int64(n), err
}

// Close gives the memory back, for another answer: f is not to be touched
// afterwards. Whoever keeps f, or a copy of what holds it, closes it by its
// Lease.
func (f *Fetched) Close() { f.CloseLease(f.Lease()) }

// Lease is what CloseLease takes. No two answers have the same in one memory.
func (f *Fetched) Lease() uint64 {
	if f == nil {
		return 0
	}
	return f.lease.Load()
}

// CloseLease is Close, but does nothing if the answer that had this lease was
// closed before, though the memory may serve another one by now. It may be
// called any number of times, concurrently too.
func (f *Fetched) CloseLease(lease uint64) {
	if lease%2 == 0 || !f.lease.CompareAndSwap(lease, lease+1) {
		return
	}
	if f.buffer != nil {
		readBuffers.Put(f.buffer)
	}
	f.Frontiers, f.Aborted = Frontiers{}, f.Aborted[:0]
	f.from, f.next, f.bytes, f.buffer = 0, 0, nil, nil
	fetchedPool.Put(f)
}
