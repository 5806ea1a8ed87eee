package tail

import (
	"bytes"
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// fill puts batches of a size until the tail holds total bytes, and returns them.
func fill(t testing.TB, tail *Tail, s Source, total, size int) []byte {
	t.Helper()
	var all []byte
	for offset := int64(0); len(all) < total; offset++ {
		b := newBatch(offset, size, byte(offset))
		if tail.Room() < size && !tail.Grow(s, int64(len(all)), offset, size) {
			t.Fatalf("no room after %d bytes", len(all))
		}
		tail.Put([][]byte{b}, int64(len(all)))
		all = append(all, b...)
	}
	return all
}

// TestWriteBackPieces looks at the writes that reach the file.
func TestWriteBackPieces(t *testing.T) {
	var writes []faultfs.Op
	fsys := faultfs.New(vfs.NewMem(), faultfs.Plan{Hook: func(op faultfs.Op) error {
		if op.Kind == faultfs.Write {
			writes = append(writes, op)
		}
		return nil
	}})
	tail := New(openFile(t, fsys, "segment"), identity(1))
	all := fill(t, tail, NewPool(8<<20), 3<<20, 1000)

	n, err := tail.WriteBack(math.MaxInt64, 1)
	must(t, err)
	if left := int64(len(all)) - n; left >= pageBytes || (n%pageBytes) != 0 {
		t.Errorf("%d of %d bytes written", n, len(all))
	}
	aligned := 0
	for _, op := range writes {
		if op.Size > pieceBytes {
			t.Errorf("a write of %d bytes", op.Size)
		}
		if (op.Pos+op.Size)%pieceBytes == 0 {
			aligned++
		}
	}
	if aligned < 11 {
		t.Errorf("%d of %d writes end at a multiple of %d", aligned, len(writes), pieceBytes)
	}
	if n, err := tail.WriteBack(math.MaxInt64, pageBytes); n != 0 || err != nil {
		t.Errorf("a WriteBack with less than a page due wrote %d bytes: %v", n, err)
	}
}

// TestWriteBackStopsBelow writes nothing above the limit it is given.
func TestWriteBackStopsBelow(t *testing.T) {
	tail := New(openFile(t, vfs.NewMem(), "segment"), identity(1))
	all := fill(t, tail, NewPool(1<<20), 100<<10, 777)
	for below := int64(0); below < int64(len(all)); below += 9999 {
		_, err := tail.WriteBack(below, 0)
		must(t, err)
		if size, _ := tail.Size(); size != below {
			t.Fatalf("the file has %d bytes after WriteBack below %d", size, below)
		}
	}
}

// TestWriteBackFails runs with the n-th write failing, in each way.
func TestWriteBackFails(t *testing.T) {
	for _, effect := range []faultfs.Effect{faultfs.Fail, faultfs.Short, faultfs.Torn} {
		for n := 0; ; n++ {
			fsys := faultfs.New(vfs.NewMem(), faultfs.Plan{})
			tail := New(openFile(t, fsys, "segment"), identity(1))
			all := fill(t, tail, NewPool(4<<20), 1<<20, 1234)
			fsys.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{
				Kinds: []faultfs.Kind{faultfs.Write}, N: n, Effect: effect, Err: syscall.ENOSPC}}})
			_, err := tail.WriteBack(math.MaxInt64, 0)
			if fired := fsys.Fired(); fired != (err != nil) || fired && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("write %d failed: %t, error %v", n, fired, err)
			}
			got := make([]byte, len(all))
			if _, err := tail.ReadAt(got, 0); err != nil || !bytes.Equal(got, all) {
				t.Fatalf("after write %d failed: %v, or other bytes", n, err)
			}
			if err == nil {
				break
			}
			count := fsys.Count(faultfs.Write)
			if _, again := tail.WriteBack(math.MaxInt64, 0); again != err || fsys.Count(faultfs.Write) != count {
				t.Fatalf("a WriteBack after a failed one: %v", again)
			}
			if tail.Drop() {
				t.Fatal("unwritten bytes were dropped")
			}
		}
	}
}
