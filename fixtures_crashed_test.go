package oncelog_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// crashed compares a directory as kill -9 left it, and perhaps damage after
// that, with what Kafka made of it: the truth of its sibling "recovered". Only
// topics of users can be compared, and their records: what Kafka's coordinator
// appended when it was up again is not the engine's to append.
func (f *fixture) crashed(t *testing.T) {
	recovered := &fixture{root: f.root, scenario: path.Join(path.Dir(f.scenario), "recovered"), c: f.c, d: f.d}
	o, damages := f.crashedCopy(t, recovered.capturedAt(t))
	kafka := treeOf(t, o.dir)

	o.readOnly = true
	d := o.store(t)
	t.Run("read-only", func(t *testing.T) { f.compareRecovered(t, d, recovered) })
	d.close(t)
	sameTree(t, kafka, treeOf(t, o.dir))

	o.readOnly = false
	d = o.store(t)
	t.Run("recovered", func(t *testing.T) {
		f.compareRecovered(t, d, recovered)
		compareReplay(t, d, f.c)
	})
	t.Run("cuts", func(t *testing.T) { f.compareCuts(t, d, kafka) })
	for _, damage := range damages {
		t.Run("reported "+damage.Damage+" "+damage.File, func(t *testing.T) { f.reported(t, d, damage) })
	}
	d.close(t)
	d = o.store(t)
	t.Run("reopened", func(t *testing.T) {
		f.compareRecovered(t, d, recovered)
		compareReplay(t, d, f.c)
	})
	for _, e := range d.events {
		t.Errorf("opened again after recovery: %s: %s %s", e.Partition, e.Kind, e.File)
	}
	d.close(t)
}

// crashedCopy makes a copy of the directory. One with damage holds only what
// differs from the crashed directory that it was made from.
func (f *fixture) crashedCopy(t testing.TB, now int64) (opening, []truthDamage) {
	t.Helper()
	dir := t.TempDir()
	var damages []truthDamage
	if file := f.path("damage.jsonl"); exists(file) {
		copyTree(t, dir, filepath.Join(f.root, filepath.Dir(filepath.Dir(f.scenario)), "crashed", "data"))
		damages = readLines[truthDamage](t, file)
	}
	copyTree(t, dir, f.path("data"))
	for _, damage := range damages {
		path := filepath.Join(dir, damage.File)
		if damage.Damage == "delete" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else if size := int64(len(mustRead(t, path))); size != damage.SizeAfter {
			t.Fatalf("%s has %d bytes, want %d", path, size, damage.SizeAfter)
		}
	}
	return kafkaOpening(t, dir, now, readHistory(t, f.root, f.scenario)), damages
}

// compareRecovered compares the records of user topics.
func (f *fixture) compareRecovered(t *testing.T, d *opened, recovered *fixture) {
	n := 0
	for _, tp := range d.partitions() {
		file := recovered.path("truth", tp.String(), "records.jsonl")
		if tp.Internal() || !exists(file) {
			continue
		}
		n++
		t.Run(tp.String(), func(t *testing.T) {
			want := readLines[truthRecord](t, file)
			for i := range want {
				want[i].Committed = false
			}
			got := consume(t, d.logs[tp], log.ReadUncommitted)
			compareRecords(t, got.records, want)
			f.c.add("records after a crash", len(got.records))
		})
	}
	if n == 0 {
		t.Error("no partition to compare")
	}
}

// compareReplay compares producers and aborted transactions with a naive
// replay of the files as they are now.
func compareReplay(t *testing.T, d *opened, c *tally) {
	for _, tp := range d.partitions() {
		l := d.logs[tp]
		r := replay(t, readPartitionFiles(t, filepath.Join(d.dir, tp.String())).batchesOf())
		var got []truthProducer
		for _, i := range l.Producers() {
			got = append(got, producerOf(i))
		}
		sortProducers(got)
		if want := r.truths(); !slices.Equal(got, want) {
			t.Errorf("%s: producers\n     %+v\nwant %+v", tp, got, want)
		}
		aborted, err := l.Aborted(0, l.Frontiers().LogEnd)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(r.aborted, func(a, b index.AbortedTxn) int { return cmp.Compare(a.Last, b.Last) })
		if !slices.Equal(aborted, r.aborted) {
			t.Errorf("%s: aborted transactions\n     %+v\nwant %+v", tp, aborted, r.aborted)
		}
		c.add("producers after a crash, by replay", len(got))
		c.add("aborted transactions after a crash, by replay", len(aborted))
	}
}

// compareCuts holds what was taken from the .log files against the events: each
// cut is told, with its bytes, which are kept. Zeros are nothing.
func (f *fixture) compareCuts(t *testing.T, d *opened, before map[string][]byte) {
	told := map[topic.Partition]int64{}
	var kept []byte
	for _, e := range d.events {
		if e.Kind != log.EventTailCut {
			continue
		}
		told[e.Partition] += e.Bytes
		f.c.add("tails cut, told", 1)
		b := mustRead(t, e.File)
		if int64(len(b)) != e.Bytes {
			t.Errorf("%s holds %d bytes, the event says %d", e.File, len(b), e.Bytes)
		}
		kept = append(kept, b...)
	}
	cut := map[topic.Partition]int64{}
	for path, b := range before {
		if !strings.HasSuffix(path, ".log") {
			continue
		}
		tp, err := topic.ParseDir(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if l := d.logs[tp]; l != nil {
			for s := range l.Segments() { // but for what is allocated ahead
				if s.Path == path {
					after = after[:min(int64(len(after)), s.Bytes)]
				}
			}
		}
		if !bytes.HasPrefix(b, after) {
			t.Errorf("%s: what is left is not its head", path)
			continue
		}
		if gone := b[len(after):]; len(bytes.Trim(gone, "\x00")) > 0 {
			cut[tp] += int64(len(gone))
			if !bytes.Contains(kept, gone) {
				t.Errorf("%s: the %d bytes that were cut are not kept", path, len(gone))
			}
		}
	}
	for tp := range d.logs {
		if cut[tp] != told[tp] {
			t.Errorf("%s: %d bytes were cut, events tell of %d", tp, cut[tp], told[tp])
		}
	}
}

// reported looks for the event that tells of a damage. Zeros at the end are
// none.
func (f *fixture) reported(t *testing.T, d *opened, damage truthDamage) {
	tp, err := topic.ParseDir(path.Dir(damage.File))
	if err != nil {
		t.Fatal(err)
	}
	want, bytes := log.EventTailCut, int64(-1)
	switch damage.Damage {
	case "delete":
		want = log.EventIndexRebuilt
	case "zeros":
		want = 0
	case "noise":
		bytes = damage.SizeAfter - damage.SizeBefore
	case "cut": // what is left of the batch that was cut
		s := readSegmentFile(t, f.path("data", filepath.FromSlash(damage.File)))
		bytes = damage.SizeAfter - s.size()
	case "flip":
		bytes = damage.SizeAfter - damage.BatchPos
	default:
		t.Fatalf("damage %q is unknown", damage.Damage)
	}
	f.c.add("damages reported", 1)
	var seen []string
	for _, e := range d.events {
		if e.Partition != tp {
			continue
		}
		segment := strings.HasPrefix(path.Base(filepath.ToSlash(e.File)), path.Base(damage.File))
		if e.Kind == want && segment && (bytes < 0 || e.Bytes == bytes) {
			return
		}
		if want == 0 && e.Kind == log.EventTailCut {
			t.Errorf("told of %d bytes cut from %s: nobody wrote them", e.Bytes, damage.File)
		}
		seen = append(seen, fmt.Sprintf("%s %s, %d bytes", e.Kind, filepath.Base(e.File), e.Bytes))
	}
	if want == 0 {
		return
	}
	t.Errorf("no event %q of %d bytes; those there are: %q", want, bytes, seen)
}
