package vfs

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func wantUsed(t *testing.T, fsys *Mem, want int) {
	t.Helper()
	if got := fsys.Used(); got != int64(want)*pageSize {
		t.Errorf("%d bytes in use, want %d pages", got, want)
	}
}

func TestCapacity(t *testing.T) {
	fsys := NewMem()
	fsys.SetCapacity(3 * pageSize)
	f := create(t, fsys, "f")
	n, err := f.WriteAt([]byte(strings.Repeat("x", 5*pageSize)), 100)
	if n != 3*pageSize-100 {
		t.Errorf("wrote %d bytes, want what fits", n)
	}
	wantErr(t, err, syscall.ENOSPC)
	n, err = f.WriteVAt([][]byte{[]byte("over"), []byte(strings.Repeat("y", pageSize))}, 2*pageSize+100)
	if n != pageSize-100 {
		t.Errorf("wrote %d bytes, want what fits", n)
	}
	wantErr(t, err, syscall.ENOSPC)
	if size, _ := f.Size(); size != 3*pageSize {
		t.Errorf("length %d", size)
	}
	wantUsed(t, fsys, 3)

	g := create(t, fsys, "g")
	wantErr(t, g.Allocate(1), syscall.ENOSPC)
	must(t, g.Truncate(1<<30)) // a hole takes no space
	must(t, f.Truncate(pageSize))
	wantUsed(t, fsys, 1)
	must(t, g.Allocate(2*pageSize))
	wantErr(t, g.Allocate(2*pageSize+1), syscall.ENOSPC)
	writeAt(t, g, "into reserved blocks", pageSize)
	_, err = g.WriteAt([]byte("into the hole"), 2*pageSize)
	wantErr(t, err, syscall.ENOSPC)
	_, err = g.Map(3*pageSize, true)
	wantErr(t, err, syscall.ENOSPC)
	wantUsed(t, fsys, 3)

	for _, clone := range []*Mem{fsys.KillClone(), fsys.CrashClone(CrashOptions{KeepUnsynced: KeepAll})} {
		wantUsed(t, clone, 3)
		h, err := clone.OpenFile("f", os.O_RDWR, 0)
		must(t, err)
		_, err = h.WriteAt([]byte("x"), pageSize)
		wantErr(t, err, syscall.ENOSPC)
	}

	// A removed file gives its blocks back when the last of its users closes it.
	must(t, fsys.Remove("g"))
	wantUsed(t, fsys, 3)
	m := mapFile(t, g, pageSize, true)
	must(t, g.Close())
	wantUsed(t, fsys, 3)
	must(t, m.Close())
	wantUsed(t, fsys, 1)

	fsys.SetCapacity(0)
	writeAt(t, f, strings.Repeat("x", 10*pageSize), 0)
	wantUsed(t, fsys, 10)
	must(t, f.Close())
	create(t, fsys, "h")
	must(t, fsys.Rename("h", "f"))
	wantUsed(t, fsys, 0)
}

func TestAllocateCountsOnce(t *testing.T) {
	fsys := NewMem()
	f := create(t, fsys, "f")
	writeAt(t, f, "x", 3*pageSize)
	wantUsed(t, fsys, 1)
	must(t, f.Allocate(2*pageSize))
	wantUsed(t, fsys, 3)
	must(t, f.Allocate(5*pageSize))
	wantUsed(t, fsys, 5)
	must(t, f.Truncate(pageSize+1))
	wantUsed(t, fsys, 2)
	must(t, f.Truncate(5*pageSize))
	writeAt(t, f, "x", 4*pageSize)
	wantUsed(t, fsys, 3)
}

func TestMemFileTooLong(t *testing.T) {
	f := create(t, NewMem(), "f")
	wantErr(t, f.Truncate(sizeMax+1), syscall.EFBIG)
	wantErr(t, f.Allocate(sizeMax+1), syscall.EFBIG)
	_, err := f.WriteAt([]byte("x"), sizeMax)
	wantErr(t, err, syscall.EFBIG)
}

func TestMemRenameStaysInDirectory(t *testing.T) {
	fsys := NewMem()
	must(t, fsys.Mkdir("d", 0o755))
	create(t, fsys, "f")
	wantErr(t, fsys.Rename("f", "d/f"), syscall.EXDEV)
}
