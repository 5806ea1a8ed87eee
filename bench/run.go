package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// Run runs one workload in a workspace.
//
// When ctx ends, the report has what whole rounds gave so far, Interrupted is
// set, and the error is that of ctx. Other errors: ErrInvalidConfig,
// ErrDiskSpace, those of the engine and the file system.
func Run(ctx context.Context, w *Workspace, c Config) (*Report, error) {
	r := &Report{Started: time.Now()}
	c, err := c.Normalize()
	if err != nil {
		return r, err
	}
	if err := w.Check(c.Estimate().Disk); err != nil {
		return r, err
	}
	if r.Machine, err = ThisMachine(ctx, w); err == nil {
		err = r.run(ctx, w, &c, nil)
	}
	r.Interrupted = ctx.Err() != nil
	return r, err
}

// run adds the results of a workload, and the rows of goals.
func (r *Report) run(ctx context.Context, w *Workspace, c *Config, goals []goal) error {
	dir, err := w.trial()
	if err != nil {
		return err
	}
	switch c.Workload {
	case Append:
		return r.compete(ctx, c, goals, c.appendSides(dir))
	case Read:
		return r.compete(ctx, c, goals, c.readSides(dir))
	case Dedup:
		return r.compete(ctx, c, goals, c.dedupSides(dir))
	case Aborted:
		return r.compete(ctx, c, goals, c.abortedSides(dir))
	case Recovery:
		return r.recovery(ctx, c, dir, goals)
	}
	return r.limits(ctx, c, dir)
}

// compete runs the engine, which comes first, and its references; without goals
// there are ratios.
func (r *Report) compete(ctx context.Context, c *Config, goals []goal, sides []contestant) error {
	if goals == nil {
		goals = ratiosOf(string(c.Workload), sides[0].metric, sides[0].name, sides[1:]...)
	}
	return r.race(ctx, c, goals, sides...)
}

// race runs the sides and adds what they gave.
func (r *Report) race(ctx context.Context, c *Config, goals []goal, sides ...contestant) error {
	all, err := race(ctx, c, sides...)
	stopped := err != nil
	r.add(c, all, stopped)
	for i := range goals {
		r.Rows = append(r.Rows, goals[i].row(all, stopped))
	}
	return err
}

// Labels of goroutines in profiles: those that append to the engine, and those
// that it starts itself.
const (
	stageAppend = "append"
	stageEngine = "engine"
)

// appendSides are the engine, and the references that say what it could be.
func (c *Config) appendSides(dir string) []contestant {
	metric := MetricMBps
	if c.Timed {
		metric = MetricP50
	}
	if c.Timed && c.Writers > 1 {
		metric = MetricOps
	}
	side := func(name string, s sink) contestant {
		return contestant{name: name, params: c.name(), metric: metric, side: newLoad(c, name, s)}
	}
	sides := []contestant{{name: "engine", params: c.name(), metric: metric, side: newLoad(c, stageAppend, newEngine(c, dir))}}
	if !c.Limits {
		return sides
	}
	raw := circle{name: filepath.Join(dir, "raw"), state: c.Files}
	switch {
	case c.Level == "fsync" && c.Writers > 1:
		return append(sides, side("raw group commit", &groupCommit{circle: raw}))
	case c.Level == "fsync":
		return append(sides, side("raw flush", &rawFlush{circle: raw}))
	case c.Burst > 0:
		return append(sides, side("floor", newFloor(filepath.Join(dir, "floor"), c.RecordsPerBatch > 1)))
	}
	return append(sides, side("prototype", newRing(filepath.Join(dir, "ring"), c.SegmentBytes)))
}

func (c *Config) readSides(dir string) []contestant {
	sides := []contestant{{name: "engine", params: c.name(), metric: MetricMBps, side: newEngineRead(c, dir)}}
	if c.Limits {
		sides = append(sides, contestant{name: "floor", params: c.name(), metric: MetricMBps, side: newRawRead(c, filepath.Join(dir, "raw"))})
	}
	return sides
}

// dedupSides are one producer, many producers in turn, and duplicates only.
func (c *Config) dedupSides(dir string) []contestant {
	one, many, again := newLoad(c, "one", newEngine(c, filepath.Join(dir, "one"))),
		newLoad(c, "many", newEngine(c, filepath.Join(dir, "many"))),
		newLoad(c, "duplicates", newEngine(c, filepath.Join(dir, "again")))
	for _, l := range []*load{many, again} {
		for w := range l.sources {
			for _, s := range l.sources[w] {
				s.producers, s.repeat = max(1, int64(c.Producers/(c.Writers*len(l.sources[w])))), l == again
			}
		}
	}
	side := func(name string, l *load) contestant {
		return contestant{name: name, params: c.name(), metric: MetricOps, side: l}
	}
	return []contestant{side("engine", many), side("one producer", one), side("duplicates", again)}
}

// Estimate is what a workload takes at most.
type Estimate struct {
	Disk int64
	Time time.Duration
}

func (e Estimate) String() string {
	return fmt.Sprintf("at most %s of disk, about %s", about(e.Disk), max(e.Time.Round(time.Second), time.Second))
}

// storeBytes is what a store takes beside its segments: room for its own files
// at their usual sizes.
const storeBytes = 512 << 20

// Estimate tells beforehand what a workload will take: of disk at most, of time
// about.
func (c Config) Estimate() Estimate {
	c = c.withDefaults()
	sides := int64(1)
	if c.Limits || c.Workload == Limits {
		sides = 2
	}
	// A round is written before the one before it is deleted.
	e := Estimate{Disk: sides*(3*c.Bytes+2*c.SegmentBytes+rawFileBytes) + storeBytes}
	switch c.Workload {
	case Dedup:
		sides = 3
		e.Disk += 2 * int64(c.Producers) * c.batchBytes()
	case Limits:
		sides = limitsSides
	case Recovery:
		sides = 2 * sides
	case Aborted:
		sides = 2
		e.Disk += int64(c.Transactions) * (c.batchBytes() + 100)
	}
	round := c.Length
	if c.Workload == Recovery || c.Level == "os" && c.Rate == 0 {
		round = min(round, atRate(c.Bytes))
	}
	e.Time = time.Duration(sides)*(c.Warmup+time.Duration(c.Rounds)*round) + atRate(c.Bytes)
	return e
}

// slowRate is at how many bytes a second a machine writes at least, for
// estimates.
const slowRate = 100e6

func atRate(size int64) time.Duration {
	return time.Duration(float64(size) / slowRate * float64(time.Second))
}
