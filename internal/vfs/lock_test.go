package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestLockInOneProcess(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, ".lock")
		held, err := fsys.Lock(name)
		must(t, err)
		if got := strings.TrimSpace(contentOf(t, fsys, name)); got != strconv.Itoa(os.Getpid()) {
			t.Errorf("the lock file holds %q, want the pid", got)
		}
		// Another descriptor that closes must not take the lock with it, as it
		// would with a POSIX lock.
		for range 2 {
			_, err = fsys.Lock(name)
			wantErr(t, err, ErrLocked)
			wantText(t, err, name, "by this process", strconv.Itoa(os.Getpid()))
		}
		other, err := fsys.Lock(filepath.Join(dir, "other"))
		must(t, err)
		must(t, other.Close())

		must(t, held.Close())
		if got := contentOf(t, fsys, name); got != "" {
			t.Errorf("the lock file holds %q after unlock, want nothing, as Kafka leaves it", got)
		}
		if err := held.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
		held, err = fsys.Lock(name)
		must(t, err)
		must(t, held.Close())
	})
}

func TestLockErrors(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		_, err := fsys.Lock(filepath.Join(dir, "no/.lock"))
		wantErr(t, err, fs.ErrNotExist)
		must(t, fsys.Mkdir(filepath.Join(dir, "d"), 0o755))
		_, err = fsys.Lock(filepath.Join(dir, "d"))
		if err == nil || errors.Is(err, ErrLocked) {
			t.Errorf("lock of a directory: %v", err)
		}
	})
}

// Holders may remove the file while they hold the lock, and others come at any
// moment: there is never more than one holder of the name.
func TestLockHasOneHolder(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, ".lock")
		var holders, held atomic.Int32
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				for range 1000 {
					l, err := fsys.Lock(name)
					if err != nil {
						continue
					}
					held.Add(1)
					if n := holders.Add(1); n > 1 {
						t.Errorf("%d holders", n)
					}
					runtime.Gosched()
					holders.Add(-1)
					if err := errors.Join(fsys.Remove(name), l.Close()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if held.Load() == 0 {
			t.Error("nobody got the lock")
		}
	})
}

// A full disk must not keep anybody from opening a store to free space.
func TestLockOnFullDisk(t *testing.T) {
	fsys := NewMem()
	fsys.SetCapacity(pageSize)
	writeAt(t, create(t, fsys, "full"), "x", 0)
	held, err := fsys.Lock(".lock")
	must(t, err)
	defer held.Close()
	_, err = fsys.Lock(".lock")
	wantErr(t, err, ErrLocked)
}

func TestClonesAreUnlocked(t *testing.T) {
	fsys := NewMem()
	_, err := fsys.Lock(".lock")
	must(t, err)
	for _, clone := range []*Mem{fsys.KillClone(), fsys.CrashClone(CrashOptions{KeepUnsynced: KeepAll})} {
		held, err := clone.Lock(".lock")
		must(t, err)
		must(t, held.Close())
	}
	_, err = fsys.Lock(".lock")
	wantErr(t, err, ErrLocked)
}

func TestParsePID(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "\n": 0, "12": 12, "12\n": 12, string(pidLine(4194304)): 4194304,
		"-3": 0, "x": 0, "1 2": 0, "99999999999999999999999": 0, "\x00\x00": 0,
	} {
		if got := parsePID([]byte(text)); got != want {
			t.Errorf("parsePID(%q) = %d, want %d", text, got, want)
		}
	}
}

func FuzzParsePID(f *testing.F) {
	for _, text := range []string{"", "\n", "12", string(pidLine(1)), string(pidLine(4194304)), "-3", "+3", "1 2", "0x10", "\x00"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pid := parsePID(b)
		if pid < 0 {
			t.Fatalf("%q gives %d", b, pid)
		}
		if got := parsePID(pidLine(pid)); got != pid {
			t.Fatalf("the line of %d gives %d", pid, got)
		}
	})
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not tell %q", err, part)
		}
	}
}
