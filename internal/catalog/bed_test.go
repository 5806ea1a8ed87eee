package catalog

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// dataDir is the directory under test in a vfs.Mem.
const dataDir = "data"

// newMem is a file system with an empty data directory, durable.
func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := errors.Join(mem.Mkdir(dataDir, 0o755), mem.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	return mem
}

// direct runs the tests without journal and tail.
var direct = flag.Bool("direct", false, "appends go straight into the segments")

// on are options for a directory on a file system.
func on(fsys vfs.FS) Options {
	return Options{Dir: dataDir, Log: log.Options{FS: fsys}, SegmentBytes: 4 << 10,
		Direct: *direct, MemoryBytes: 1 << 20, JournalBytes: journal.BytesMin, TailBytes: 256 << 10}
}

func mustOpen(t testing.TB, o Options) *Catalog {
	t.Helper()
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func mustClose(t testing.TB, c *Catalog) {
	t.Helper()
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func mustCreate(t testing.TB, c *Catalog, name string, config TopicConfig) {
	t.Helper()
	if err := c.CreateTopic(context.Background(), name, config); err != nil {
		t.Fatal(err)
	}
}

func at(name string, index int32) topic.Partition { return topic.Partition{Topic: name, Index: index} }

// record is a batch with one record of this value.
func record(value string) batch.Batch { return recordOf(batch.Plain, value) }

func recordOf(o batch.BuilderOptions, value string) batch.Batch {
	var w batch.Builder
	w.Reset(nil, o)
	w.Add(1_700_000_000_000, []byte("k"), []byte(value))
	b, err := w.Finish()
	if err != nil {
		panic(err)
	}
	return b
}

func numbered(p batch.Producer, sequence int32) batch.Batch {
	o := batch.Plain
	o.Producer, o.BaseSequence = p, sequence
	return recordOf(o, fmt.Sprint(sequence))
}

func appendTo(c *Catalog, tp topic.Partition, b batch.Batch) (log.Appended, error) {
	l, err := c.Partition(tp)
	if err != nil {
		return log.Appended{}, err
	}
	return l.Append(context.Background(), b, log.AppendOptions{})
}

func mustAppend(t testing.TB, c *Catalog, tp topic.Partition, values ...string) {
	t.Helper()
	for _, v := range values {
		if _, err := appendTo(c, tp, record(v)); err != nil {
			t.Fatal(err)
		}
	}
}

// values are the values of all records of a partition that readers see.
func values(t testing.TB, c *Catalog, tp topic.Partition) []string {
	t.Helper()
	l, err := c.Partition(tp)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for from := l.Frontiers().LogStart; ; {
		f, err := l.Read(from, log.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var records batch.Records
		for b := range f.Batches() {
			for records.Reset(b); records.Next(); {
				all = append(all, string(records.Record().Value))
			}
			if records.Err() != nil {
				t.Fatal(records.Err())
			}
		}
		next := f.NextOffset()
		f.Close()
		if next == from {
			return all
		}
		from = next
	}
}

// tree is the content of all files below a directory, and "" for each
// directory, by path.
func tree(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all
	}
	if err != nil {
		t.Fatal(err)
	}
	all[dir] = ""
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			maps.Copy(all, tree(t, fsys, path))
			continue
		}
		b, err := vfs.ReadFile(fsys, path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(b)
	}
	return all
}

// sameTree tells where two trees differ.
func sameTree(t testing.TB, got, want map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if w, ok := want[path]; !ok {
			t.Errorf("%s is new", path)
		} else if w != got[path] {
			t.Errorf("%s has changed", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[path]; !ok {
			t.Errorf("%s is gone", path)
		}
	}
}

// put writes a file, durably.
func put(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	if err := vfs.Replace(fsys, filepath.Join(dataDir, name), []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func exists(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(filepath.Join(dataDir, name))
	return err == nil
}

// flip inverts one bit of a file.
func flip(t testing.TB, fsys vfs.FS, name string, pos int64) {
	t.Helper()
	f, err := fsys.OpenFile(filepath.Join(dataDir, name), 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], pos); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], pos); err != nil {
		t.Fatal(err)
	}
}

// events collects what a catalog tells.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) add(v Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, v)
}

func (e *events) of(k EventKind) (found []Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.all {
		if v.Kind == k {
			found = append(found, v)
		}
	}
	return found
}

// numbers are the texts of 0 to n-1.
func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}
