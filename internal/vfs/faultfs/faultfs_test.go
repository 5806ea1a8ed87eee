package faultfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	return f
}

func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	must(t, err)
	return string(b)
}

// everything does operations of all kinds.
func everything(fsys vfs.FS) error {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	f, err := fsys.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
	note(err)
	if err == nil {
		_, err = f.ReadAt(nil, 0)
		note(err)
		_, err = f.WriteAt([]byte("12345678"), 0)
		note(err)
		note(f.Sync())
		note(f.Truncate(4))
		note(f.Allocate(10))
		m, err := f.Map(4, true)
		note(err)
		if err == nil {
			note(m.Populate())
			note(m.Sync(0, 4))
			note(m.Close())
		}
		_, err = f.Size()
		note(err)
		note(f.Close())
	}
	note(fsys.Mkdir("d", 0o755))
	note(fsys.Rename("d", "e"))
	note(fsys.Remove("e"))
	_, err = fsys.ReadDir("/")
	note(err)
	note(fsys.SyncDir("/"))
	lock, err := fsys.Lock("l")
	note(err)
	if err == nil {
		note(lock.Close())
	}
	return errors.Join(errs...)
}

var allKinds = []faultfs.Kind{
	faultfs.Open, faultfs.Read, faultfs.Write, faultfs.Sync, faultfs.Truncate, faultfs.Allocate,
	faultfs.Map, faultfs.Populate, faultfs.Stat, faultfs.Close, faultfs.Remove, faultfs.Rename,
	faultfs.Mkdir, faultfs.ReadDir, faultfs.SyncDir, faultfs.Lock,
}

func TestEveryKindCountsAndFails(t *testing.T) {
	cause := errors.New("a cause of our own")
	for _, kind := range allKinds {
		fsys := faultfs.New(vfs.NewMem(), faultfs.FailNth(0, cause, kind))
		err := everything(fsys)
		var path *fs.PathError
		if !errors.Is(err, cause) || !errors.As(err, &path) || path.Op != kind.String() {
			t.Errorf("%v: error %v", kind, err)
		}
		if !fsys.Fired() {
			t.Errorf("%v: did not fire", kind)
		}

		fsys = faultfs.New(vfs.NewMem(), faultfs.FailNth(5, nil, kind))
		must(t, everything(fsys))
		if fsys.Fired() {
			t.Errorf("%v: fired", kind)
		}
		if fsys.Count(kind) == 0 || fsys.Count(kind) > 2 {
			t.Errorf("%v: counted %d", kind, fsys.Count(kind))
		}
		if fsys.Count() != 18 || fsys.Count(allKinds...) != 18 {
			t.Errorf("counted %d, %d", fsys.Count(), fsys.Count(allKinds...))
		}
	}
	if got := faultfs.Kind(200).String(); got != "unknown" {
		t.Errorf("a kind that is none is %q", got)
	}
}

// The loop that every write path is tested with ends, and hits every operation
// once on its way.
func TestLoopOverAllOperations(t *testing.T) {
	for n := 0; ; n++ {
		mem := vfs.NewMem()
		must(t, vfs.Replace(mem, "f", []byte("old")))
		fsys := faultfs.New(mem, faultfs.FailNth(n, nil))
		err := vfs.Replace(fsys, "f", []byte("new"))
		got := read(t, mem.CrashClone(vfs.CrashOptions{}), "f")
		switch {
		case err == nil && got != "new":
			t.Errorf("operation %d fails: success, and after a crash %q", n, got)
		case err != nil && got != "old":
			t.Errorf("operation %d fails: %v, and after a crash %q", n, err, got)
		case err != nil && !errors.Is(err, syscall.EIO):
			t.Errorf("operation %d fails: %v", n, err)
		}
		if !fsys.Fired() {
			must(t, err)
			if n != 6 {
				t.Errorf("%d operations, want open, write, sync, close, rename, syncdir", n)
			}
			return
		}
		if err == nil {
			t.Errorf("operation %d fails: no error", n)
		}
	}
}

func TestFailFrom(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem(), faultfs.FailFrom(2, syscall.EROFS, faultfs.Write, faultfs.Truncate))
	f := open(t, fsys, "f")
	for i, want := range []error{nil, nil, syscall.EROFS, syscall.EROFS, syscall.EROFS} {
		var err error
		if i%2 == 0 {
			err = f.Truncate(10)
		} else {
			_, err = f.WriteAt([]byte("x"), 0)
		}
		if !errors.Is(err, want) {
			t.Errorf("operation %d: %v, want %v", i, err, want)
		}
		_, err = f.Size()
		must(t, err)
	}
}

func TestSetPlanBeginsAgain(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem(), faultfs.FailNth(0, nil, faultfs.Open))
	if _, err := fsys.Open("f"); !errors.Is(err, syscall.EIO) {
		t.Errorf("error %v", err)
	}
	fsys.SetPlan(faultfs.FailNth(1, nil, faultfs.Write))
	if fsys.Fired() || fsys.Count() != 0 {
		t.Errorf("fired %v, counted %d after a new plan", fsys.Fired(), fsys.Count())
	}
	f := open(t, fsys, "f")
	_, err := f.WriteAt([]byte("x"), 0)
	must(t, err)
	if n, err := f.WriteVAt([][]byte{[]byte("y")}, 0); n != 0 || err == nil {
		t.Errorf("WriteVAt = %d, %v", n, err)
	}
	if got := read(t, fsys, "f"); got != "x" {
		t.Errorf("the file holds %q", got)
	}
}

func TestShortWrite(t *testing.T) {
	for _, vector := range []bool{false, true} {
		fsys := faultfs.New(vfs.NewMem(), faultfs.ShortWriteNth(1))
		f := open(t, fsys, "f")
		_, err := f.WriteAt([]byte("........"), 0)
		must(t, err)
		n := 0
		if vector {
			n, err = f.WriteVAt([][]byte{[]byte("abc"), []byte("defgh")}, 0)
		} else {
			n, err = f.WriteAt([]byte("abcdefgh"), 0)
		}
		if n != 4 || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("write = %d, %v", n, err)
		}
		if got := read(t, fsys, "f"); got != "abcd...." {
			t.Errorf("the file holds %q", got)
		}
	}
}

func TestTornWrite(t *testing.T) {
	for _, r := range []*rand.Rand{nil, rand.New(rand.NewPCG(1, 2))} {
		fsys := faultfs.New(vfs.NewMem(), faultfs.TornWriteNth(1, r))
		f := open(t, fsys, "f")
		old, written := bytes.Repeat([]byte("."), 8192), bytes.Repeat([]byte("x"), 5000)
		_, err := f.WriteAt(old, 0)
		must(t, err)
		if n, err := f.WriteVAt([][]byte{written[:1000], written[1000:]}, 100); n != 0 || !errors.Is(err, syscall.EIO) {
			t.Errorf("write = %d, %v", n, err)
		}
		got := read(t, fsys, "f")
		new := strings.Count(got, "x")
		if new == 0 || new >= 5000 || strings.Count(got, ".") != 8192-new {
			t.Errorf("%d bytes of 5000 are written", new)
		}
		for pos := 512; pos < 5100-512; pos += 512 {
			if s := got[pos : pos+512]; strings.Trim(s, s[:1]) != "" {
				t.Errorf("the sector at %d is torn", pos)
			}
		}
	}
}

func TestLoseSync(t *testing.T) {
	mem := vfs.NewMem()
	fsys := faultfs.New(mem, faultfs.Plan{})
	f := open(t, fsys, "f")
	must(t, fsys.SyncDir("/"))
	must(t, f.Allocate(4))
	must(t, f.Sync())
	m, err := f.Map(4, true)
	must(t, err)
	for _, sync := range []func() error{f.Sync, f.Datasync, func() error { return m.Sync(0, 4) }} {
		copy(m.Bytes(), "lost")
		fsys.SetPlan(faultfs.LoseSyncNth(0, nil))
		if err := sync(); !errors.Is(err, syscall.EIO) {
			t.Errorf("sync: %v", err)
		}
		must(t, sync()) // and yet it is gone
		if got := read(t, fsys, "f"); got != "lost" {
			t.Errorf("reads show %q", got)
		}
		if got := read(t, mem.CrashClone(vfs.CrashOptions{KeepUnsynced: vfs.KeepAll}), "f"); got != "\x00\x00\x00\x00" {
			t.Errorf("after a crash %q", got)
		}
		copy(m.Bytes(), "\x00\x00\x00\x00")
		must(t, f.Sync())
	}
	open(t, fsys, "g")
	fsys.SetPlan(faultfs.LoseSyncNth(0, rand.New(rand.NewPCG(1, 1))).And(faultfs.LoseSyncNth(1, nil)))
	if fsys.SyncDir("/") == nil || fsys.SyncDir("/") == nil {
		t.Error("SyncDir succeeds")
	}
	must(t, fsys.SyncDir("/"))
}

// A plain failure of a sync stores nothing and forgets nothing.
func TestFailedSyncWithoutLoss(t *testing.T) {
	mem := vfs.NewMem()
	fsys := faultfs.New(mem, faultfs.FailNth(0, nil, faultfs.Sync))
	f := open(t, fsys, "f")
	must(t, fsys.SyncDir("/"))
	_, err := f.WriteAt([]byte("x"), 0)
	must(t, err)
	if f.Sync() == nil {
		t.Error("Sync succeeds")
	}
	if got := read(t, mem.CrashClone(vfs.CrashOptions{}), "f"); got != "" {
		t.Errorf("after a crash %q", got)
	}
	must(t, f.Sync())
	if got := read(t, mem.CrashClone(vfs.CrashOptions{}), "f"); got != "x" {
		t.Errorf("after a crash %q", got)
	}
}

func TestMatch(t *testing.T) {
	plan := faultfs.Plan{Faults: []faultfs.Fault{{
		N:     1,
		Match: func(op faultfs.Op) bool { return strings.HasSuffix(op.Name, ".log") },
	}}}
	fsys := faultfs.New(vfs.NewMem(), plan)
	for i, name := range []string{"a.log", "b", "c.log"} {
		_, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if (err != nil) != (i == 2) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHookSeesEveryOperation(t *testing.T) {
	var ops []faultfs.Op
	crashed := errors.New("crashed")
	var stop bool
	mem := vfs.NewMem()
	hook := func(op faultfs.Op) error {
		ops = append(ops, op)
		mem.CrashClone(vfs.CrashOptions{}) // no lock is held
		if stop {
			return crashed
		}
		return nil
	}
	fsys := faultfs.New(mem, faultfs.Plan{Hook: hook}.And(faultfs.Plan{Hook: func(faultfs.Op) error { return nil }}))
	f := open(t, fsys, "f")
	_, err := f.WriteVAt([][]byte{[]byte("ab"), []byte("c")}, 7)
	must(t, err)
	must(t, f.Truncate(2))
	must(t, fsys.Rename("f", "g"))
	want := []faultfs.Op{
		{Kind: faultfs.Open, Name: "f", Flag: os.O_RDWR | os.O_CREATE, N: 0},
		{Kind: faultfs.Write, Name: "f", Pos: 7, Size: 3, N: 1},
		{Kind: faultfs.Truncate, Name: "f", Size: 2, N: 2},
		{Kind: faultfs.Rename, Name: "f", To: "g", N: 3},
	}
	if !slices.Equal(ops, want) {
		t.Errorf("operations\n%+v, want\n%+v", ops, want)
	}
	stop = true
	if err := everything(fsys); !errors.Is(err, crashed) || !fsys.Fired() {
		t.Errorf("error %v, fired %v", err, fsys.Fired())
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, crashed) {
		t.Errorf("error %v", err)
	}
	if err := f.Close(); !errors.Is(err, crashed) {
		t.Errorf("error %v", err)
	}
	if got := read(t, mem, "g"); got != "\x00\x00" {
		t.Errorf("after the crash something was written: %q", got)
	}
}

// One fault hits one operation, whoever comes first.
func TestConcurrentOperations(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem(), faultfs.FailNth(50, nil, faultfs.Write))
	f := open(t, fsys, "f")
	failed := make([]int, 4)
	var wg sync.WaitGroup
	for i := range failed {
		wg.Go(func() {
			for range 50 {
				if _, err := f.WriteAt([]byte("x"), int64(i)); err != nil {
					failed[i]++
				}
			}
		})
	}
	wg.Wait()
	if total := failed[0] + failed[1] + failed[2] + failed[3]; total != 1 || fsys.Count(faultfs.Write) != 200 {
		t.Errorf("%d of %d writes failed", total, fsys.Count(faultfs.Write))
	}
}

func TestMachineUnderFaults(t *testing.T) {
	name := t.TempDir() + "/f"
	fsys := faultfs.New(vfs.Machine(), faultfs.LoseSyncNth(0, nil).And(faultfs.ShortWriteNth(0)))
	f := open(t, fsys, name)
	if n, err := f.WriteVAt([][]byte{[]byte("abcd")}, 0); n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write = %d, %v", n, err)
	}
	if f.Sync() == nil {
		t.Error("Sync succeeds")
	}
	must(t, f.Close())
	if got := read(t, fsys, name); got != "ab" {
		t.Errorf("the file holds %q", got)
	}
}
