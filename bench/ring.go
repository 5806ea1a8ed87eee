package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"

	"github.com/oncelog/oncelog/batch"
)

// Sizes of the prototype.
const (
	ringBytes      = 4 << 20
	ringWriteBytes = 256 << 10
)

// ring is the prototype: what is left of a log if everything is left out that
// makes it one. Appends are copied, with their checksum verified, into a ring
// in a mapped file that stays; one goroutine moves it to segment files, each
// preallocated, in writes of 256 KiB. A full ring makes the appender wait.
type ring struct {
	dir          string
	segmentBytes int64

	memory *mapped

	mu       sync.Mutex
	changed  sync.Cond // head, tail or err
	head     int64     // bytes appended
	tail     int64     // bytes moved to segments
	urgent   bool      // move what is there, however little
	closed   bool
	err      error
	moving   sync.WaitGroup
	segments int

	fileMu sync.Mutex // of file and pos; the mover holds it for one write
	file   *os.File
	pos    int64
}

func newRing(dir string, segmentBytes int64) *ring {
	r := &ring{dir: dir, segmentBytes: segmentBytes}
	r.changed.L = &r.mu
	return r
}

func (r *ring) open(ctx context.Context) (err error) {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	if r.memory, err = mapFile(filepath.Join(r.dir, "ring"), ringBytes); err != nil {
		return err
	}
	clear(r.memory.bytes)
	if err := r.roll(); err != nil {
		return err
	}
	r.moving.Go(func() {
		pprof.Do(ctx, pprof.Labels("stage", "prototype-mover"), func(context.Context) { r.move() })
	})
	return nil
}

func (r *ring) append(_ context.Context, _ writer, b batch.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.head+int64(len(b))-r.tail > ringBytes && r.err == nil {
		r.changed.Wait()
	}
	if r.err != nil {
		return r.err
	}
	at := r.head % ringBytes
	stored := r.memory.bytes[at:min(at+int64(len(b)), ringBytes)]
	n := copy(stored, b)
	if n < len(b) { // at the end of the ring: the floor has no such case
		copy(r.memory.bytes, b[n:])
		stored = b
	}
	if batch.CRC(batch.Batch(stored)) != b.CRC() {
		return fmt.Errorf("the batch at %d was not copied right", at)
	}
	before := r.head
	r.head += int64(len(b))
	if before/ringWriteBytes != r.head/ringWriteBytes {
		r.changed.Broadcast()
	}
	return nil
}

// move is the goroutine that empties the ring; close ends it.
func (r *ring) move() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for !r.closed && r.head-r.tail < ringWriteBytes && !(r.urgent && r.head > r.tail) {
			r.urgent = false
			r.changed.Broadcast()
			r.changed.Wait()
		}
		if r.closed {
			return
		}
		from := r.tail
		size := min(r.head-from, ringWriteBytes, ringBytes-from%ringBytes)
		r.mu.Unlock()
		err := r.write(r.memory.bytes[from%ringBytes : from%ringBytes+size])
		r.mu.Lock()
		r.tail += size
		r.err = errors.Join(r.err, err)
		r.changed.Broadcast()
	}
}

func (r *ring) write(b []byte) error {
	r.fileMu.Lock()
	defer r.fileMu.Unlock()
	if r.pos+int64(len(b)) > r.segmentBytes {
		if err := r.roll(); err != nil {
			return err
		}
	}
	_, err := r.file.WriteAt(b, r.pos)
	r.pos += int64(len(b))
	return err
}

// roll begins the next segment. The last one stays until reset.
func (r *ring) roll() error {
	if r.file != nil {
		if err := r.file.Close(); err != nil {
			return err
		}
	}
	r.segments++
	var err error
	r.file, err = makeFile(r.segment(r.segments), r.segmentBytes)
	r.pos = 0
	return err
}

func (r *ring) segment(n int) string {
	return filepath.Join(r.dir, fmt.Sprintf("segment-%d", n))
}

func (r *ring) drain(ctx context.Context) error {
	r.mu.Lock()
	for r.head > r.tail && r.err == nil {
		r.urgent = true
		r.changed.Broadcast()
		r.changed.Wait()
	}
	err := r.err
	r.mu.Unlock()
	return errors.Join(err, r.flush(ctx))
}

func (r *ring) flush(context.Context) error {
	r.fileMu.Lock()
	f := r.file
	r.fileMu.Unlock()
	err := datasync(f)
	if errors.Is(err, os.ErrClosed) {
		return nil // it rolled meanwhile: the next flush is for the next one
	}
	return err
}

// reset removes the segments but the last.
func (r *ring) reset(context.Context) (bool, error) {
	r.fileMu.Lock()
	defer r.fileMu.Unlock()
	for n := r.segments - 1; n > 0; n-- {
		if err := os.Remove(r.segment(n)); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				break
			}
			return false, err
		}
	}
	return false, nil
}

func (r *ring) close() error {
	r.mu.Lock()
	r.closed = true
	r.changed.Broadcast()
	r.mu.Unlock()
	r.moving.Wait()
	err := r.memory.close()
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}
