package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// memFiles makes files in memory. Names are paths with directories.
func memFiles(t testing.TB, files map[string][]byte) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	for name, content := range files {
		dir := filepath.Dir(name)
		if err := m.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		if err := vfs.WriteTemp(m, name, content); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// dumpOf runs a dump over a file system, and gives both outputs and the code.
func dumpOf(t testing.TB, fsys vfs.FS, format string, paths ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	o, err := newOutput(&out, format)
	if err != nil {
		t.Fatal(err)
	}
	d := &dumper{fs: fsys, out: o, stderr: &errs, progress: &progress{}, records: true, auto: true}
	if err := d.run(paths); err != nil {
		code = exitCode(err)
	}
	return out.String(), errs.String(), code
}

// refusing refuses what the map says.
type refusing struct {
	vfs.FS
	open, list map[string]error
}

func (r refusing) Open(name string) (vfs.File, error) {
	if err := r.open[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return r.FS.Open(name)
}

func (r refusing) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := r.list[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return r.FS.ReadDir(name)
}

// One file that cannot be read hides no other, and is told.
func TestDumpGoesOn(t *testing.T) {
	files := map[string][]byte{
		"data/meta.properties":                       []byte("version=1\n"),
		"data/t-0/00000000000000000000.log":          batch.AppendMarker(nil, batch.Marker{Commit: true}),
		"data/t-0/00000000000000000001.log":          batch.AppendMarker(nil, batch.Marker{Commit: true}),
		"data/t-0/leader-epoch-checkpoint":           []byte("0\n0\n"),
		"data/t-1/00000000000000000000.log":          nil,
		"data/t-2/00000000000000000000.log":          nil,
		"data/no-partition/readme":                   nil,
		"data/t-0/00000000000000000000.log.4711.cut": nil,
	}
	mem := vfs.NewMem()
	for _, dir := range []string{"data", "data/t-0", "data/t-1", "data/t-2", "data/no-partition"} {
		if err := mem.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		if err := vfs.WriteTemp(mem, name, content); err != nil {
			t.Fatal(err)
		}
	}
	fsys := refusing{
		FS: mem,
		open: map[string]error{
			"data/t-0/00000000000000000000.log": fs.ErrPermission,
			"data/t-0/00000000000000000001.log": fs.ErrNotExist, // removed under us
			"data/t-1/00000000000000000000.log": errors.New("input/output error"),
		},
		list: map[string]error{"data/t-2": fs.ErrPermission},
	}
	stdout, stderr, code := dumpOf(t, fsys, formatText, "data")
	if code != exitBlind {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"data/meta.properties\n", "data/t-0/leader-epoch-checkpoint\n",
		"data/t-0/00000000000000000001.log\nSKIPPED\nit is gone: the directory is in use\n",
		"data/t-0/00000000000000000000.log.4711.cut\nSKIPPED\nnone of the files",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("output lacks %q:\n%s", want, stdout)
		}
	}
	want := `oncelog: data/t-0/00000000000000000000.log: no permission; run as the user that Kafka runs as, or on a copy
oncelog: data/t-1/00000000000000000000.log: input/output error
oncelog: data/t-2: no permission; run as the user that Kafka runs as, or on a copy
`
	if stderr != want {
		t.Errorf("got %s\nwant %s", stderr, want)
	}
}

// A torn tail follows a sound batch wherever the file is cut.
func TestDumpOfEveryCut(t *testing.T) {
	whole := batch.AppendMarker(nil, batch.Marker{Producer: batch.Producer{ID: 9000, Epoch: 7}, Commit: true, Timestamp: 1700000000000})
	two := append(bytes.Clone(whole), whole...)
	for size := range len(two) + 1 {
		mem := memFiles(t, map[string][]byte{"t-0/00000000000000000000.log": two[:size]})
		stdout, _, code := dumpOf(t, mem, formatJSON, "t-0")
		kinds := strings.Count(stdout, `"kind":"tail"`)
		want := 1
		if size%len(whole) == 0 {
			want = 0
		}
		if code != exitSound || kinds != want || strings.Count(stdout, `"kind":"batch"`) != size/len(whole) {
			t.Errorf("cut at %d: exit code %d, output %s", size, code, stdout)
		}
	}
}

// Every flipped bit that the checksum or the framing covers is shown.
func TestDumpOfEveryFlip(t *testing.T) {
	sound := batch.AppendMarker(nil, batch.Marker{Producer: batch.Producer{ID: 9000, Epoch: 7}, Commit: true, Timestamp: 1700000000000})
	for bit := range 8 * len(sound) {
		pos := bit / 8
		if pos < 16 && (pos < 8 || pos >= 12) {
			continue // base offset and leader epoch: only other files tell
		}
		b := bytes.Clone(sound)
		b[pos] ^= 1 << (bit % 8)
		mem := memFiles(t, map[string][]byte{"t-0/00000000000000000000.log": b})
		stdout, _, code := dumpOf(t, mem, formatJSON, "t-0")
		if code == exitSound && !strings.Contains(stdout, `"kind":"tail"`) {
			t.Errorf("bit %d of byte %d flipped: not seen\n%s", bit%8, pos, stdout)
		}
	}
}

// fixture reads a file that Kafka wrote.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(kafkaDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzDump shows any bytes under every name that dump knows.
func FuzzDump(f *testing.F) {
	names := []string{
		"00000000000000000150.log", "00000000000000000150.index", "00000000000000000150.timeindex",
		"00000000000000000150.txnindex", "00000000000000000150.snapshot", "leader-epoch-checkpoint",
		"partition.metadata", "meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint",
	}
	for i, name := range names[:7] {
		f.Add(uint8(i), fixture(f, "txn/data/orders-0/"+name))
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		mem := memFiles(t, map[string][]byte{"__consumer_offsets-0/" + names[int(which)%len(names)]: content})
		text, _, textCode := dumpOf(t, mem, formatText, "__consumer_offsets-0")
		stdout, _, code := dumpOf(t, mem, formatJSON, "__consumer_offsets-0")
		if text == "" || code != textCode {
			t.Fatalf("exit codes %d and %d, text %q", textCode, code, text)
		}
		for line := range strings.Lines(stdout) {
			if !json.Valid([]byte(line)) {
				t.Fatalf("not JSON: %s", line)
			}
		}
	})
}
