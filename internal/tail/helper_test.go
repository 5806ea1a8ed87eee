package tail

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// newBatch makes a batch of one record that passes batch.Check: size bytes, all
// of the same fill behind the header. Batches of the same size and fill have the
// same checksum, whatever their offset.
func newBatch(offset int64, size int, fill byte) batch.Batch {
	b := make([]byte, size)
	for i := range b[21:] {
		b[21+i] = fill
	}
	binary.BigEndian.PutUint32(b[8:], uint32(size-batch.OverheadSize))
	b[16] = batch.Magic
	binary.BigEndian.PutUint16(b[21:], 0) // attributes
	binary.BigEndian.PutUint32(b[23:], 0) // last offset delta
	binary.BigEndian.PutUint32(b[57:], 1) // record count
	binary.BigEndian.PutUint32(b[17:], batch.CRC(b))
	batch.Batch(b).Stamp(offset, 7)
	return b
}

// openFile makes a file of a Mem.
func openFile(t testing.TB, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Small slots: four of 16 KiB.
var smallSlots = SlotsOptions{Bytes: 4<<10 + 4*16<<10, SlotBytes: 16 << 10, Boot: [16]byte{1}}

func openSlots(t testing.TB, fsys vfs.FS, o SlotsOptions) *Slots {
	t.Helper()
	s, err := OpenSlots(fsys, ".", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// must is for calls that do not fail in a test that is about something else.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func identity(partition int32) Identity {
	return Identity{Topic: [16]byte{9, 8, 7}, Partition: partition, Segment: 100}
}
