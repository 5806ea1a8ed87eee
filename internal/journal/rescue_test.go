package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// rescued are the frames of contents with their bytes, and one larger than a run.
func rescued(c *Contents) []RescueFrame {
	var frames []RescueFrame
	for _, f := range c.Frames {
		frames = append(frames, RescueFrame{Frame: f, Data: c.ReaderAt(f)})
	}
	return frames
}

func large(size int) RescueFrame {
	return RescueFrame{
		Frame: Frame{Kind: KindBytes, Length: int64(size), Next: 1},
		Data:  bytes.NewReader(bytes.Repeat([]byte("large"), size/5+1)),
	}
}

func sameFrames(t *testing.T, c *Contents, want []RescueFrame) {
	t.Helper()
	if len(c.Frames) != len(want) {
		t.Fatalf("%d frames, want %d", len(c.Frames), len(want))
	}
	for i, f := range c.Frames {
		g := want[i]
		g.Frame.at = f.at
		a, b := make([]byte, f.carried()), make([]byte, f.carried())
		n, _ := c.ReaderAt(f).ReadAt(a, 0)
		if len(b) > 0 {
			_, _ = g.Data.ReadAt(b, 0)
		}
		if f != g.Frame || n != len(a) || !bytes.Equal(a, b) {
			t.Fatalf("frame %d is %+v, want %+v", i, f, g.Frame)
		}
	}
}

func TestRescue(t *testing.T) {
	w, mem := written(t, 5)
	must(t, w.logs[0].truncate())
	w.logs[1].publishLarge(1<<20, 3)
	w.journal.Run()
	frames := append(rescued(read(t, mem)), large(runBytesMax+12345), large(5000), large(1))
	must(t, WriteRescue(mem, ".", frames))
	crashed := mem.CrashClone(vfs.CrashOptions{})
	c, err := ReadRescue(crashed, ".")
	must(t, err)
	defer c.Close()
	sameFrames(t, c, frames)
	must(t, c.Harden())
	if _, err := c.Fold(); err != nil {
		t.Error(err)
	}
	must(t, RemoveRescue(mem, "."))
	if _, err := ReadRescue(mem, "."); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	must(t, WriteRescue(mem, ".", nil))
	none, err := ReadRescue(mem, ".")
	if must(t, err); len(none.Frames) != 0 {
		t.Errorf("%d frames of none", len(none.Frames))
	}
}

// TestRescueIsReplacedWhole, whichever operation fails and wherever power is
// lost.
func TestRescueIsReplacedWhole(t *testing.T) {
	w, mem := written(t, 3)
	must(t, w.journal.Close())
	frames := rescued(read(t, mem))
	first, second := frames[:2], frames
	must(t, WriteRescue(mem, ".", first))
	for n := 0; ; n++ {
		clone := mem.KillClone()
		faulty := faultfs.New(clone, faultfs.FailFrom(n, nil))
		err := WriteRescue(faulty, ".", second)
		for i := range uint64(6) {
			crashed := clone.CrashClone(vfs.CrashOptions{Rand: seeded(i), KeepUnsynced: float64(i) / 5})
			c, readErr := ReadRescue(crashed, ".")
			must(t, readErr)
			if want := first; err == nil || len(c.Frames) == len(second) {
				sameFrames(t, c, second)
			} else {
				sameFrames(t, c, want)
			}
			must(t, c.Close())
		}
		if !faulty.Fired() {
			must(t, err)
			break
		}
	}
}

// TestRescueFlips: nothing of a rescue file is dropped.
func TestRescueFlips(t *testing.T) {
	w, mem := written(t, 3)
	frames := rescued(read(t, mem))
	must(t, w.journal.Close())
	must(t, WriteRescue(mem, ".", frames))
	b, err := vfs.ReadFile(mem, RescueName, 1<<20)
	must(t, err)
	refused := 0
	for pos := 0; pos < len(b); pos += 3 {
		b[pos] ^= 4
		other := vfs.NewMem()
		must(t, vfs.WriteTemp(other, RescueName, b))
		b[pos] ^= 4
		c, err := ReadRescue(other, ".")
		if err != nil {
			if refused++; !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			continue
		}
		sameFrames(t, c, frames)
		must(t, c.Close())
	}
	if refused == 0 {
		t.Error("no flip is seen")
	}
	for size := 0; size < len(b); size += 1 + size/5 {
		other := vfs.NewMem()
		must(t, vfs.WriteTemp(other, RescueName, b[:size]))
		if _, err := ReadRescue(other, "."); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
