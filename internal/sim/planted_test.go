//go:build plant

package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/plant"
)

// plantedHistories is how many histories a planted bug may live.
const plantedHistories = 20_000

// TestPlanted shows that the model finds each planted bug, and that none of
// them is what it finds when none is there.
func TestPlanted(t *testing.T) {
	defer plant.Set(plant.None)
	for _, bug := range plant.All {
		t.Run(strings.ReplaceAll(string(bug), " ", "_"), func(t *testing.T) {
			plant.Set(bug)
			counts, begin := plantedRun(t)
			v, found := errors.AsType[*Violation](begin.err)
			if !found {
				t.Fatalf("not found in %d histories", counts.Histories)
			}
			t.Logf("found in history %d, after %s: seed %d: %s", counts.Histories, begin.took.Round(time.Millisecond), v.Seed, firstLine(v.What))
		})
	}
	plant.Set(plant.None)
	n := uint64(0)
	if _, err := runAll(func() (uint64, bool) { n++; return n, n <= 200 }); err != nil {
		t.Fatalf("found without any bug: %v", err)
	}
}

type outcome struct {
	err  error
	took time.Duration
}

func plantedRun(t *testing.T) (Counts, outcome) {
	t.Helper()
	begin, n := time.Now(), uint64(0)
	counts, err := runAll(func() (uint64, bool) { n++; return n, n <= plantedHistories })
	return counts, outcome{err, time.Since(begin)}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line[:min(len(line), 200)]
}
