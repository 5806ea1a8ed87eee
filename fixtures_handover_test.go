package oncelog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
)

// handover compares the files of a partition, opened for writing and closed
// again without an append, with those that Kafka left: Kafka goes on with them
// as with its own.
func (p *comparison) handover(t *testing.T, kafka string) {
	before, after := filesOf(t, kafka), filesOf(t, p.dir)
	for name, b := range after {
		want, ok := before[name]
		switch {
		case !ok:
			t.Errorf("%s is new", name)
		case strings.HasSuffix(name, ".index"), strings.HasSuffix(name, ".timeindex"), strings.HasSuffix(name, ".snapshot"):
			// Compared by what they say, below.
		case name == checkpoint.LeaderEpochFile:
			p.sameEpochs(t, b, want)
		case !bytes.Equal(b, want):
			t.Errorf("%s has changed", name)
		}
		if ok && bytes.Equal(b, want) {
			p.c.add("files handed over byte for byte", 1)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok && !strings.HasSuffix(name, ".snapshot") {
			t.Errorf("%s is gone", name)
		}
	}
	for i := range p.files {
		s := &p.files[i]
		path := filepath.Join(p.dir, segmentName(s.base))
		offsets, times := readOffsets(t, path+".index", s.base), readTimes(t, path+".timeindex", s.base)
		if err := s.soundIndexes(offsets, times); err != nil {
			t.Errorf("segment %d: %v", s.base, err)
		}
		p.c.add("index entries handed over", len(offsets)+len(times))
	}
	p.snapshot(t, "")
}

// compareRoot compares the files at the root of a directory after a clean close
// with those that Kafka left. Ours begin with "oncelog."; the lock stays.
func (f *fixture) compareRoot(t *testing.T, dir string) {
	before, after := filesOf(t, f.path("data")), filesOf(t, dir)
	for name, b := range before {
		got, ok := after[name]
		switch {
		case !ok:
			t.Errorf("%s is gone", name)
		case strings.HasSuffix(name, "-offset-checkpoint"):
			f.sameOffsets(t, name, got, b)
		case !bytes.Equal(got, b):
			t.Errorf("%s has changed: %q, want %q", name, got, b)
		default:
			f.c.add("files handed over byte for byte", 1)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok && name != ".lock" && !strings.HasPrefix(name, "oncelog.") {
			t.Errorf("%s is new", name)
		}
	}
}

// sameOffsets compares two checkpoint files, whose entries have no order.
// Partitions without a directory are not handed over.
func (f *fixture) sameOffsets(t *testing.T, name string, got, want []byte) {
	t.Helper()
	offsets := func(b []byte) map[topic.Partition]int64 {
		entries, err := checkpoint.ReadOffsets(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := map[topic.Partition]int64{}
		for _, e := range entries {
			if exists(f.path("data", e.Partition.String())) {
				all[e.Partition] = e.Offset
			}
		}
		return all
	}
	ours, kafkas := offsets(got), offsets(want)
	for tp, offset := range kafkas {
		if mine, ok := ours[tp]; !ok || mine != offset {
			t.Errorf("%s: %s %d, want %d", name, tp, mine, offset)
		}
		f.c.add("checkpoint entries handed over", 1)
	}
	for tp, offset := range ours {
		if _, ok := kafkas[tp]; ok {
			continue
		}
		first := readPartitionFiles(t, f.path("data", tp.String()))[0].base
		if name != checkpoint.LogStartFile || offset != first {
			t.Errorf("%s: %s %d is new", name, tp, offset)
		} else if partition := f.scenario + "/" + tp.String(); !f.d.allow("log-start-at-first-segment", "checkpoint", partition) {
			t.Errorf("%s: %s %d is not listed", name, tp, offset)
		}
	}
}

// sameEpochs compares two files of leader epochs.
func (p *comparison) sameEpochs(t *testing.T, got, want []byte) {
	t.Helper()
	a, err := checkpoint.ReadEpochs(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := checkpoint.ReadEpochs(want)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a, b) {
		t.Errorf("leader epochs %v, want %v", a, b)
	}
	p.c.add("leader epochs handed over", len(a))
}

// filesOf is the content of the files of one directory, by name, without those
// in directories below.
func filesOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if !e.IsDir() {
			all[e.Name()] = mustRead(t, filepath.Join(dir, e.Name()))
		}
	}
	return all
}
