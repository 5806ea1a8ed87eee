package oncelog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
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

// filesOf is the content of the files of one directory, by name.
func filesOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		all[e.Name()] = mustRead(t, filepath.Join(dir, e.Name()))
	}
	return all
}
