package tail

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

// bed is a tail beside a plain slice of what must be read from it.
type bed struct {
	t      *testing.T
	r      *rand.Rand
	fsys   *vfs.Mem
	file   vfs.File // the tail's, to look below it
	tail   *Tail
	source Source
	slots  *Slots // source, or nil
	model  []byte // of the whole segment
	ends   []int64
}

func newBed(t *testing.T, seed uint64, slots bool) *bed {
	b := &bed{t: t, r: rand.New(rand.NewPCG(seed, 0)), fsys: vfs.NewMem(), ends: []int64{0}}
	b.file = openFile(t, b.fsys, "segment")
	b.tail = New(b.file, identity(1))
	if slots {
		b.slots = openSlots(t, b.fsys, smallSlots)
		b.source = b.slots
	} else {
		b.source = NewPool(96 << 10)
	}
	return b
}

// append puts a batch, or writes it when there is no memory.
func (b *bed) append() {
	size := 61 + b.r.IntN(3000)
	if b.r.IntN(10) == 0 && b.slots == nil {
		size = 61 + b.r.IntN(60<<10)
	}
	pos := int64(len(b.model))
	batch := newBatch(int64(len(b.ends)-1), size, byte(b.r.Uint32()))
	cut := b.r.IntN(size)
	bufs := [][]byte{batch[:cut], batch[cut:]}
	switch {
	case b.r.IntN(12) > 0 && (b.tail.Room() >= size || size <= b.source.ChunkMax() && b.tail.Grow(b.source, pos, int64(len(b.ends)-1), size)):
		b.tail.Put(bufs, pos)
	default:
		b.tail.Skip()
		if _, err := b.tail.WriteVAt(bufs, pos); err != nil {
			b.t.Fatal(err)
		}
	}
	b.model = append(b.model, batch...)
	b.ends = append(b.ends, int64(len(b.model)))
}

func (b *bed) readAt() {
	pos := b.r.IntN(len(b.model) + 1)
	p := make([]byte, b.r.IntN(200<<10))
	n, err := b.tail.ReadAt(p, int64(pos))
	want := b.model[pos:min(len(b.model), pos+len(p))]
	if !bytes.Equal(p[:n], want) {
		b.t.Fatalf("read %d bytes at %d: got %d, want %d, or other bytes", len(p), pos, n, len(want))
	}
	if wantErr := n < len(p); wantErr != (err == io.EOF) || err != nil && !wantErr {
		b.t.Fatalf("read %d of %d bytes at %d: %v", n, len(p), pos, err)
	}
}

func (b *bed) writeBack() {
	below := b.ends[b.r.IntN(len(b.ends))]
	least := b.r.IntN(2) * b.r.IntN(40<<10)
	before := b.tail.Unwritten(below)
	n, err := b.tail.WriteBack(below, least)
	must(b.t, err)
	after := b.tail.Unwritten(below)
	switch {
	case before-n != after:
		b.t.Fatalf("%d unwritten, %d written, %d left", before, n, after)
	case least == 0 && after != 0:
		b.t.Fatalf("%d bytes unwritten after WriteBack of all", after)
	case before < int64(least) && n > 0:
		b.t.Fatalf("wrote %d bytes, %d were due, at least %d wanted", n, before, least)
	case before >= int64(least) && after >= pageBytes:
		b.t.Fatalf("%d bytes left of %d", after, before)
	}
}

func (b *bed) cut() {
	i := b.r.IntN(len(b.ends))
	pos := b.ends[i]
	b.tail.Cut(pos)
	size, err := b.tail.Size()
	must(b.t, err)
	must(b.t, b.tail.Truncate(min(size, pos)))
	if b.slots != nil {
		must(b.t, b.slots.Settle())
	}
	b.model, b.ends = b.model[:pos], b.ends[:i+1]
}

// pieces compares what is in memory with the model.
func (b *bed) pieces() {
	for _, c := range *b.tail.chunks.Load() {
		from := c.start + c.written.Load()
		got := bytes.Join(b.tail.Pieces(nil, from, c.end()), nil)
		if !bytes.Equal(got, b.model[from:c.end()]) {
			b.t.Fatalf("pieces of [%d, %d) are not what was put", from, c.end())
		}
	}
}

func (b *bed) step() {
	switch n := b.r.IntN(100); {
	case n < 50:
		b.append()
	case n < 70:
		b.readAt()
	case n < 85:
		b.writeBack()
	case n < 90:
		b.tail.Drop()
	case n < 95:
		b.pieces()
	case n < 98:
		b.cut()
	default:
		_, err := b.tail.WriteBack(int64(len(b.model)), 0)
		must(b.t, err)
		if !b.tail.Drop() || b.tail.MemoryBytes() != 0 {
			b.t.Fatal("memory left after all was written")
		}
		got := make([]byte, len(b.model))
		if n, err := b.file.ReadAt(got, 0); n < len(got) || !bytes.Equal(got, b.model) {
			b.t.Fatalf("the file has other bytes: %v", err)
		}
	}
}

func TestTailAgainstSlice(t *testing.T) {
	for _, slots := range []bool{false, true} {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("slots=%t/seed=%d", slots, seed), func(t *testing.T) {
				b := newBed(t, seed, slots)
				for range 600 {
					b.step()
				}
				b.tail.Forget()
				if p, ok := b.source.(*Pool); ok && p.Stats().InUse != 0 {
					t.Fatalf("%d bytes of the pool are lost", p.Stats().InUse)
				}
				if b.slots != nil && b.slots.Stats().Taken != 0 {
					t.Fatalf("%d slots are lost", b.slots.Stats().Taken)
				}
				must(t, b.tail.Close())
			})
		}
	}
}
