package journal

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

// waitingLog is a member as a log is one: publishing under a lock, waiters that
// follow the protocol of Journal.Waiting, from any goroutine. Each batch says
// in its bytes whose it is.
type waitingLog struct {
	t      testing.TB
	j      *Journal
	handle *Handle
	id     int32
	memory []byte // as long as it ever gets

	appendMu sync.Mutex
	next     int64

	mu      sync.Mutex // guards all below
	durable int64
	failed  error
	waiters map[chan struct{}]int64
}

const waitingBatch = 64

func join(t testing.TB, j *Journal, id int32, batches int) *waitingLog {
	l := &waitingLog{t: t, j: j, id: id, memory: make([]byte, waitingBatch*batches), waiters: map[chan struct{}]int64{}}
	l.handle = j.Join([16]byte{byte(id)}, id, l)
	return l
}

func (l *waitingLog) Pieces(dst [][]byte, _, from, to int64) [][]byte {
	return append(dst, l.memory[from:to:to])
}

func (l *waitingLog) Durable(_, _, next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next <= l.durable {
		l.t.Errorf("durable goes from %d to %d", l.durable, next)
	}
	l.durable = next
	for ready, offset := range l.waiters {
		if offset <= next {
			delete(l.waiters, ready)
			close(ready)
		}
	}
}

func (l *waitingLog) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	for ready := range l.waiters {
		delete(l.waiters, ready)
		close(ready)
	}
}

// publish appends one batch and gives the offset behind it. published is
// called with the lock held, directly afterwards.
func (l *waitingLog) publish(stamp uint64, published func()) int64 {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	pos := l.next * waitingBatch
	b := l.memory[pos:]
	binary.LittleEndian.PutUint32(b, uint32(l.id))
	binary.LittleEndian.PutUint64(b[8:], uint64(l.next))
	binary.LittleEndian.PutUint64(b[16:], stamp)
	l.next++
	l.handle.Publish(0, pos, pos+waitingBatch, l.next-1, l.next)
	if published != nil {
		published()
	}
	return l.next
}

// wait is what a log does for a caller who waits for an offset.
func (l *waitingLog) wait(offset int64) error {
	for {
		ready := make(chan struct{})
		l.mu.Lock()
		l.waiters[ready] = offset
		l.mu.Unlock()
		l.j.Waiting(1)
		l.mu.Lock()
		durable, failed := l.durable >= offset, l.failed
		l.mu.Unlock()
		if !durable && failed == nil && !l.j.TryFlush() {
			<-ready
		}
		l.j.Waiting(-1)
		l.mu.Lock()
		delete(l.waiters, ready)
		durable, failed = l.durable >= offset, l.failed
		l.mu.Unlock()
		if durable || failed != nil {
			return failed
		}
	}
}

// batches checks the bytes of all frames of the logs and calls do with each
// batch of one.
func batches(t testing.TB, c *Contents, do func(id int32, offset int64, stamp uint64)) {
	t.Helper()
	for _, f := range c.Frames {
		if f.Kind != KindBytes {
			continue
		}
		b := make([]byte, f.Length)
		if n, err := c.ReadFrame(f, b, 0); n != len(b) {
			t.Fatal(err)
		}
		for offset := f.First; offset < f.Next; offset, b = offset+1, b[waitingBatch:] {
			id, o := int32(binary.LittleEndian.Uint32(b)), int64(binary.LittleEndian.Uint64(b[8:]))
			if id != f.Partition || o != offset {
				t.Fatalf("offset %d of partition %d holds offset %d of %d", offset, f.Partition, o, id)
			}
			do(id, offset, binary.LittleEndian.Uint64(b[16:]))
		}
	}
}

// nullFile takes every write and keeps none.
type nullFile struct{ vfs.File }

func (nullFile) WriteVAt(bufs [][]byte, _ int64) (n int, _ error) {
	for _, b := range bufs {
		n += len(b)
	}
	return n, nil
}

func (nullFile) Datasync() error { return nil }
