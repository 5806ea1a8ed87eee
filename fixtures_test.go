package oncelog_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/internal/topic"
)

// fixturesDir holds log directories that real brokers wrote, and what they and
// their clients said about them; see the README.md there.
const fixturesDir = "testdata/kafka-4.1.2"

// fixturesVariable names another directory of the same layout to test with.
const fixturesVariable = "ONCELOG_FIXTURES"

// fixture is one directory of logs, and the counts of the whole test.
type fixture struct {
	root, scenario string
	c              *tally
	d              *differences
}

func (f *fixture) path(parts ...string) string {
	return filepath.Join(append([]string{f.root, f.scenario}, parts...)...)
}

// TestFixtures holds what the engine says of Kafka's own directories against
// what Kafka said of them.
func TestFixtures(t *testing.T) {
	root, other := fixturesDir, os.Getenv(fixturesVariable)
	if other != "" {
		root = other
	}
	c, d := &tally{}, readDifferences(t)
	crashes := 0
	for _, scenario := range scenarios(t, root) {
		f := &fixture{root: root, scenario: scenario, c: c, d: d}
		if exists(f.path("damage.jsonl")) || !exists(f.path("data", ".kafka_cleanshutdown")) {
			crashes++
			t.Run(scenario, f.crashed)
			continue
		}
		t.Run(scenario, f.clean)
	}
	wanted := []string{"partitions", "producers", "records, read_uncommitted", "records, read_committed", "offsets listed",
		"ends of leader epochs", "fetches", "fetches refused", "bytes fetched", "aborted transactions of fetches",
		"index entries, by the rule", "index entries, equal to Kafka's", "aborted transactions in indexes", "producers in snapshots",
		"files handed over byte for byte", "index entries handed over", "leader epochs handed over", "checkpoint entries handed over"}
	if crashes > 0 || other == "" {
		wanted = append(wanted, "records after a crash", "producers after a crash, by replay",
			"aborted transactions after a crash, by replay", "tails cut, told", "damages reported")
	}
	c.check(t, wanted...)
	if other == "" {
		d.check(t)
	}
}

// scenarios are the directories below root with a folder "data", by their
// paths.
func scenarios(t testing.TB, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "data" {
			name, err := filepath.Rel(root, filepath.Dir(path))
			all = append(all, filepath.ToSlash(name))
			return errFirst(err, filepath.SkipDir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("%s holds no fixtures", root)
	}
	slices.Sort(all)
	return all
}

func errFirst(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// capturedAt is the clock of a truth, in ms.
func (f *fixture) capturedAt(t testing.TB) int64 {
	t.Helper()
	return readJSON[struct {
		CapturedAt int64 `json:"captured_at"`
	}](t, f.path("truth", "capture.json")).CapturedAt
}

// copied is a copy of the directory, and how it is opened. Each of remove is an
// extension of files that the copy lacks.
func (f *fixture) copied(t testing.TB, remove ...string) opening {
	t.Helper()
	dir := t.TempDir()
	copyTree(t, dir, f.path("data"))
	if len(remove) > 0 {
		removeFiles(t, dir, remove...)
	}
	return kafkaOpening(t, dir, f.capturedAt(t), readHistory(t, f.root, f.scenario))
}

// clean compares a directory that a broker closed cleanly.
func (f *fixture) clean(t *testing.T) {
	o := f.copied(t)
	f.readOnly(t, "read-only", o, opening.store)
	d := o.store(t)
	t.Run("writable", func(t *testing.T) { f.compare(t, d, (*comparison).all) })
	d.close(t)
	t.Run("handed-over", func(t *testing.T) {
		f.compareRoot(t, o.dir)
		f.compare(t, d, func(p *comparison, t *testing.T) { p.handover(t, f.path("data", p.log.Partition().String())) })
	})
	closed := treeOf(t, o.dir)
	d = o.store(t)
	t.Run("reopened", func(t *testing.T) { f.compare(t, d, (*comparison).all) })
	d.close(t)
	sameTree(t, closed, treeOf(t, o.dir))

	// The indexes made anew, with the intervals that the topics had.
	o = f.copied(t, ".index", ".timeindex")
	f.readOnly(t, "read-only, without indexes", o, opening.each)
	d = o.each(t)
	d.close(t)
	t.Run("rebuilt", func(t *testing.T) {
		f.compare(t, d, func(p *comparison, t *testing.T) {
			p.indexes(t, &o.history)
			p.txnIndexes(t)
			p.snapshot(t, "")
		})
	})

	// Everything made anew.
	o = f.copied(t, ".index", ".timeindex", ".txnindex", ".snapshot")
	d = o.each(t)
	d.close(t)
	t.Run("replayed", func(t *testing.T) {
		f.compare(t, d, func(p *comparison, t *testing.T) {
			p.txnIndexes(t)
			p.snapshot(t, "producers-of-removed-batches")
		})
	})
}

// readOnly compares the directory opened for reading, which changes nothing.
func (f *fixture) readOnly(t *testing.T, name string, o opening, open func(opening, testing.TB) *opened) {
	before := treeOf(t, o.dir)
	o.readOnly = true
	d := open(o, t)
	t.Run(name, func(t *testing.T) { f.compare(t, d, (*comparison).all) })
	d.close(t)
	sameTree(t, before, treeOf(t, o.dir))
}

// compare holds every partition of which there is a truth against it.
func (f *fixture) compare(t *testing.T, d *opened, with func(p *comparison, t *testing.T)) {
	compared := map[topic.Partition]bool{}
	entries, err := os.ReadDir(f.path("truth"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		tp, err := topic.ParseDir(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		compared[tp] = true
		t.Run(e.Name(), func(t *testing.T) {
			l := d.logs[tp]
			if l == nil {
				t.Fatal("the partition is not there")
			}
			p := &comparison{name: f.scenario + "/" + e.Name(), truth: f.path("truth", e.Name()), dir: filepath.Join(d.dir, e.Name()),
				log: l, files: readPartitionFiles(t, f.path("data", e.Name())), d: f.d, c: f.c}
			with(p, t)
		})
	}
	for _, tp := range d.partitions() {
		if !compared[tp] {
			t.Errorf("there is no truth about %s", tp)
		}
	}
}
