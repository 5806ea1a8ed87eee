package index

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const kafkaDir = "../testdata/kafka-4.1.2"

// kafkaFile is an index file that Apache Kafka wrote.
type kafkaFile struct {
	path  string // below kafkaDir
	base  int64
	bytes []byte
	dump  []byte // what Kafka's DumpLogSegments printed for it; nil: none
}

func (f *kafkaFile) crashed() bool { return strings.Contains(f.path, "crashed/data/") }

// kafkaFiles finds every index of one kind and what Kafka itself reads in it.
func kafkaFiles(t *testing.T, kind string) []kafkaFile {
	t.Helper()
	var files []kafkaFile
	err := filepath.WalkDir(kafkaDir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != kind {
			return err
		}
		scenario, rest, ok := strings.Cut(filepath.ToSlash(name), "/data/")
		if !ok {
			return nil
		}
		f := kafkaFile{path: strings.TrimPrefix(name, kafkaDir+"/")}
		if f.base, err = strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), kind), 10, 64); err != nil {
			return err
		}
		if f.bytes, err = os.ReadFile(name); err != nil {
			return err
		}
		partition, file := filepath.Split(rest)
		f.dump, err = os.ReadFile(filepath.Join(scenario, "truth", partition, "dump", file+".txt"))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// parseDump takes the numbers of each line that matches.
func parseDump(t *testing.T, dump []byte, line *regexp.Regexp) [][]int64 {
	t.Helper()
	var all [][]int64
	for _, m := range line.FindAllSubmatch(dump, -1) {
		var numbers []int64
		for _, s := range m[1:] {
			v, err := strconv.ParseInt(string(s), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, v)
		}
		all = append(all, numbers)
	}
	return all
}

var (
	dumpOffset = regexp.MustCompile(`(?m)^offset: (-?\d+) position: (-?\d+)$`)
	dumpTime   = regexp.MustCompile(`(?m)^timestamp: (-?\d+) offset: (-?\d+)$`)
	dumpTxn    = regexp.MustCompile(`(?m)^version: 0 producerId: (-?\d+) firstOffset: (-?\d+) lastOffset: (-?\d+) lastStableOffset: (-?\d+)$`)
)

func collect[E any](n int, at func(int) E) []E {
	var all []E
	for i := range n {
		all = append(all, at(i))
	}
	return all
}

// compare checks one file read in one form against the dump.
func compare[E comparable](t *testing.T, f *kafkaFile, form string, got, want []E, encoded []byte) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s, %s: got %v, want %v", f.path, form, got, want)
	}
	if !bytes.Equal(encoded, f.bytes) {
		t.Errorf("%s, %s: not written as Kafka wrote it", f.path, form)
	}
}

func TestKafkaOffset(t *testing.T) {
	seen := 0
	for _, f := range kafkaFiles(t, kindOffset) {
		if f.dump == nil {
			continue // crashed: TestKafkaCrashed
		}
		var want []OffsetEntry
		for _, v := range parseDump(t, f.dump, dumpOffset) {
			want = append(want, OffsetEntry{v[0], v[1]})
		}
		seen += len(want)
		view, err := ViewOffset(f.base, f.bytes)
		if err != nil {
			t.Errorf("%s: %v", f.path, err)
			continue
		}
		if err := view.Check(); err != nil {
			t.Errorf("%s: %v", f.path, err)
		}
		compare(t, &f, "view", collect(view.Len(), view.At), want, view.AppendTo(nil, 0))
		x := LoadOffset(f.base, f.bytes, 1<<62, 1<<62)
		compare(t, &f, "loaded", collect(x.Len(), x.At), want, x.AppendTo(nil, 0))
	}
	if seen < 500 {
		t.Errorf("only %d entries compared", seen)
	}
}

func TestKafkaTime(t *testing.T) {
	seen := 0
	for _, f := range kafkaFiles(t, kindTime) {
		if f.dump == nil {
			continue
		}
		var want []TimeEntry
		for _, v := range parseDump(t, f.dump, dumpTime) {
			want = append(want, TimeEntry{v[0], v[1]})
		}
		view, err := ViewTime(f.base, f.bytes)
		if err != nil {
			t.Errorf("%s: %v", f.path, err)
			continue
		}
		if err := view.Check(); err != nil {
			t.Errorf("%s: %v", f.path, err)
		}
		seen += len(want)
		compare(t, &f, "view", collect(view.Len(), view.At), want, view.AppendTo(nil, 0))
		x := LoadTime(f.base, f.bytes, 1<<62)
		compare(t, &f, "loaded", collect(x.Len(), x.At), want, x.AppendTo(nil, 0))
	}
	if seen < 500 {
		t.Errorf("only %d entries compared", seen)
	}
}

func TestKafkaTxn(t *testing.T) {
	seen := 0
	for _, f := range kafkaFiles(t, kindTxn) {
		if f.dump == nil {
			t.Errorf("%s: no dump", f.path)
			continue
		}
		var want []AbortedTxn
		for _, v := range parseDump(t, f.dump, dumpTxn) {
			want = append(want, AbortedTxn{v[0], v[1], v[2], v[3]})
		}
		seen += len(want)
		view, err := ViewTxn(f.base, f.bytes)
		if err != nil {
			t.Errorf("%s: %v", f.path, err)
			continue
		}
		if err := view.Check(); err != nil {
			t.Errorf("%s: %v", f.path, err)
		}
		compare(t, &f, "view", collect(view.Len(), view.At), want, view.AppendTo(nil, 0))
		x := LoadTxn(f.base, f.bytes, 1<<62)
		compare(t, &f, "loaded", collect(x.Len(), x.At), want, x.AppendTo(nil, 0))
		for _, e := range want {
			if e.LastStable > e.Last+1 {
				t.Errorf("%s: %v: last stable offset above the marker", f.path, e)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d entries compared", seen)
	}
}

// TestKafkaCrashed reads the indexes that kill -9 left, with their zero tails,
// against the batches of the segment beside them.
func TestKafkaCrashed(t *testing.T) {
	tails, entries := 0, 0
	for _, f := range kafkaFiles(t, kindOffset) {
		if !f.crashed() {
			continue
		}
		batches := batchesOf(t, strings.TrimSuffix(filepath.Join(kafkaDir, f.path), kindOffset)+".log")
		x := LoadOffset(f.base, f.bytes, 1<<62, 1<<62)
		for _, e := range collect(x.Len(), x.At) {
			if batches[e.Pos] != e.Offset {
				t.Errorf("%s: entry %v: batch there ends at %d", f.path, e, batches[e.Pos])
			}
		}
		entries += x.Len()
		rest := f.bytes[x.Len()*OffsetEntrySize:]
		if len(bytes.Trim(rest, "\x00")) != 0 {
			t.Errorf("%s: stopped after %d entries before % x…", f.path, x.Len(), rest[:8])
		}
		if len(rest) > 0 {
			tails++
			if _, err := ViewOffset(f.base, f.bytes); err == nil {
				t.Errorf("%s: a view took the zero tail for entries", f.path)
			}
		}
	}
	for _, f := range kafkaFiles(t, kindTime) {
		if !f.crashed() {
			continue
		}
		x := LoadTime(f.base, f.bytes, 1<<62)
		rest := f.bytes[x.Len()*TimeEntrySize:]
		if len(bytes.Trim(rest, "\x00")) != 0 {
			t.Errorf("%s: stopped after %d entries before % x…", f.path, x.Len(), rest[:12])
		}
		if _, err := ViewTime(f.base, f.bytes); err == nil && len(rest) > 0 {
			t.Errorf("%s: a view took the zero tail for entries", f.path)
		}
		entries += x.Len()
	}
	if tails < 10 || entries < 50 {
		t.Errorf("only %d zero tails, %d entries", tails, entries)
	}
}

// TestKafkaPointsAtBatches holds the offset entries against the segments.
func TestKafkaPointsAtBatches(t *testing.T) {
	for _, f := range kafkaFiles(t, kindOffset) {
		log := strings.TrimSuffix(filepath.Join(kafkaDir, f.path), kindOffset) + ".log"
		if _, err := os.Stat(log); f.crashed() || err != nil {
			continue
		}
		x, err := ViewOffset(f.base, f.bytes)
		if err != nil {
			t.Fatal(err)
		}
		batches := batchesOf(t, log)
		for pos, last := range batches {
			e := x.Lookup(last)
			if _, ok := batches[e.Pos]; !ok || e.Offset > last || e.Pos > pos {
				t.Errorf("%s: Lookup(%d) is %v, its batch is at %d", f.path, last, e, pos)
			}
		}
	}
}

// batchesOf gives the last offset of the batch at each position of a segment.
func batchesOf(t *testing.T, name string) map[int64]int64 {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	batches := map[int64]int64{}
	for pos := 0; len(b)-pos >= 27; {
		size := 12 + int(binary.BigEndian.Uint32(b[pos+8:]))
		base := int64(binary.BigEndian.Uint64(b[pos:]))
		batches[int64(pos)] = base + int64(binary.BigEndian.Uint32(b[pos+23:]))
		pos += size
	}
	return batches
}
