package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// eachFS runs a test on every file system of the package, in a directory of
// its own.
func eachFS(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("fs=machine", func(t *testing.T) { test(t, Machine(), t.TempDir()) })
	t.Run("fs=mem", func(t *testing.T) { test(t, NewMem(), "/") })
}

// create makes a file that the test closes at its end.
func create(t *testing.T, fsys FS, name string) File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	var path *fs.PathError
	var link *os.LinkError
	if !errors.As(err, &path) && !errors.As(err, &link) {
		t.Errorf("error %T (%v) tells no path", err, err)
	}
}

// content reads a whole file.
func contentOf(t *testing.T, fsys FS, name string) string {
	t.Helper()
	b, err := ReadFile(fsys, name, 1<<30)
	must(t, err)
	return string(b)
}

func writeAt(t *testing.T, f File, s string, pos int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(s), pos); n != len(s) || err != nil {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

func TestReadWrite(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name)
		if f.Name() != name {
			t.Errorf("Name = %q", f.Name())
		}
		writeAt(t, f, "behind a hole", 10_000)
		writeAt(t, f, "head", 0)
		b := make([]byte, 20)
		n, err := f.ReadAt(b, 10_007)
		if string(b[:n]) != "a hole" || err != io.EOF {
			t.Errorf("ReadAt at the end = %q, %v", b[:n], err)
		}
		n, err = f.ReadAt(b[:8], 9_996)
		if string(b[:n]) != "\x00\x00\x00\x00behi" || err != nil {
			t.Errorf("ReadAt = %q, %v", b[:n], err)
		}
		if n, err = f.ReadAt(b, 20_000); n != 0 || err != io.EOF {
			t.Errorf("ReadAt behind the end = %d, %v", n, err)
		}
		if n, err = f.ReadAt(nil, 20_000); n != 0 || err != nil {
			t.Errorf("ReadAt of nothing = %d, %v", n, err)
		}
		if size, err := f.Size(); size != 10_013 || err != nil {
			t.Errorf("Size = %d, %v", size, err)
		}
		if _, err := f.ReadAt(b, -1); err == nil {
			t.Error("ReadAt of a negative position succeeds")
		}
		if _, err := f.WriteAt(b, -1); err == nil {
			t.Error("WriteAt of a negative position succeeds")
		}
		if _, err := f.WriteVAt([][]byte{b}, -1); err == nil {
			t.Error("WriteVAt of a negative position succeeds")
		}
	})
}

func TestWriteVectors(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		for _, count := range []int{0, 1, 3, 1023, 1024, 1025, 3000} {
			name := filepath.Join(dir, fmt.Sprint("f", count))
			f := create(t, fsys, name)
			var bufs [][]byte
			var want []byte
			for i := range count {
				buf := bytes.Repeat([]byte{byte(i)}, i%7*5) // some are empty
				bufs, want = append(bufs, buf), append(want, buf...)
			}
			n, err := f.WriteVAt(bufs, 0)
			if n != len(want) || err != nil {
				t.Fatalf("WriteVAt of %d buffers = %d, %v, want %d", count, n, err, len(want))
			}
			if contentOf(t, fsys, name) != string(want) {
				t.Errorf("%d buffers: wrong content", count)
			}
			n, err = f.WriteVAt([][]byte{nil, []byte("x"), {}, []byte("yz")}, int64(len(want))+5)
			if n != 3 || err != nil {
				t.Errorf("WriteVAt = %d, %v", n, err)
			}
			if got := contentOf(t, fsys, name); got != string(want)+"\x00\x00\x00\x00\x00xyz" {
				t.Errorf("%d buffers: wrong content at the end: %q", count, got[len(want):])
			}
		}
	})
}

func TestTruncateAndAllocate(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name)
		writeAt(t, f, string(bytes.Repeat([]byte("x"), 9000)), 0)
		must(t, f.Truncate(5000))
		must(t, f.Truncate(9000))
		want := append(bytes.Repeat([]byte("x"), 5000), make([]byte, 4000)...)
		if contentOf(t, fsys, name) != string(want) {
			t.Error("a file cut and grown again shows what was cut")
		}
		must(t, f.Allocate(12_000))
		if got := contentOf(t, fsys, name); got != string(want)+string(make([]byte, 3000)) {
			t.Error("Allocate changed more than the length")
		}
		must(t, f.Allocate(100))
		must(t, f.Allocate(0))
		if size, _ := f.Size(); size != 12_000 {
			t.Errorf("Allocate of less: length %d", size)
		}
		wantErr(t, f.Truncate(-1), syscall.EINVAL)
		must(t, f.Sync())
		must(t, f.Datasync())
	})
}

func TestOpenErrors(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		in := func(name string) string { return filepath.Join(dir, name) }
		_, err := fsys.Open(in("missing"))
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.OpenFile(in("missing"), os.O_RDWR, 0)
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.OpenFile(in("no/f"), os.O_RDWR|os.O_CREATE, 0o644)
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.Open("")
		wantErr(t, err, fs.ErrNotExist)

		must(t, fsys.Mkdir(in("d"), 0o755))
		_, err = fsys.Open(in("d"))
		wantErr(t, err, syscall.EISDIR)
		_, err = fsys.OpenFile(in("d"), os.O_RDWR|os.O_CREATE, 0o644)
		wantErr(t, err, syscall.EISDIR)
		wantErr(t, fsys.Mkdir(in("d"), 0o755), fs.ErrExist)

		writeAt(t, create(t, fsys, in("f")), "content", 0)
		_, err = fsys.OpenFile(in("f"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		wantErr(t, err, fs.ErrExist)
		_, err = fsys.Open(in("f/g"))
		wantErr(t, err, syscall.ENOTDIR)
		wantErr(t, fsys.Mkdir(in("f"), 0o755), fs.ErrExist)
		wantErr(t, fsys.Mkdir(in("no/d"), 0o755), fs.ErrNotExist)
		_, err = fsys.ReadDir(in("f"))
		wantErr(t, err, syscall.ENOTDIR)
		wantErr(t, fsys.SyncDir(in("f")), syscall.ENOTDIR)
		wantErr(t, fsys.SyncDir(in("no")), fs.ErrNotExist)
		_, err = fsys.Stat(in("no"))
		wantErr(t, err, fs.ErrNotExist)

		f, err := fsys.OpenFile(in("f"), os.O_RDWR|os.O_TRUNC, 0)
		must(t, err)
		must(t, f.Close())
		if contentOf(t, fsys, in("f")) != "" {
			t.Error("O_TRUNC left content")
		}
	})
}

func TestHandleErrors(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		writeAt(t, create(t, fsys, name), "content", 0)
		r, err := fsys.Open(name)
		must(t, err)
		_, err = r.WriteAt([]byte("x"), 0)
		wantErr(t, err, syscall.EBADF)
		_, err = r.WriteVAt([][]byte{{'x'}}, 0)
		wantErr(t, err, syscall.EBADF)
		wantErr(t, r.Truncate(0), syscall.EINVAL)
		wantErr(t, r.Allocate(10), syscall.EBADF)
		_, err = r.Map(7, true)
		wantErr(t, err, syscall.EACCES)
		_, err = r.Map(8, false)
		wantErr(t, err, syscall.EINVAL)
		_, err = r.Map(-1, false)
		wantErr(t, err, syscall.EINVAL)
		must(t, r.Sync())

		must(t, r.Close())
		wantErr(t, r.Close(), fs.ErrClosed)
		_, err = r.ReadAt(make([]byte, 1), 0)
		wantErr(t, err, fs.ErrClosed)
		_, err = r.WriteVAt([][]byte{{'x'}}, 0)
		wantErr(t, err, fs.ErrClosed)
		_, err = r.Size()
		wantErr(t, err, fs.ErrClosed)
		_, err = r.Map(1, false)
		wantErr(t, err, fs.ErrClosed)
		wantErr(t, r.Sync(), fs.ErrClosed)
		wantErr(t, r.Datasync(), fs.ErrClosed)
		wantErr(t, r.Truncate(0), fs.ErrClosed)
		wantErr(t, r.Allocate(1), fs.ErrClosed)
	})
}

func TestDirectories(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		in := func(name string) string { return filepath.Join(dir, name) }
		must(t, fsys.Mkdir(in("d"), 0o755))
		for _, name := range []string{"d/c", "d/a", "d/b"} {
			writeAt(t, create(t, fsys, in(name)), name, 0)
		}
		must(t, fsys.Mkdir(in("d/sub"), 0o755))
		wantNames(t, fsys, in("d"), "a b c sub")
		wantErr(t, fsys.Remove(in("d")), syscall.ENOTEMPTY)
		wantErr(t, fsys.Remove(in("d/no")), fs.ErrNotExist)
		must(t, fsys.Remove(in("d/sub")))

		must(t, fsys.Rename(in("d/a"), in("d/b")))
		must(t, fsys.Rename(in("d/c"), in("d/c")))
		wantNames(t, fsys, in("d"), "b c")
		if got := contentOf(t, fsys, in("d/b")); got != "d/a" {
			t.Errorf("the new name has %q", got)
		}
		wantErr(t, fsys.Rename(in("d/a"), in("d/x")), fs.ErrNotExist)
		wantErr(t, fsys.Rename(in("d/b"), in("no/x")), fs.ErrNotExist)

		must(t, fsys.Rename(in("d"), in("e")))
		wantErr(t, fsys.Rename(in("e/b"), in("e/b/x")), syscall.ENOTDIR)
		wantNames(t, fsys, in("e"), "b c")
		must(t, fsys.Mkdir(in("f"), 0o755))
		wantErr(t, fsys.Rename(in("e"), in("f")), fs.ErrExist)
		must(t, fsys.SyncDir(in("e")))

		info, err := fsys.Stat(in("e/b"))
		must(t, err)
		if info.Name() != "b" || info.Size() != 3 || info.IsDir() || !info.Mode().IsRegular() || info.ModTime().IsZero() {
			t.Errorf("Stat = %v", info)
		}
		info, err = fsys.Stat(in("e"))
		must(t, err)
		if info.Name() != "e" || !info.IsDir() {
			t.Errorf("Stat = %v", info)
		}
	})
}

func wantNames(t *testing.T, fsys FS, dir, want string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	got := ""
	for i, e := range entries {
		if i > 0 {
			got += " "
		}
		got += e.Name()
	}
	if got != want {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func TestRemovedFileStaysOpen(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name)
		writeAt(t, f, "content", 0)
		must(t, fsys.Remove(name))
		writeAt(t, f, "C", 0)
		b := make([]byte, 7)
		if _, err := f.ReadAt(b, 0); string(b) != "Content" || err != nil {
			t.Errorf("ReadAt = %q, %v", b, err)
		}
		writeAt(t, create(t, fsys, name), "other", 0)
		if _, err := f.ReadAt(b, 0); string(b) != "Content" || err != nil {
			t.Errorf("ReadAt = %q, %v", b, err)
		}
	})
}

func TestReplaceAndReadFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		for _, content := range []string{"longer content", "short"} {
			must(t, Replace(fsys, name, []byte(content)))
			if got := contentOf(t, fsys, name); got != content {
				t.Errorf("content %q, want %q", got, content)
			}
		}
		wantNames(t, fsys, dir, "f")
		_, err := ReadFile(fsys, name, 4)
		wantErr(t, err, ErrTooLarge)
	})
}
