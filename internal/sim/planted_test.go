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
const plantedHistories = 60_000

// plantedScenes says where a bug can show, of those that show in some scenes
// only: histories on other ones are left out.
var plantedScenes = map[plant.Bug]func(s *scene) bool{
	plant.TicketIgnored:      (*scene).journaled,
	plant.TornRun:            (*scene).journaled,
	plant.StaleSlot:          func(s *scene) bool { return s.journaled() && s.tail == tailSizes[0] },
	plant.HalfReused:         (*scene).journaled,
	plant.HeaderLazy:         (*scene).journaled,
	plant.PointAhead:         (*scene).journaled,
	plant.RunNotRewritten:    (*scene).journaled,
	plant.WatermarkEarly:     func(s *scene) bool { return !s.replicated },
	plant.NoFlush:            (*scene).journaled,
	plant.TruncationEarly:    func(s *scene) bool { return s.journaled() && s.replicated },
	plant.LargeUnsynced:      (*scene).journaled,
	plant.AboveJournal:       (*scene).journaled,
	plant.QueueDropped:       (*scene).journaled,
	plant.ForeignOverwritten: (*scene).journaled,
	plant.AcknowledgedBefore: nil,
}

// TestPlanted shows that the model finds each planted bug, and that none of
// them is what it finds when none is there.
func TestPlanted(t *testing.T) {
	defer plant.Set(plant.None)
	for _, bug := range plant.All {
		t.Run(strings.ReplaceAll(string(bug), " ", "_"), func(t *testing.T) {
			plant.Set(bug)
			counts, begin := plantedRun(plantedScenes[bug])
			v, found := errors.AsType[*Violation](begin.err)
			if !found {
				t.Fatalf("not found in %d histories, %s", counts.Histories, begin.took.Round(time.Millisecond))
			}
			plant.Set(plant.None)
			if v := Replay(v.Seed); v != nil {
				t.Fatalf("seed %d fails without any bug: %s", v.Seed, v.What)
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

// plantedRun runs seeds 1, 2, 3 … of scenes that fit.
func plantedRun(fits func(*scene) bool) (Counts, outcome) {
	begin, seed, n := time.Now(), uint64(0), 0
	counts, err := runAll(func() (uint64, bool) {
		for seed++; fits != nil && !fits(&newHistory(seed, false).scene); seed++ {
		}
		n++
		return seed, n <= plantedHistories
	})
	return counts, outcome{err, time.Since(begin)}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line[:min(len(line), 200)]
}
