package log

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// counted is a file that counts what is read of it.
type counted struct {
	vfs.File
	bytes int64
}

func (c *counted) ReadAt(b []byte, pos int64) (int, error) {
	n, err := c.File.ReadAt(b, pos)
	c.bytes += int64(n)
	return n, err
}

// TestFindBatchIsBounded looks for a batch in bytes made to look like one at
// many places, each as long as the rest: the work stays in proportion, and a few
// such places hide nothing.
func TestFindBatchIsBounded(t *testing.T) {
	const size, step = 16 << 20, batch.HeaderSize
	for _, c := range []struct {
		lies int
		want int64
	}{{0, 77}, {1, 77}, {10, 77}, {5000, -1}} {
		mem := vfs.NewMem()
		f, err := mem.OpenFile("x", os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, size)
		for i := range c.lies {
			h := b[i*step:]
			binary.BigEndian.PutUint64(h, 1000)
			binary.BigEndian.PutUint32(h[8:], uint32(len(h)-batch.OverheadSize))
			h[batch.MagicEnd-1] = batch.Magic
		}
		good := plain(2, "good")
		good.Stamp(77, 0)
		at := int64(5000*step + 1000)
		copy(b[at:], good)
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		file := &counted{File: f}
		base, pos, err := findBatch(file, 0, size, 50)
		if err != nil || base != c.want || base >= 0 && pos != at {
			t.Errorf("%d lies: found %d at %d, %v, want %d at %d", c.lies, base, pos, err, c.want, at)
		}
		if file.bytes > findCheckedMax+2*size {
			t.Errorf("%d lies: %d bytes read of %d", c.lies, file.bytes, size)
		}
	}
}
