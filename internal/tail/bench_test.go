package tail

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

// BenchmarkPut compares a batch put into memory with a bare copy into the same
// memory.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10} {
		batch := newBatch(0, size, 1)
		bufs := [][]byte{batch[:61], batch[61:]}
		for name, source := range sources(b) {
			b.Run(fmt.Sprintf("into=%s/size=%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				tail, pos := New(quiet{}, identity(1)), int64(0)
				defer tail.Forget()
				for b.Loop() {
					if tail.Room() < size {
						tail.Forget()
						tail.recent = ChunkBytesMax
						tail.Grow(source, pos, 0, size)
					}
					tail.Put(bufs, pos)
					pos += int64(size)
				}
			})
			b.Run(fmt.Sprintf("into=%s/size=%d/bare=copy", name, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				c := source.Take(identity(1), 0, 0, size, ChunkBytesMax)
				defer c.drop()
				pos := 0
				for b.Loop() {
					if pos+size > len(c.mem) {
						pos = 0
					}
					for _, buf := range bufs {
						pos += copy(c.mem[pos:], buf)
					}
				}
			})
		}
	}
}

// sources are a pool, and slots of a file of the machine.
func sources(b *testing.B) map[string]Source {
	slots, err := OpenSlots(vfs.Machine(), b.TempDir(), SlotsOptions{Bytes: 8 << 20})
	must(b, err)
	b.Cleanup(func() { must(b, slots.Close(false)) })
	return map[string]Source{"pool": NewPool(8 << 20), "slot": slots}
}

// BenchmarkReadAt reads what is in memory, as a consumer at the end of a log does.
func BenchmarkReadAt(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			tail := New(quiet{}, identity(1))
			fill(b, tail, NewPool(8<<20), 2<<20, 1000)
			p := make([]byte, size)
			for b.Loop() {
				if _, err := tail.ReadAt(p, 4321); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWriteBack writes a MiB into a preallocated file of the machine.
func BenchmarkWriteBack(b *testing.B) {
	for name, source := range sources(b) {
		b.Run("from="+name, func(b *testing.B) {
			const size = 1000 << 10
			file := openFile(b, vfs.Machine(), filepath.Join(b.TempDir(), "segment"))
			must(b, writeZeros(file, 64<<20))
			tail, pos, batch := New(file, identity(1)), int64(0), newBatch(0, 100<<10, 1)
			b.ReportAllocs()
			b.SetBytes(size)
			for b.Loop() {
				b.StopTimer()
				if pos+size > 64<<20 {
					pos = 0
				}
				tail.recent = ChunkBytesMax
				tail.Grow(source, pos, 0, len(batch))
				for end := pos + size; pos < end; pos += int64(len(batch)) {
					tail.Put([][]byte{batch}, pos)
				}
				b.StartTimer()
				if _, err := tail.WriteBack(math.MaxInt64, 0); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				tail.Drop()
				b.StartTimer()
			}
			must(b, tail.Close())
		})
	}
}

// BenchmarkReadSlots reads a file whose slots are all full, which a start after
// the end of the process waits for.
func BenchmarkReadSlots(b *testing.B) {
	dir, fsys := b.TempDir(), vfs.Machine()
	slots, err := OpenSlots(fsys, dir, SlotsOptions{Bytes: 16 << 20})
	must(b, err)
	tail := New(quiet{}, identity(1))
	fill(b, tail, slots, 14<<20, 1000)
	b.SetBytes(14 << 20)
	for b.Loop() {
		if _, err := ReadSlots(fsys, dir, [16]byte{}); err != nil {
			b.Fatal(err)
		}
	}
	tail.Forget()
	must(b, slots.Close(false))
}
