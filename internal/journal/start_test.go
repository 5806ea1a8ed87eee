package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

func TestSizes(t *testing.T) {
	for _, size := range []int64{-1, 1, BytesMin - 1, bytesMax + 1} {
		if _, err := Start(Options{FS: vfs.NewMem(), Dir: ".", Bytes: size}); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	tests := []struct{ bytes, batchMax int64 }{
		{BytesMin, 4096 - 144},
		{1 << 20, 126976 - 144},
		{0, 1 << 20},
		{256 << 20, 1 << 20},
	}
	for _, test := range tests {
		if got := BatchMax(test.bytes); got != test.batchMax {
			t.Errorf("BatchMax(%d) = %d, want %d", test.bytes, got, test.batchMax)
		}
		if half := halfBytes(max(test.bytes, BytesMin)); 4*runMax(half) > half {
			t.Errorf("four runs of %d do not fit into %d", runMax(half), half)
		}
	}
}

// TestOtherSize: a journal of another size than the options say is replaced, at
// any moment by one or the other.
func TestOtherSize(t *testing.T) {
	w, mem := written(t, 3)
	must(t, w.journal.Close())
	o := Options{Dir: ".", Bytes: 2 * BytesMin, Manual: true, Store: [16]byte{7}}
	for n := 0; ; n++ {
		clone := mem.KillClone()
		faulty := faultfs.New(clone, faultfs.FailFrom(n, nil))
		o.FS = faulty
		j, err := Start(o)
		fired := faulty.Fired()
		for _, keep := range []float64{vfs.KeepNone, vfs.KeepAll} {
			c := read(t, clone.CrashClone(vfs.CrashOptions{KeepUnsynced: keep}))
			switch {
			case c.Runs == 3 && err != nil:
				must(t, w.verify(c))
			case c.Runs == 0 && c.Store == o.Store && (err != nil || c.Session == j.Session()):
			default:
				t.Fatalf("operation %d fails, %v: %d runs, store %v", n, err, c.Runs, c.Store)
			}
		}
		if !fired {
			must(t, err)
			break
		}
	}
}

func TestDamagedAtStart(t *testing.T) {
	mem := withContent(t, make([]byte, BytesMin))
	if _, err := Start(Options{FS: mem, Dir: ".", Bytes: BytesMin, Manual: true}); !errors.Is(err, ErrDamaged) {
		t.Errorf("Start: %v", err)
	}
}

// TestStartWithOneHeader: of a header with one whole copy, as a power loss
// leaves it, the other copy is written first.
func TestStartWithOneHeader(t *testing.T) {
	w, mem := written(t, 3)
	must(t, w.journal.Close())
	b := content(t, mem)
	for broken := range 2 {
		b := slices.Clone(b)
		b[broken*blockBytes+100] ^= 1
		for n := range 4 {
			clone := withContent(t, b)
			faulty := faultfs.New(clone, faultfs.TornWriteNth(n, nil))
			if _, err := Start(Options{FS: faulty, Dir: ".", Bytes: BytesMin, Manual: true}); (err != nil) != (n < 2) {
				t.Fatal(err)
			}
			for _, keep := range []float64{vfs.KeepNone, vfs.KeepAll} {
				if c := read(t, clone.CrashClone(vfs.CrashOptions{KeepUnsynced: keep})); c.Session == w.journal.Session() {
					must(t, w.verify(c))
				}
			}
		}
	}
}

func TestFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	mem.SetCapacity(BytesMin / 2)
	if _, err := Start(Options{FS: mem, Dir: ".", Bytes: BytesMin, Manual: true}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Start: %v", err)
	}
	if mem.Used() != 0 {
		t.Errorf("%d bytes are left behind", mem.Used())
	}
}

func TestRemove(t *testing.T) {
	w, mem := written(t, 1)
	must(t, w.journal.Close())
	f, err := mem.OpenFile(Name+tempSuffix, os.O_CREATE|os.O_RDWR, 0o644)
	must(t, err)
	must(t, f.Close())
	must(t, Remove(mem, "."))
	entries, err := mem.CrashClone(vfs.CrashOptions{}).ReadDir(".")
	if must(t, err); len(entries) != 0 {
		t.Errorf("%v are left", entries)
	}
	must(t, Remove(mem, "."))
	if _, err := Read(mem, "."); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestNthOperationFails: a write or a sync that fails is final, all logs hear
// of it once, nothing is promised afterwards, and nothing promised before is
// lost, whatever the failed operation left on the disk.
func TestNthOperationFails(t *testing.T) {
	plans := map[string]func(n int) faultfs.Plan{
		"fail":  func(n int) faultfs.Plan { return faultfs.FailNth(n, nil, faultfs.Write, faultfs.Sync) },
		"short": faultfs.ShortWriteNth,
		"torn":  func(n int) faultfs.Plan { return faultfs.TornWriteNth(n, seeded(uint64(n))) },
		"lose":  func(n int) faultfs.Plan { return faultfs.LoseSyncNth(n, seeded(uint64(n))) },
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			for n := 0; failing(t, n, plan(n)); n++ {
				if n > 1000 {
					t.Fatal("no end")
				}
			}
		})
	}
}

// failing tells whether the fault hit.
func failing(t *testing.T, n int, plan faultfs.Plan) bool {
	mem := vfs.NewMem()
	fsys := faultfs.New(mem, faultfs.Plan{})
	w := newWorld(t, seeded(uint64(n)), Options{FS: fsys, Dir: ".", Bytes: BytesMin, Manual: true})
	w.start(3)
	fsys.SetPlan(plan)
	for i := range 25 {
		l := w.logs[i%3]
		l.publish(2500, 1)
		l.publish(1, 1)
		w.journal.Run()
		w.watch()
		w.free()
		if i%8 == 7 && w.journal.Err() == nil {
			if err := l.truncate(); err != nil && !errors.Is(err, ErrFailed) {
				t.Fatal(err)
			}
		}
		if i == 20 {
			w.closeHalf()
			w.free()
		}
	}
	err := w.journal.Err()
	if fsys.Fired() != (err != nil) || err != nil && !errors.Is(err, ErrFailed) {
		t.Fatalf("operation %d: fired %v, %v", n, fsys.Fired(), err)
	}
	for _, l := range w.logs {
		if l.failed != err {
			t.Fatalf("a log was told %v, not %v", l.failed, err)
		}
	}
	if err != nil {
		late := &fakeLog{w: w}
		w.journal.Join([16]byte{9}, 0, late)
		if late.failed != err || w.journal.TryFlush() || !errors.Is(w.journal.Flush(t.Context()), ErrFailed) {
			t.Fatalf("afterwards: %v", late.failed)
		}
	}
	for i := range uint64(8) {
		for _, clone := range []*vfs.Mem{
			mem.CrashClone(vfs.CrashOptions{Rand: seeded(i), KeepUnsynced: float64(i) / 7, Tear: i%2 == 0}), mem.KillClone(),
		} {
			c := read(t, clone)
			if err := w.verify(c); err != nil {
				t.Fatal(fmt.Errorf("operation %d: %w", n, err))
			}
			// What the cache shows survives from then on.
			must(t, c.Harden())
			d := read(t, clone.CrashClone(vfs.CrashOptions{}))
			if d.Session != c.Session || d.Runs < c.Runs {
				t.Fatalf("operation %d: %d runs hardened, %d there", n, c.Runs, d.Runs)
			}
		}
	}
	return fsys.Fired()
}

// TestFail: the store ends the journal, as a failed write does.
func TestFail(t *testing.T) {
	w, mem := written(t, 3)
	if !w.journal.Settled() {
		t.Error("not settled after Run")
	}
	w.logs[0].publish(1, 1)
	if w.journal.Settled() {
		t.Error("settled before the flush")
	}
	err := w.journal.Fail("bring it home", fs.ErrPermission)
	if !errors.Is(err, ErrFailed) || !errors.Is(err, fs.ErrPermission) || w.logs[1].failed != w.journal.Err() {
		t.Errorf("%v", err)
	}
	must(t, w.verify(read(t, mem)))
}
