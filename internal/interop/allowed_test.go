//go:build interop

package interop

import (
	"path"
	"strings"
	"testing"
)

// The differences from Kafka that are allowed stand in docs/compatibility.md,
// for users to read; the test reads them from there. It is a table, | kind |
// where | Kafka | oncelog | reason |, of which this test takes the rows whose
// "where" begins with "interop", followed by patterns of partitions.
const (
	differencesFile    = "../../docs/compatibility.md"
	differencesHeading = "## Differences that tests allow"
	differencesDoor    = "interop"
)

// Kinds of differences that the comparison can tell.
const (
	// Kafka looks a timestamp up in the first segment whose largest is not
	// below it, and finds nothing if no such record of that segment is left,
	// because it lies below the log start or compaction emptied it.
	timeInFirstSegment = "offset-by-time-in-first-segment"
	// Kafka answers the largest timestamp of records below the log start.
	timeBelowStart = "max-timestamp-below-log-start"
)

// differencesAllowed are the rows of the table, and how often each was needed.
type differencesAllowed struct {
	rows []allowedRow
}

type allowedRow struct {
	kind, pattern string
	used          int
}

// readAllowed reads the table; without the section nothing is allowed.
func readAllowed(t *testing.T) *differencesAllowed {
	t.Helper()
	a := &differencesAllowed{}
	_, section, _ := strings.Cut(string(readFile(t, differencesFile)), differencesHeading)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 3 {
			continue
		}
		where := strings.Fields(strings.NewReplacer("`", "", ",", " ").Replace(cells[2]))
		if len(where) == 0 || where[0] != differencesDoor {
			continue
		}
		for _, pattern := range where[1:] {
			a.rows = append(a.rows, allowedRow{kind: strings.Trim(cells[1], " `"), pattern: pattern})
		}
	}
	return a
}

// allow tells whether a kind of difference is allowed for a partition.
func (a *differencesAllowed) allow(kind, partition string) bool {
	for i := range a.rows {
		r := &a.rows[i]
		if ok, _ := path.Match(r.pattern, partition); ok && r.kind == kind {
			r.used++
			return true
		}
	}
	return false
}

// check fails the test for every kind that nothing needed. Whether it shows in
// one partition or another depends on what Kafka's cleaner did in time.
func (a *differencesAllowed) check(t *testing.T) {
	t.Helper()
	used := make(map[string]int)
	for _, r := range a.rows {
		used[r.kind] += r.used
	}
	for kind, n := range used {
		if n == 0 {
			t.Errorf("docs/compatibility.md allows the difference %s, but it does not occur", kind)
		}
	}
}
