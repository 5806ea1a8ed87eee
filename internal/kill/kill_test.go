package kill

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var (
	roundsFlag = flag.Int("kill.rounds", 10, "kill so many processes")
	seedFlag   = flag.Uint64("kill.seed", 0, "seed of the first life, the next have the numbers that follow; 0: random")
	dirFlag    = flag.String("kill.dir", "", "where to make the directories, on the file system to try; a life that fails is left there (default: a temporary directory, which goes)")
)

// killsOfALife: then the next one begins, with an empty directory and another
// scene.
const killsOfALife = 10

// manyRounds is from how many on everything that can happen must have.
const manyRounds = 100

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild())
	}
	os.Exit(m.Run())
}

// TestKill kills processes, and finds nothing lost.
func TestKill(t *testing.T) {
	parent := *dirFlag
	if parent == "" {
		parent = t.TempDir()
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	t.Logf("%d kills, from seed %d on, in %s", *roundsFlag, seed, parent)
	begin := time.Now()
	var total counts
	var sum tally
	for left := *roundsFlag; left > 0; seed++ {
		rounds := min(left, killsOfALife)
		l, err := newLife(parent, seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.live(t.Context(), rounds); err != nil {
			t.Fatalf("%v\nfiles are in %s\nagain, as far as a machine does the same twice:\n  go test -tags invariants ./internal/kill -v -run TestKill -kill.rounds=%d -kill.seed=%d -kill.dir=DIR",
				err, l.home, rounds, seed)
		}
		if err := os.RemoveAll(l.home); err != nil {
			t.Fatal(err)
		}
		left -= rounds
		total.add(l.counts)
		sum.add(l.known.tally)
		t.Logf("%v: seed %d: %d of %d kills (%d while recovering, %d while closing, %d on the direct path), %d clean stops; appends: %d acknowledged, all there; of others %d there whole, %d not; %.1f MB",
			time.Since(begin).Round(time.Second), seed, total.kills, *roundsFlag, total.recovering, total.closing, total.direct, total.stops,
			sum.acked, sum.unanswered, sum.lost, float64(sum.bytes)/1e6)
	}
	t.Logf("%+v %+v", total, sum)
	if *roundsFlag >= manyRounds {
		for what, n := range map[string]int{
			"kills while recovering": total.recovering, "kills while closing": total.closing, "kills on the direct path": total.direct,
			"clean stops": total.stops, "acknowledged": sum.acked, "not acknowledged, and there": sum.unanswered, "not acknowledged, and lost": sum.lost,
			"published, and lost": sum.unordered, "large batches": sum.large, "deleted records": int(sum.deleted),
			"segments rolled": total.rolls, "checkpoints": total.checkpoints, "appends that waited for memory": total.waits,
			"turns of the journal": total.turns,
		} {
			if n == 0 {
				t.Errorf("%s: none in %d kills", what, *roundsFlag)
			}
		}
	}
}

func (c *counts) add(o counts) {
	c.kills += o.kills
	c.recovering += o.recovering
	c.closing += o.closing
	c.direct += o.direct
	c.stops += o.stops
	c.rolls += o.rolls
	c.checkpoints += o.checkpoints
	c.waits += o.waits
	c.turns += o.turns
}

func (t *tally) add(o tally) {
	t.acked += o.acked
	t.unanswered += o.unanswered
	t.lost += o.lost
	t.unordered += o.unordered
	t.large += o.large
	t.deleted += o.deleted
	t.bytes += o.bytes
	t.journaled += o.journaled
}
