package tail

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

// stream is a segment that a test knows in advance.
type stream struct {
	bytes []byte
	ends  []int64 // of its batches
}

func newStream(size int) stream {
	r := rand.New(rand.NewPCG(1, 2))
	var s stream
	for offset := int64(0); len(s.bytes) < size; offset++ {
		s.bytes = append(s.bytes, newBatch(offset, 61+r.IntN(3000), byte(r.Uint32()))...)
		s.ends = append(s.ends, int64(len(s.bytes)))
	}
	return s
}

// race is an appender, a flusher, a writer and readers at work on one tail.
type race struct {
	t         *testing.T
	tail      *Tail
	source    Source
	stream    stream
	queue     chan queued  // to the flusher
	published atomic.Int64 // readers stop here
	flushed   atomic.Int64 // the writer stops here
	done      atomic.Bool
	work      sync.WaitGroup
}

// queued is a batch for the flusher.
type queued struct {
	from, to int64
	direct   bool // written to the file
}

func (r *race) append() {
	defer close(r.queue)
	pos, random := int64(0), rand.New(rand.NewPCG(3, 4))
	for offset, end := range r.stream.ends {
		b := r.stream.bytes[pos:end]
		if random.IntN(50) == 0 {
			r.tail.Drop()
		}
		direct := random.IntN(20) == 0
		if direct {
			r.tail.Skip()
			if _, err := r.tail.WriteAt(b, pos); err != nil {
				r.t.Error(err)
			}
		} else {
			r.room(pos, int64(offset), len(b))
			r.tail.Put([][]byte{b[:61], b[61:]}, pos)
		}
		r.published.Store(end)
		r.queue <- queued{pos, end, direct}
		pos = end
	}
}

// room waits until a batch can be put.
func (r *race) room(pos, offset int64, size int) {
	for r.tail.Room() < size {
		freed := r.source.Freed()
		if r.tail.Grow(r.source, pos, offset, size) {
			break
		}
		<-freed // the writer drains what Grow closed
	}
}

// flush takes the memory of each batch, as a journal does, before the writer may
// write it.
func (r *race) flush() {
	defer r.done.Store(true)
	var pieces [][]byte
	for q := range r.queue {
		if !q.direct {
			pieces = r.tail.Pieces(pieces[:0], q.from, q.to)
			if !bytes.Equal(bytes.Join(pieces, nil), r.stream.bytes[q.from:q.to]) {
				r.t.Errorf("pieces of [%d, %d) are others", q.from, q.to)
			}
		}
		r.flushed.Store(q.to)
	}
}

func (r *race) write() {
	random := rand.New(rand.NewPCG(5, 6))
	for last := false; !last; {
		last = r.done.Load()
		below := r.flushed.Load()
		if _, err := r.tail.WriteBack(below, random.IntN(2)*20<<10); err != nil {
			r.t.Error(err)
		}
	}
	_, err := r.tail.WriteBack(r.published.Load(), 0)
	if err != nil {
		r.t.Error(err)
	}
}

func (r *race) read(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	p := make([]byte, 150<<10)
	for !r.done.Load() {
		end := r.published.Load()
		if end == 0 {
			continue
		}
		pos := random.Int64N(end)
		if random.IntN(2) == 0 {
			pos = max(0, end-random.Int64N(60<<10)-1)
		}
		want := r.stream.bytes[pos:min(end, pos+int64(random.IntN(len(p))))]
		if n, err := r.tail.ReadAt(p[:len(want)], pos); err != nil || !bytes.Equal(p[:n], want) {
			r.t.Errorf("%d bytes at %d: %d read, %v, or others", len(want), pos, n, err)
			return
		}
	}
}

// TestReadersBesideWriter reads while batches are put, written back, dropped
// and their memory taken again.
func TestReadersBesideWriter(t *testing.T) {
	const size = 512 << 10
	for _, slots := range []bool{false, true} {
		t.Run(fmt.Sprintf("slots=%t", slots), func(t *testing.T) {
			fsys := vfs.NewMem()
			r := &race{t: t, tail: New(openFile(t, fsys, "segment"), identity(1)), stream: newStream(size)}
			r.source = NewPool(64 << 10)
			if slots {
				r.source = openSlots(t, fsys, SlotsOptions{Bytes: 4<<10 + 2*16<<10, SlotBytes: 16 << 10})
			}
			r.queue = make(chan queued, len(r.stream.ends))
			r.work.Go(r.append)
			r.work.Go(r.flush)
			r.work.Go(r.write)
			for seed := range uint64(3) {
				r.work.Go(func() { r.read(seed) })
			}
			if slots {
				r.work.Go(func() { r.replay(fsys) })
			}
			r.work.Wait()
			got := make([]byte, len(r.stream.bytes))
			if n, err := r.tail.file.ReadAt(got, 0); err != nil || !bytes.Equal(got[:n], r.stream.bytes) {
				t.Fatalf("the file holds %d bytes, %v, or others", n, err)
			}
			if !r.tail.Drop() {
				t.Fatal("memory left in a tail that is written")
			}
			must(t, r.tail.Close())
		})
	}
}

// replay reads the slots of a process that goes on.
func (r *race) replay(fsys vfs.FS) {
	for !r.done.Load() {
		found, err := ReadSlots(fsys, ".", [16]byte{})
		if err != nil {
			r.t.Error(err)
			return
		}
		for _, s := range found {
			if !bytes.Equal(s.Bytes, r.stream.bytes[s.Pos:s.Pos+int64(len(s.Bytes))]) {
				r.t.Errorf("slot with %d batches from %d: other bytes", s.Batches, s.Pos)
			}
		}
	}
}
