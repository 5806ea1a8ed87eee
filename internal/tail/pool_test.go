package tail

import (
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

func TestPoolLimit(t *testing.T) {
	p := NewPool(1<<20 + 20<<10)
	var taken []*Chunk
	sizes := map[int]int{}
	for {
		c := p.Take(identity(1), 0, 0, 100, ChunkBytesMax)
		if c == nil {
			break
		}
		sizes[c.size]++
		taken = append(taken, c)
	}
	if sizes[1<<20] != 1 || sizes[16<<10] != 1 || len(sizes) != 2 {
		t.Errorf("chunks by size: %v", sizes)
	}
	if s := p.Stats(); s.InUse != 1<<20+16<<10 || s.Held != s.InUse || s.Refused != 1 {
		t.Errorf("%+v", s)
	}
	freed := p.Freed()
	select {
	case <-freed:
		t.Fatal("room without a chunk given back")
	default:
	}
	for _, c := range taken {
		c.drop()
	}
	<-freed
	// What is kept makes room for other sizes.
	for range 4 {
		if p.Take(identity(1), 0, 0, 200<<10, 0) == nil {
			t.Fatal("memory that is kept is not given for another size")
		}
	}
	if s := p.Stats(); s.InUse != 1<<20 || s.Held > s.Limit {
		t.Errorf("%+v", s)
	}
}

func TestPoolSizes(t *testing.T) {
	for _, c := range []struct{ limit, size, hint, want int }{
		{8 << 20, 1, 0, 16 << 10},
		{8 << 20, 16 << 10, 0, 16 << 10},
		{8 << 20, 16<<10 + 1, 0, 64 << 10},
		{8 << 20, 100, 65 << 10, 256 << 10},
		{8 << 20, 100, 8 << 20, 1 << 20},
		{8 << 20, 1 << 20, 0, 1 << 20},
		{8 << 20, 1<<20 + 1, 0, 0},
		{100 << 10, 100, 8 << 20, 64 << 10},
		{100 << 10, 65 << 10, 8 << 20, 0},
		{10 << 10, 100, 0, 0},
	} {
		got := 0
		p := NewPool(int64(c.limit))
		if chunk := p.Take(identity(1), 0, 0, c.size, c.hint); chunk != nil {
			got = chunk.size
		}
		if got != c.want || (got > 0) != (c.size <= p.ChunkMax()) {
			t.Errorf("limit %d, size %d, hint %d: chunk of %d bytes, want %d", c.limit, c.size, c.hint, got, c.want)
		}
	}
}

// TestChunksGrow: a busy tail gets larger chunks, an idle one small ones again.
func TestChunksGrow(t *testing.T) {
	p := NewPool(8 << 20)
	tail := New(openFile(t, vfs.NewMem(), "segment"), identity(1))
	fill(t, tail, p, 3<<20, 1000)
	list := *tail.chunks.Load()
	if first, last := list[0].size, list[len(list)-1].size; first != ChunkBytesMin || last != ChunkBytesMax {
		t.Errorf("first chunk of %d bytes, last of %d", first, last)
	}
	_, err := tail.WriteBack(1<<30, 0)
	must(t, err)
	tail.Drop()
	pos, _ := tail.Size()
	tail.Grow(p, pos, 0, 100)
	if got := tail.MemoryBytes(); got != ChunkBytesMin {
		t.Errorf("%d bytes after it was idle", got)
	}
}
