//go:build plant

package kill

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/plant"
)

// plantBug chooses the bug of this process; "": none.
func plantBug(name string) { plant.Set(plant.Bug(name)) }

// plantedLives is how many lives a planted bug may live.
const plantedLives = 40

// killable are the bugs that show, sooner or later, when a process dies. The
// others need a loss of power, a truncation, a fault of the disk, or a retry at
// the right moment: they are for the crash model.
var killable = []plant.Bug{
	plant.AcknowledgedEarly, plant.SnapshotAhead, plant.StartNotRecorded, plant.TicketIgnored, plant.HalfReused,
	plant.HeaderLazy, plant.PointAhead, plant.AcknowledgedBefore, plant.AboveJournal,
}

// TestPlanted shows that the kills bring these bugs to light.
func TestPlanted(t *testing.T) {
	for _, bug := range killable {
		t.Run(strings.ReplaceAll(string(bug), " ", "_"), func(t *testing.T) {
			kills := 0
			for range plantedLives {
				l, err := newLife(t.TempDir(), rand.Uint64N(1<<32))
				if err != nil {
					t.Fatal(err)
				}
				l.bug = string(bug)
				err = l.live(t.Context(), killsOfALife)
				kills += l.counts.kills
				if err != nil {
					line, _, _ := strings.Cut(err.Error(), "\n")
					t.Logf("found by kill %d: seed %d: %.300s", kills, l.scene.seed, line)
					return
				}
				if err := os.RemoveAll(l.home); err != nil {
					t.Fatal(err)
				}
			}
			t.Errorf("not found in %d kills", kills)
		})
	}
}
