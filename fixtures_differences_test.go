package oncelog_test

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The differences from Kafka that these tests allow stand in
// docs/compatibility.md, for users to read; the tests read them from there.

const differencesHeading = "## Differences that tests allow"

// difference is a row of the table: the kind, the door where it shows and a
// pattern of "scenario/partition".
type difference struct {
	kind, door, pattern string
	used                int
}

// doors are those of this test; rows of others belong to other tests.
var doors = []string{"records", "partition", "list_offsets", "epochs", "fetch", "index", "txnindex", "snapshot", "checkpoint"}

// differences counts what a test met. Safe for concurrent use.
type differences struct {
	mu   sync.Mutex
	rows []difference
}

// readDifferences parses the table: | kind | where | Kafka | oncelog | reason |,
// where being a door and patterns of partitions.
func readDifferences(t testing.TB) *differences {
	t.Helper()
	b, err := os.ReadFile("docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(b), differencesHeading)
	if !ok {
		t.Fatalf("docs/compatibility.md has no section %q", differencesHeading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	d := &differences{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 2 || cells[0] != "" || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "Kind" {
			continue
		}
		const columns = 5
		if len(cells) != columns+2 {
			t.Fatalf("docs/compatibility.md: want %d columns: %s", columns, line)
		}
		kind := strings.Trim(strings.TrimSpace(cells[1]), "`")
		where := strings.Fields(strings.NewReplacer("`", "", ",", " ").Replace(cells[2]))
		if kind == "" || len(where) < 2 {
			t.Fatalf("docs/compatibility.md: want a kind, and a door with partitions: %s", line)
		}
		if !slices.Contains(doors, where[0]) {
			continue
		}
		for _, pattern := range where[1:] {
			d.rows = append(d.rows, difference{kind: kind, door: where[0], pattern: pattern})
		}
	}
	return d
}

// allow tells whether a difference of this kind is allowed at this door for a
// partition, and counts it if so.
func (d *differences) allow(kind, door, partition string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.rows {
		r := &d.rows[i]
		if r.kind == kind && r.door == door && matches(r.pattern, partition) {
			r.used++
			return true
		}
	}
	return false
}

// matches is path.Match, but that a lone "*" matches everything.
func matches(pattern, partition string) bool {
	if pattern == "*" {
		return true
	}
	ok, err := path.Match(pattern, partition)
	return ok && err == nil
}

// check fails for every row that no comparison needed.
func (d *differences) check(t testing.TB) {
	t.Helper()
	for _, r := range d.rows {
		if r.used == 0 {
			t.Errorf("docs/compatibility.md allows the difference %s at %s for %s, but it does not occur", r.kind, r.door, r.pattern)
			continue
		}
		t.Logf("%6d × difference %s at %s in %s", r.used, r.kind, r.door, r.pattern)
	}
}

// tally counts what was compared, by name. Safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[name] += n
}

// check prints the counts and fails for each of the names that is 0.
func (c *tally) check(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if c.counts[name] == 0 {
			t.Errorf("compared: no %s at all", name)
		}
	}
	var lines []string
	for name, n := range c.counts {
		lines = append(lines, fmt.Sprintf("%8d %s", n, name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[9:], b[9:]) })
	t.Logf("compared:\n%s", strings.Join(lines, "\n"))
}
