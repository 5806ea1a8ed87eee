//go:build interop

package interop

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"
)

// Kinds of differences from Kafka that the comparison allows.
// docs/compatibility.md lists each of them by this name.
const (
	// Kafka looks a timestamp up in the first segment whose largest is not
	// below it, and finds nothing if no such record of that segment is left,
	// because it lies below the log start or compaction emptied it.
	timeInFirstSegment = "offset-by-time-in-first-segment"
	// Kafka answers the largest timestamp of records below the log start.
	timeBelowStart = "max-timestamp-below-log-start"
	// A broker begins a leader epoch at every start. One in which nothing was
	// appended is dropped when the log is loaded, by the engine as by Kafka
	// itself; a broker then begins the next.
	epochWithoutRecord = "leader-epoch-without-record"
)

// wantListed fails the test if the documentation does not tell of a kind of
// difference that the test allows.
func wantListed(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile("../../docs/compatibility.md")
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("docs/compatibility.md is missing: it has to list the differences that allowed_test.go names")
		return
	}
	for _, kind := range []string{timeInFirstSegment, timeBelowStart, epochWithoutRecord} {
		if err != nil || !bytes.Contains(b, []byte(kind)) {
			t.Errorf("docs/compatibility.md does not list the difference %s (%v)", kind, err)
		}
	}
}
