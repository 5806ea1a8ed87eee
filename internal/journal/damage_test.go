package journal

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/vfs"
)

// written makes a small journal: so many runs in the half, and more behind.
func written(t testing.TB, runs int) (*world, *vfs.Mem) {
	t.Helper()
	mem := vfs.NewMem()
	w := newWorld(t, seeded(3), Options{FS: mem, Dir: ".", Bytes: BytesMin, Manual: true})
	w.start(2)
	for i := range runs {
		w.logs[i%2].publish(300+100*i, 2)
		w.logs[1-i%2].publish(1200, 1)
		w.journal.Run()
		w.watch()
	}
	return w, mem
}

func content(t testing.TB, fsys vfs.FS) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, Name, 1<<20)
	must(t, err)
	return b
}

func withContent(t testing.TB, b []byte) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	must(t, vfs.WriteTemp(mem, Name, b))
	must(t, mem.SyncDir("."))
	return mem
}

// TestFlipOfEveryByte: a journal with one bit wrong gives exactly what was
// promised, or a *DamageError. The last run is another matter: it cannot be
// told from one that was never finished, and goes as a whole.
func TestFlipOfEveryByte(t *testing.T) {
	for _, wraps := range []bool{false, true} {
		w, mem := written(t, 4)
		if wraps { // the last runs are in the second half, the first is freed or not
			for w.journal.current == 0 {
				w.logs[0].publish(3000, 1)
				w.journal.Run()
				w.watch()
			}
			w.logs[1].publish(10, 1)
			w.journal.Run()
		}
		whole := read(t, mem)
		must(t, w.verify(whole))
		b := content(t, mem)
		flips := flips(b, whole)
		damaged, dropped := 0, 0
		f, err := mem.OpenFile(Name, os.O_RDWR, 0)
		must(t, err)
		flip := func(pos int, mask byte) {
			_, err := f.WriteAt([]byte{b[pos] ^ mask}, int64(pos))
			must(t, err)
		}
		for _, pos := range flips {
			flip(pos, 1<<(pos%8))
			c, err := Read(mem, ".")
			flip(pos, 0)
			if err != nil {
				if e, ok := errors.AsType[*DamageError](err); !ok || !errors.Is(err, ErrDamaged) || e.File != Name {
					t.Fatalf("byte %d: %v", pos, err)
				}
				damaged++
				continue
			}
			inLast := int64(pos) >= whole.last.pos && int64(pos) < whole.last.end
			switch {
			case inLast && c.Runs == whole.Runs-1:
				dropped++
			case c.Runs != whole.Runs:
				t.Fatalf("byte %d: %d runs of %d", pos, c.Runs, whole.Runs)
			default:
				must(t, w.verify(c))
			}
			must(t, c.Close())
		}
		if last := int(whole.last.end - whole.last.pos); dropped != last || damaged == 0 {
			t.Errorf("of %d flips %d were damage and %d of %d dropped the last run", len(flips), damaged, dropped, last)
		}
	}
}

// flips are the positions worth a look: all but the free rest of the halves,
// of which a few do.
func flips(b []byte, c *Contents) (positions []int) {
	for pos := range b {
		used := pos < halvesPos || b[pos] != 0 || pos%blockBytes < 64
		if used || pos%97 == 0 || int64(pos) >= c.last.pos && int64(pos) < c.last.end {
			positions = append(positions, pos)
		}
	}
	return positions
}

// TestHeaderFlips: either copy of the header is enough.
func TestHeaderFlips(t *testing.T) {
	w, mem := written(t, 3)
	b := content(t, mem)
	for _, copies := range [][]int{{0}, {1}, {0, 1}} {
		broken := append([]byte(nil), b...)
		for _, i := range copies {
			broken[i*blockBytes+40] ^= 1
		}
		c, err := Read(withContent(t, broken), ".")
		if len(copies) == 2 {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("without a header: %v", err)
			}
			continue
		}
		must(t, err)
		must(t, w.verify(c))
	}
}

func TestTruncatedFile(t *testing.T) {
	w, mem := written(t, 3)
	b := content(t, mem)
	for size := 0; size < len(b); size += 1 + size/7 {
		if _, err := Read(withContent(t, b[:size]), "."); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", size, len(b), err)
		}
	}
	if _, err := Read(withContent(t, append(b[:len(b):len(b)], 0)), "."); !errors.Is(err, ErrDamaged) {
		t.Errorf("one byte more: %v", err)
	}
	must(t, w.verify(read(t, withContent(t, b))))
	if _, err := Read(vfs.NewMem(), "."); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestNewerVersion(t *testing.T) {
	_, mem := written(t, 1)
	for _, copies := range []int{1, 2} { // one is what an interrupted migration leaves
		b := content(t, mem)
		for i := range copies {
			block := b[i*blockBytes : (i+1)*blockBytes]
			binary.LittleEndian.PutUint32(block[headerMagicEnd:], formatVersion+1)
			binary.LittleEndian.PutUint64(block[headerSumPos:], xxhash.Sum64(block[:headerSumPos]))
		}
		newer := withContent(t, b)
		if _, err := Read(newer, "."); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("Read: %v", err)
		}
		if _, err := Start(Options{FS: newer, Dir: ".", Bytes: BytesMin, Manual: true}); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("Start: %v", err)
		}
	}
}

// TestHeaderOfTornRunProves: the last run is torn and the one before it
// damaged. Its header alone proves that the one before was promised.
func TestHeaderOfTornRunProves(t *testing.T) {
	_, mem := written(t, 3)
	whole := read(t, mem)
	b := content(t, mem)
	b[whole.last.end-20] ^= 1
	c := read(t, withContent(t, b))
	if c.Runs != 2 || c.DroppedRun == nil || c.DroppedRun.Pos != whole.last.pos || c.DroppedRun.Sequence != 3 {
		t.Fatalf("%d runs, dropped %+v", c.Runs, c.DroppedRun)
	}
	b[c.last.pos+10] ^= 1
	if _, err := Read(withContent(t, b), "."); !errors.Is(err, ErrDamaged) {
		t.Errorf("with the run before damaged too: %v", err)
	}
}

// TestStaleRuns: runs of an earlier session are never read, wherever the new
// ones end.
func TestStaleRuns(t *testing.T) {
	w, mem := written(t, 12)
	must(t, w.journal.Close())
	for n := range 5 {
		clone := mem.KillClone()
		v := newWorld(t, seeded(4), Options{FS: clone, Dir: ".", Bytes: BytesMin, Manual: true})
		v.start(1)
		for range n {
			v.logs[0].publish(2000, 1)
			v.journal.Run()
		}
		c := read(t, clone)
		if must(t, v.verify(c)); c.Runs != n || c.DroppedRun != nil {
			t.Errorf("%d runs of %d, dropped %+v", c.Runs, n, c.DroppedRun)
		}
	}
}

// TestRunsThatDoNotBelong: a whole run in the right place that is another's.
func TestRunsThatDoNotBelong(t *testing.T) {
	w, mem := written(t, 3)
	c := read(t, mem)
	right := runHeader{
		session: c.Session, sequence: w.journal.sequence, chain: w.journal.chain,
		pos: w.journal.pos, size: runFixedBytes + frameHeaderBytes, frames: 1,
	}
	frame := Frame{Kind: KindTruncation, First: 7, Next: 7}
	senseless := Frame{Kind: KindReference, First: 7, Next: 7}
	tests := map[string]struct {
		change func(h *runHeader, f *Frame)
		runs   int // 0: damage
	}{
		"right":       {func(*runHeader, *Frame) {}, 4},
		"session":     {func(h *runHeader, _ *Frame) { h.session++ }, 3},
		"chain":       {func(h *runHeader, _ *Frame) { h.chain++ }, 3},
		"earlier":     {func(h *runHeader, _ *Frame) { h.sequence -= 2 }, 3},
		"later":       {func(h *runHeader, _ *Frame) { h.sequence++ }, 0},
		"frame":       {func(_ *runHeader, f *Frame) { *f = senseless }, 0},
		"kind":        {func(_ *runHeader, f *Frame) { f.Kind = 9 }, 0},
		"bytes":       {func(_ *runHeader, f *Frame) { f.Kind, f.Length, f.Next = KindBytes, 1, 8 }, 0},
		"frames":      {func(h *runHeader, _ *Frame) { h.frames = 0 }, 0},
		"more frames": {func(h *runHeader, _ *Frame) { h.frames = 1 << 31 }, 0},
		"too small":   {func(h *runHeader, _ *Frame) { h.size = runFixedBytes - 1 }, 0},
		"negative":    {func(h *runHeader, _ *Frame) { h.size = -1 }, 0},
		"too large":   {func(h *runHeader, _ *Frame) { h.size = 1 << 62 }, 0},
		"elsewhere":   {func(h *runHeader, _ *Frame) { h.pos += blockBytes }, 3},
	}
	for name, test := range tests {
		clone := mem.KillClone()
		f, err := clone.OpenFile(Name, os.O_RDWR, 0)
		must(t, err)
		h, fr := right, frame
		test.change(&h, &fr)
		b := make([]byte, runHeaderBytes+frameHeaderBytes)
		h.put(b)
		fr.put(b[runHeaderBytes:])
		b = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
		_, err = f.WriteAt(b, right.pos)
		must(t, err)
		got, err := Read(clone, ".")
		switch {
		case test.runs == 0 && !errors.Is(err, ErrDamaged):
			t.Errorf("%s: %v", name, err)
		case test.runs > 0 && (err != nil || got.Runs != test.runs || got.DroppedRun != nil):
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestCopiedRuns: what looks like a run is none elsewhere, so that a journal
// kept as data in a log does not confuse that of the store.
func TestCopiedRuns(t *testing.T) {
	w, mem := written(t, 3)
	c := read(t, mem)
	f, err := mem.OpenFile(Name, os.O_RDWR, 0)
	must(t, err)
	b := content(t, mem)
	last := b[c.last.pos : c.last.pos+padded(c.last.end-c.last.pos)]
	_, err = f.WriteAt(last, c.last.pos+padded(c.last.end-c.last.pos))
	must(t, err)
	again := read(t, mem)
	if must(t, w.verify(again)); again.Runs != 3 {
		t.Errorf("%d runs", again.Runs)
	}
}
