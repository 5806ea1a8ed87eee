package overlay

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

const dir = "/data/orders-0"

func pathOf(segment int64) string { return filepath.Join(dir, strconv.FormatInt(segment, 10)+".log") }

func newDisk(t *testing.T) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	for _, d := range []string{"/data", dir} {
		if err := m.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := m.SyncDir(filepath.Dir(d)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestRandom lays random pieces over random files: the view reads, lists and
// describes what the files are after Write, and what a model of bytes says.
func TestRandom(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		disk := newDisk(t)
		model := map[int64][]byte{}
		for segment := range int64(3) {
			if rng.IntN(3) == 0 {
				continue
			}
			content := randomBytes(rng, 300)
			model[segment] = bytes.Clone(content)
			if err := vfs.WriteTemp(disk, pathOf(segment), content); err != nil {
				t.Fatal(err)
			}
		}
		var pieces []Piece
		for range rng.IntN(6) {
			source := randomBytes(rng, 100)
			at := rng.IntN(len(source))
			p := Piece{Segment: rng.Int64N(3), Pos: rng.Int64N(400), Length: int64(len(source) - at), Source: bytes.NewReader(source), At: int64(at)}
			pieces = append(pieces, p)
			grown := model[p.Segment]
			if missing := int(p.Pos+p.Length) - len(grown); missing > 0 {
				grown = append(grown, make([]byte, missing)...)
			}
			copy(grown[p.Pos:], source[at:])
			model[p.Segment] = grown
		}
		files := Files{}
		files.Add(pieces, pathOf)
		check(t, seed, rng, View(disk, files), model)
		if err := Write(disk, dir, pieces, pathOf); err != nil {
			t.Fatal(err)
		}
		check(t, seed, rng, disk, model)
		// Write is durable, and may be done again.
		check(t, seed, rng, disk.CrashClone(vfs.CrashOptions{}), written(model, pieces))
		if err := Write(disk, dir, pieces, pathOf); err != nil {
			t.Fatal(err)
		}
		check(t, seed, rng, disk, model)
	}
}

func randomBytes(rng *rand.Rand, most int) []byte {
	b := make([]byte, 1+rng.IntN(most))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// written leaves the files out of the model that no piece made durable.
func written(model map[int64][]byte, pieces []Piece) map[int64][]byte {
	touched := map[int64][]byte{}
	for _, p := range pieces {
		touched[p.Segment] = model[p.Segment]
	}
	return touched
}

func check(t *testing.T, seed uint64, rng *rand.Rand, fsys vfs.FS, model map[int64][]byte) {
	t.Helper()
	for segment, want := range model {
		got, err := vfs.ReadFile(fsys, pathOf(segment), 1<<20)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: segment %d reads %d bytes (%v), want %d", seed, segment, len(got), err, len(want))
		}
		info, err := fsys.Stat(pathOf(segment))
		if err != nil || info.Size() != int64(len(want)) {
			t.Fatalf("seed %d: segment %d is described as %v, %v", seed, segment, info, err)
		}
		f, err := fsys.Open(pathOf(segment))
		if err != nil {
			t.Fatal(err)
		}
		pos := rng.IntN(len(want) + 10)
		b := make([]byte, 1+rng.IntN(50))
		n, err := f.ReadAt(b, int64(pos))
		wantN := max(min(len(b), len(want)-pos), 0)
		if n != wantN || !bytes.Equal(b[:n], want[min(pos, len(want)):min(pos, len(want))+n]) || (n < len(b)) != (err == io.EOF) {
			t.Fatalf("seed %d: read of %d at %d of %d: %d bytes, %v", seed, len(b), pos, len(want), n, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		sizes[e.Name()] = info.Size()
	}
	for segment, want := range model {
		if size, found := sizes[filepath.Base(pathOf(segment))]; !found || size != int64(len(want)) {
			t.Fatalf("seed %d: segment %d is listed with %d bytes (%v), want %d", seed, segment, size, found, len(want))
		}
	}
}

// TestReadOnly: a view changes nothing.
func TestReadOnly(t *testing.T) {
	disk := newDisk(t)
	files := Files{}
	files.Add([]Piece{{Segment: 1, Length: 3, Source: bytes.NewReader([]byte("abc"))}}, pathOf)
	for _, v := range []vfs.FS{View(disk, files), View(disk, nil)} {
		_, opened := v.OpenFile(pathOf(1), os.O_RDWR|os.O_CREATE, 0o644)
		_, locked := v.Lock(pathOf(1))
		for what, err := range map[string]error{
			"open": opened, "lock": locked, "remove": v.Remove(dir), "rename": v.Rename(dir, "/x"), "mkdir": v.Mkdir("/x", 0o755), "sync": v.SyncDir(dir),
		} {
			if !errors.Is(err, syscall.EROFS) {
				t.Errorf("%s: %v, want a read-only file system", what, err)
			}
		}
	}
	f, err := View(disk, files).Open(pathOf(1))
	if err != nil {
		t.Fatal(err)
	}
	_, wrote := f.WriteAt([]byte("x"), 0)
	_, wroteV := f.WriteVAt(nil, 0)
	_, mapped := f.Map(1, false)
	for what, err := range map[string]error{"write": wrote, "writev": wroteV, "map": mapped, "truncate": f.Truncate(0), "allocate": f.Allocate(1), "sync": f.Sync(), "datasync": f.Datasync()} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v, want a read-only file system", what, err)
		}
	}
	if _, err := disk.Stat(pathOf(1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the view made a file: %v", err)
	}
}

// TestShortSource: a piece whose source ends early is an error, not zeros.
func TestShortSource(t *testing.T) {
	disk := newDisk(t)
	pieces := []Piece{{Segment: 1, Length: 10, Source: bytes.NewReader([]byte("abc"))}}
	files := Files{}
	files.Add(pieces, pathOf)
	if _, err := vfs.ReadFile(View(disk, files), pathOf(1), 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read: %v", err)
	}
	if err := Write(disk, dir, pieces, pathOf); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("write: %v", err)
	}
}
