package vfs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel writes what fits and tells only at the next call that no more does.
func TestShortWriteOfTheSystem(t *testing.T) {
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	f := create(t, Machine(), filepath.Join(t.TempDir(), "f"))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10_000, Max: old.Max}))
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &old)

	var bufs [][]byte
	for i := range 5 {
		bufs = append(bufs, bytes.Repeat([]byte{'a' + byte(i)}, 3000))
	}
	n, err := f.WriteVAt(bufs, 0)
	if n != 10_000 {
		t.Errorf("wrote %d bytes, want as many as fit", n)
	}
	wantErr(t, err, syscall.EFBIG)
	b := make([]byte, 20_000)
	n, err = f.ReadAt(b, 0)
	if want := bytes.Join(bufs, nil)[:10_000]; !bytes.Equal(b[:n], want) || err != io.EOF {
		t.Errorf("the file has %d bytes, %v; want those that were counted", n, err)
	}
}

// The kernel may take a part of the vectors: whatever the cut, the rest must
// follow at its place.
func TestWriteVectorsContinues(t *testing.T) {
	f := create(t, Machine(), filepath.Join(t.TempDir(), "f")).(*machineFile)
	bufs := [][]byte{[]byte("abc"), nil, []byte("d"), []byte("efgh")}
	whole := "abcdefgh"
	for index := range bufs {
		for skip := range len(bufs[index]) {
			start := len(bytes.Join(bufs[:index], nil)) + skip
			must(t, f.Truncate(0))
			c := newCall()
			c.bufs, c.n = bufs, start
			var n int
			must(t, f.control(func(fd int) (err error) { n, err = c.writeOnce(fd, index, skip); return err }))
			b := make([]byte, 20)
			got, _ := f.ReadAt(b, 0)
			if n != len(whole)-start || string(b[start:got]) != whole[start:] {
				t.Errorf("from buffer %d byte %d: wrote %d, file %q", index, skip, n, b[:got])
			}
		}
	}
}

// A file system without fallocate gets zeros written, into holes too, and what
// is there stays.
func TestWriteZeros(t *testing.T) {
	for _, size := range []int64{1, 100, 4096, 5000, 70_000, 300_000} {
		t.Run(fmt.Sprint("size=", size), func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "f")
			f := create(t, Machine(), name)
			must(t, f.Truncate(50_000))
			writeAt(t, f, "here", 20_000)
			writeAt(t, f, "tail", 50_000)
			want := []byte(contentOf(t, Machine(), name))
			if int64(len(want)) < size {
				want = append(want, make([]byte, size-int64(len(want)))...)
			}
			must(t, writeZeros(f, size))
			if contentOf(t, Machine(), name) != string(want) {
				t.Error("wrong content")
			}
			var stat unix.Stat_t
			must(t, unix.Stat(name, &stat))
			if stat.Blocks*512 < size {
				t.Errorf("%d bytes of blocks for %d bytes", stat.Blocks*512, size)
			}
		})
	}
}

func TestAllocateGivesBlocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f := create(t, Machine(), name)
	must(t, f.Allocate(1<<20))
	var stat unix.Stat_t
	must(t, unix.Stat(name, &stat))
	if stat.Blocks*512 < 1<<20 || stat.Size != 1<<20 {
		t.Errorf("%d bytes of blocks, length %d", stat.Blocks*512, stat.Size)
	}
}

func TestTouch(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f := create(t, Machine(), name)
	must(t, f.Truncate(1<<20))
	m := mapFile(t, f, 1<<20, false)
	defer m.Close()
	must(t, touch(m.Bytes()))
	// The file becomes shorter under us: an error, and the process lives.
	must(t, f.Truncate(4096))
	if err := touch(m.Bytes()); err != syscall.EFAULT {
		t.Errorf("touch of what is gone: %v", err)
	}
	if err := m.Populate(); err == nil {
		t.Error("Populate of what is gone succeeds")
	}
}

func TestCloseBesideCalls(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for range 50 {
		f, err := Machine().OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		must(t, err)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for {
					_, err := f.WriteVAt([][]byte{{byte(i)}, {byte(i)}}, int64(2*i))
					if err != nil {
						wantErr(t, err, os.ErrClosed)
						return
					}
				}
			})
		}
		must(t, f.Close())
		wg.Wait()
	}
}

func TestNoAllocation(t *testing.T) {
	f := create(t, Machine(), filepath.Join(t.TempDir(), "f"))
	bufs := make([][]byte, 40)
	for i := range bufs {
		bufs[i] = make([]byte, 100)
	}
	must(t, f.Truncate(100))
	for name, do := range map[string]func() error{
		"WriteVAt": func() error { _, err := f.WriteVAt(bufs, 0); return err },
		"WriteAt":  func() error { _, err := f.WriteAt(bufs[0], 0); return err },
		"ReadAt":   func() error { _, err := f.ReadAt(bufs[0], 0); return err },
		"Datasync": func() error { return f.Datasync() },
	} {
		must(t, do())
		// The pool drops some of what it is given under the race detector.
		if n := testing.AllocsPerRun(100, func() { must(t, do()) }); n > 0 && !raceEnabled {
			t.Errorf("%s allocates %g times", name, n)
		}
	}
}

func BenchmarkMachine(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
		bufs := make([][]byte, 8)
		for i := range bufs {
			bufs[i] = make([]byte, size/len(bufs))
		}
		whole := make([]byte, size)
		for _, c := range []struct {
			name string
			do   func(f File) error
		}{
			{"op=writev", func(f File) error { _, err := f.WriteVAt(bufs, 0); return err }},
			{"op=read", func(f File) error { _, err := f.ReadAt(whole, 0); return err }},
			{"op=writev+datasync", func(f File) error {
				if _, err := f.WriteVAt(bufs, 0); err != nil {
					return err
				}
				return f.Datasync()
			}},
		} {
			b.Run(fmt.Sprintf("%s/size=%d", c.name, size), func(b *testing.B) {
				f, err := Machine().OpenFile(filepath.Join(b.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o644)
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				f.WriteAt(make([]byte, size), 0) // written extents: the cheapest flush
				f.Sync()
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := c.do(f); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// What is no file is told, at once, whichever way it is opened: a pipe would
// wait for its other end.
func TestOpenWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket, device := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket"), filepath.Join(dir, "device")
	must(t, unix.Mkfifo(pipe, 0o644))
	must(t, unix.Mknod(socket, unix.S_IFSOCK|0o644, 0))
	must(t, os.Symlink("/dev/null", device))
	for _, name := range []string{pipe, socket, device} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_WRONLY | os.O_CREATE | os.O_TRUNC} {
			done := make(chan error, 1)
			go func() {
				f, err := Machine().OpenFile(name, flag, 0o644)
				if err == nil {
					err = f.Close()
				}
				done <- err
			}()
			select {
			case err := <-done:
				wantErr(t, err, ErrNotRegular)
			case <-time.After(10 * time.Second):
				t.Fatalf("opening %s with flags %x waits", name, flag)
			}
		}
	}
}
