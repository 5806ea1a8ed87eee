package vfs

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// Syncs and clones beside writes, also through a mapping, are no data race, and
// a clone is one moment of all files: what was synced first is there if what
// was synced later is.
func TestConcurrentUse(t *testing.T) {
	fsys := NewMem()
	first, second := syncedFile(t, fsys, "first", "-"), syncedFile(t, fsys, "second", "-")
	mapped := syncedFile(t, fsys, "mapped", "----")
	m := mapFile(t, mapped, 4*pageSize, true)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := byte(1); i < 200; i++ {
			for _, f := range []File{first, second} {
				if _, err := f.WriteAt([]byte{i}, 0); err != nil {
					t.Error(err)
				}
				if err := f.Datasync(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				m.Bytes()[i%(4*pageSize)]++
			}
		}
	})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := m.Sync(int64(i%4*pageSize), pageSize); err != nil {
				t.Error(err)
			}
			if _, err := mapped.ReadAt(make([]byte, 100), int64(i%pageSize)); err != nil {
				t.Error(err)
			}
			fsys.KillClone()
			clone := fsys.CrashClone(CrashOptions{})
			a, b := contentOf(t, clone, "first")[0], contentOf(t, clone, "second")[0]
			if a != b && a != b+1 {
				t.Errorf("a crash leaves %d in the first file and %d in the second", a, b)
			}
		}
	})
	wg.Wait()
	must(t, m.Close())
}

// Cloned pages are shared: neither side may see what the other writes.
func TestClonesAreApart(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "abc")
	putLetters(t, f, "A")
	clones := []*Mem{fsys.KillClone(), fsys.CrashClone(CrashOptions{KeepUnsynced: KeepAll})}
	putLetters(t, f, "BB")
	for i, clone := range clones {
		g, err := clone.OpenFile("f", os.O_RDWR, 0)
		must(t, err)
		putLetters(t, g, fmt.Sprint("-", i))
		if got := letters(t, "f")(clone); got != fmt.Sprintf("A%dc", i) {
			t.Errorf("clone %d has %q", i, got)
		}
		again := clone.CrashClone(CrashOptions{})
		if got := letters(t, "f")(again); i == 1 && got != "Abc" {
			t.Errorf("the clone of clone %d has %q", i, got)
		}
	}
	if got := letters(t, "f")(fsys); got != "BBc" {
		t.Errorf("the first has %q", got)
	}
}

func TestMemClock(t *testing.T) {
	fsys := NewMem()
	now := time.UnixMilli(1_700_000_000_000)
	fsys.SetClock(func() time.Time { return now })
	f := create(t, fsys, "f")
	now = now.Add(time.Hour)
	writeAt(t, f, "x", 0)
	for _, mem := range []*Mem{fsys, fsys.KillClone(), fsys.CrashClone(CrashOptions{KeepUnsynced: KeepAll})} {
		info, err := mem.Stat("f")
		must(t, err)
		if !info.ModTime().Equal(now) {
			t.Errorf("modified at %v, want %v", info.ModTime(), now)
		}
	}
}

func TestMemNames(t *testing.T) {
	fsys := NewMem()
	must(t, fsys.Mkdir("d", 0o755))
	writeAt(t, create(t, fsys, "/d/f"), "content", 0)
	for _, name := range []string{"d/f", "/d/f", "./d//f", "d/../d/f", "/../d/f"} {
		if got := contentOf(t, fsys, name); got != "content" {
			t.Errorf("%s holds %q", name, got)
		}
	}
	for _, root := range []string{"/", "."} {
		wantNames(t, fsys, root, "d")
		must(t, fsys.SyncDir(root))
		if info, err := fsys.Stat(root); err != nil || !info.IsDir() {
			t.Errorf("Stat(%q) = %v, %v", root, info, err)
		}
		if fsys.Mkdir(root, 0o755) == nil || fsys.Remove(root) == nil {
			t.Errorf("%q can be made or removed", root)
		}
	}
}

func BenchmarkMem(b *testing.B) {
	p := bytes.Repeat([]byte("x"), 1<<10)
	fsys := NewMem()
	f, err := fsys.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	const size = 1 << 20
	b.Run("op=write", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			f.WriteAt(p, int64(i*len(p)%size))
		}
	})
	b.Run("op=write+sync", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			f.WriteAt(p, int64(i*len(p)%size))
			f.Datasync()
		}
	})
	b.Run("op=read", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			f.ReadAt(p, int64(i*len(p)%size))
		}
	})
	b.Run(fmt.Sprintf("op=crash/size=%d", size), func(b *testing.B) {
		b.ReportAllocs()
		o := evenly(seeded(1))
		for b.Loop() {
			f.WriteAt(p, 0)
			fsys.CrashClone(o)
		}
	})
}
