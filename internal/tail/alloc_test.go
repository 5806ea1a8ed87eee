package tail

import (
	"math"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

// quiet is a file that takes and gives anything.
type quiet struct{ vfs.File }

func (quiet) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (quiet) ReadAt(p []byte, _ int64) (int, error)  { return len(p), nil }

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	slots := openSlots(t, vfs.NewMem(), SlotsOptions{})
	for name, source := range map[string]Source{"pool": NewPool(8 << 20), "slots": slots} {
		t.Run(name, func(t *testing.T) {
			tail, p, pos := New(quiet{}, identity(1)), make([]byte, 5000), int64(0)
			b := newBatch(0, 100, 1)
			bufs := [][]byte{b[:61], b[61:]}
			tail.Grow(source, 0, 0, ChunkBytesMin)
			pieces := make([][]byte, 0, 4)
			got := testing.AllocsPerRun(100, func() {
				tail.Put(bufs, pos)
				pos += int64(len(b))
				if _, err := tail.ReadAt(p[:100], pos-100); err != nil {
					t.Fatal(err)
				}
				pieces = tail.Pieces(pieces[:0], pos-100, pos)
				if _, err := tail.WriteBack(math.MaxInt64, 0); err != nil {
					t.Fatal(err)
				}
			})
			if got != 0 {
				t.Errorf("%g allocations for put, read and write back", got)
			}
		})
	}
}
