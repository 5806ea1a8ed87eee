package journal

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

var histories = flag.Int("journal.histories", 60, "random histories with crashes at any file operation")

// TestRandomHistories drives several logs on one journal at random. Before any
// file operation the machine may lose power, with any part of what was not
// synced; then exactly a prefix of what was published is there, with all that
// was promised, also after recovery was interrupted in turn.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(*histories) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { history(t, seed) })
	}
}

func history(t *testing.T, seed uint64) {
	r := seeded(seed)
	mem := vfs.NewMem()
	fsys := faultfs.New(mem, faultfs.Plan{})
	o := Options{FS: fsys, Dir: ".", Bytes: BytesMin + r.Int64N(5)*32<<10, Manual: true}
	var past *world // of the session before, while Start replaces it
	var w *world
	checks := rand.New(rand.NewPCG(seed, 8)) // the history does not depend on them
	plan := faultfs.Plan{Hook: func(faultfs.Op) error {
		if checks.IntN(6) == 0 {
			crash(t, mem, checks, w, past)
		}
		return nil
	}}
	for range 3 {
		w = newWorld(t, r, o)
		v := w
		w.o.Full = func() {
			if v.frees {
				v.free()
			}
		}
		fsys.SetPlan(plan)
		w.start(1 + r.IntN(5))
		past = nil
		for range 150 {
			step(t, w)
		}
		must(t, w.journal.Close())
		c := read(t, mem)
		must(t, w.verify(c))
		past = w
	}
}

// step does one random thing.
func step(t *testing.T, w *world) {
	r := w.r
	l := w.logs[r.IntN(len(w.logs))]
	switch p := r.IntN(100); {
	case p < 60:
		size := 1 + r.IntN(400)
		if r.IntN(8) == 0 {
			size = 1 + r.IntN(int(w.journal.BatchMax()))
		}
		l.publish(size, 1+r.IntN(3))
	case p < 63:
		l.publishLarge(1+r.IntN(1<<20), 1+r.IntN(3))
	case p < 66:
		l.roll()
	case p < 80:
		w.journal.TryFlush()
	case p < 84:
		w.journal.Run()
	case p < 92:
		w.free()
	case p < 94:
		w.closeHalf()
	case p < 97:
		w.frees = true // without room it waits for somebody to do that
		must(t, l.truncate())
		w.frees = false
	case p < 98:
		l.forget(func(*Frame) bool { return true })
		l.handle.Leave()
		l.handle = w.journal.Join(l.key.Topic, l.key.Partition, l)
	}
}

// crash looks at what a power loss now would leave.
func crash(t *testing.T, mem *vfs.Mem, r *rand.Rand, w, past *world) {
	o := vfs.CrashOptions{Rand: r, KeepUnsynced: []float64{0, 0.3, 0.8, 1}[r.IntN(4)], Tear: r.IntN(2) == 0}
	clone := mem.CrashClone(o)
	if r.IntN(4) == 0 {
		clone = mem.KillClone()
	}
	c, err := Read(clone, ".")
	if errors.Is(err, fs.ErrNotExist) && w.journal == nil && past == nil {
		return // the very first Start did not get there
	}
	must(t, err)
	defer c.Close()
	if err := verifyEither(c, w, past); err != nil {
		t.Fatal(err)
	}
	if r.IntN(3) > 0 {
		return
	}
	// Recovery makes it durable; another power loss in it changes nothing.
	faulty := faultfs.New(clone, faultfs.FailFrom(r.IntN(4), nil, faultfs.Write, faultfs.Sync))
	c.fs = faulty
	hardened := c.Harden() == nil
	again := clone.CrashClone(o)
	d, err := Read(again, ".")
	if errors.Is(err, fs.ErrNotExist) && w.journal == nil && past == nil {
		return
	}
	must(t, err)
	defer d.Close()
	must(t, verifyEither(d, w, past))
	// A header that was in the cache only may be the old one again: it counts
	// more, all of which was durable elsewhere.
	if hardened && d.Session == c.Session && d.Runs < c.Runs {
		t.Fatalf("%d runs hardened, %d found after a crash", c.Runs, d.Runs)
	}
}

// verifyEither allows the old session or the new one, while one replaces the other.
func verifyEither(c *Contents, w, past *world) error {
	if w.journal != nil || past == nil {
		return w.verify(c)
	}
	if c.Session == past.journal.Session() {
		return past.verify(c)
	}
	if len(c.Frames) > 0 {
		return fmt.Errorf("a new session begins with %d frames", len(c.Frames))
	}
	return nil
}
