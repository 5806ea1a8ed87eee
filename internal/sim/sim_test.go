package sim

import (
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedFlag      = flag.Uint64("sim.seed", 0, "run the history of this seed alone, with its trace")
	durationFlag  = flag.Duration("sim.duration", 0, "run random histories for so long")
	historiesFlag = flag.Int64("sim.histories", 0, "run so many random histories")
)

// What `go test` runs: seeds 1, 2, 3 … and random ones.
const (
	fixedHistories  = 1000
	randomHistories = 2000
)

// report fails the test with all that is known of a violation.
func report(t *testing.T, err error) {
	t.Helper()
	v, ok := errors.AsType[*Violation](err)
	if !ok {
		t.Fatal(err)
	}
	if again := Replay(v.Seed); again != nil {
		if again.What != v.What {
			t.Logf("seed %d does not replay exactly", v.Seed)
		}
		v = again
	}
	trace := v.Trace[max(len(v.Trace)-60, 0):]
	t.Fatalf("%s\nreplay with: go test -tags invariants ./internal/sim -run TestHistories -sim.seed=%d\nlast of what happened:\n%s\n%s",
		v.What, v.Seed, strings.Join(trace, "\n"), v.What)
}

// runAll runs the seeds that next gives, on all processors, until it gives
// none or one fails.
func runAll(next func() (seed uint64, ok bool)) (total Counts, failed error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	var stop atomic.Bool
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() { // ends with the seeds
			for !stop.Load() {
				mu.Lock()
				seed, ok := next()
				mu.Unlock()
				if !ok {
					return
				}
				counts, err := Run(seed, false)
				mu.Lock()
				total.add(counts)
				if err != nil && failed == nil {
					failed = err
					stop.Store(true)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return total, failed
}

func TestHistories(t *testing.T) {
	if *seedFlag != 0 {
		if _, err := Run(*seedFlag, true); err != nil {
			v, _ := errors.AsType[*Violation](err)
			t.Fatalf("%s\n%s", strings.Join(v.Trace, "\n"), v.What)
		}
		return
	}
	begin := time.Now()
	random := *historiesFlag
	if random == 0 && *durationFlag == 0 {
		random = randomHistories
	}
	fixed := int64(fixedHistories)
	if raceDetector {
		fixed, random = fixed/20, random/20
	}
	n := int64(0)
	counts, err := runAll(func() (uint64, bool) {
		n++
		switch {
		case n <= fixed:
			return uint64(n), true
		case *durationFlag > 0:
			return rand.Uint64(), time.Since(begin) < *durationFlag
		}
		return rand.Uint64(), n <= fixed+random
	})
	t.Logf("%s: %+v", time.Since(begin).Round(time.Millisecond), counts)
	if err != nil {
		report(t, err)
	}
}
