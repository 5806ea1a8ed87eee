package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Profile says how long a suite runs, and with how much data.
type Profile string

// Profiles.
const (
	Quick    Profile = "quick"    // under a minute: whether things are about right
	Standard Profile = "standard" // minutes: what is worth to be compared
	NVMe     Profile = "nvme"     // a real server with a fast device: long rounds, the sizes of the promises
)

// scale is what a profile sets.
type scale struct {
	rounds        int
	length        time.Duration
	warmup        time.Duration
	burst         int64 // bytes of a round of bursts
	sustained     int64 // bytes of a sustained round
	segment       int64 // for sustained rounds: an eighth, at most
	sustainedSize []int // of records
	recovered     []int64
	idle          int
	producers     int
	rate          float64 // P5
}

var scales = map[Profile]scale{
	Quick: {rounds: 5, length: 150 * time.Millisecond, warmup: 30 * time.Millisecond, burst: 8 << 20,
		sustained: 16 << 20, segment: 2 << 20, sustainedSize: []int{1 << 10, 16 << 10},
		recovered: []int64{32 << 20}, idle: 100, producers: 10_000, rate: 5000},
	Standard: {rounds: 7, length: 2 * time.Second, warmup: 300 * time.Millisecond, burst: 64 << 20,
		sustained: 256 << 20, segment: 16 << 20, sustainedSize: []int{100, 1 << 10, 16 << 10, 64 << 10},
		recovered: []int64{1 << 30}, idle: 2000, producers: 1_000_000, rate: 10_000},
	NVMe: {rounds: 9, length: 5 * time.Second, warmup: time.Second, burst: 512 << 20,
		sustained: 4 << 30, segment: 256 << 20, sustainedSize: []int{100, 1 << 10, 16 << 10, 64 << 10},
		recovered: []int64{1 << 30, 10 << 30}, idle: idleAll, producers: 1_000_000, rate: 50_000},
}

// SuiteConfig says what a suite runs.
type SuiteConfig struct {
	Profile Profile  // "": Quick
	Only    []string // promises to run, as P1; none: all
	Bare    bool     // leave the references out, and with them most verdicts
	Base    Config   // Crash, AfterPowerLoss, FS, Direct and Progress for all that runs; Rounds, Length and Bytes over the profile's where set
}

// trial is one race of a suite, and the rows that come from it.
type trial struct {
	config Config
	goals  []goal
	// sides, if set, makes the sides; else the workload does.
	sides func(c *Config, dir string) ([]contestant, []goal)
}

// SuitePromises are the numbers that a suite has rows for.
func SuitePromises() []string {
	return []string{"P1", "P2", "P3", "P4", "P5", "P6", "P11", "P12", "P15", "P16"}
}

// trials lists what the suite runs, and checks all of it.
func (s SuiteConfig) trials() ([]trial, error) {
	setDefault(&s.Profile, Quick)
	sc, ok := scales[s.Profile]
	if !ok {
		return nil, fmt.Errorf("%w: profile %q is unknown, want %s, %s or %s", ErrInvalidConfig, s.Profile, Quick, Standard, NVMe)
	}
	setOver(&sc.rounds, s.Base.Rounds)
	setOver(&sc.length, s.Base.Length)
	var trials []trial
	for _, p := range s.Only {
		if !slices.Contains(SuitePromises(), p) {
			return nil, fmt.Errorf("%w: no promise %q in a suite, want some of %s", ErrInvalidConfig, p, strings.Join(SuitePromises(), " "))
		}
	}
	for _, p := range []struct {
		name string
		make func(*scale) []trial
	}{
		{"P1", burstTrials}, {"P2", sustainedTrials}, {"P3", flushTrials}, {"P4", sharedTrials}, {"P5", besideTrials},
		{"P6", readTrials}, {"P11", recoveryTrials}, {"P12", steadyTrials}, {"P15", idleTrials}, {"P16", writtenTrials},
	} {
		if len(s.Only) == 0 || slices.Contains(s.Only, p.name) {
			trials = append(trials, p.make(&sc)...)
		}
	}
	for i := range trials {
		c := &trials[i].config
		c.Limits = !s.Bare
		c.Crash, c.AfterPowerLoss, c.FS, c.Progress = s.Base.Crash, s.Base.AfterPowerLoss, s.Base.FS, s.Base.Progress
		c.Direct = s.Base.Direct
		setDefault(&c.Rounds, sc.rounds)
		setDefault(&c.Length, sc.length)
		setDefault(&c.Warmup, sc.warmup)
		setOver(&c.Bytes, s.Base.Bytes)
		var err error
		if *c, err = c.Normalize(); err != nil {
			return nil, err
		}
	}
	return trials, nil
}

func setOver[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// Estimate tells beforehand what the suite will take. It answers
// ErrInvalidConfig.
func (s SuiteConfig) Estimate() (Estimate, error) {
	trials, err := s.trials()
	var e Estimate
	for i := range trials {
		one := trials[i].estimate()
		e.Disk, e.Time = max(e.Disk, one.Disk), e.Time+one.Time
	}
	return e, err
}

// What a trial takes beside its rounds, about: stores made, filled and closed;
// an append; a partition that is made, and opened a few times.
const (
	trialOverhead = 300 * time.Millisecond
	opTime        = 4 * time.Microsecond
	partitionTime = 5 * time.Millisecond
)

func (t *trial) estimate() Estimate {
	e := t.config.Estimate()
	if t.sides != nil { // one number a round, each after its own work
		c := &t.config
		e.Disk += int64(c.Partitions) * (64 << 10)
		e.Time = time.Duration(c.Rounds)*(c.Length+time.Duration(c.Producers)*opTime) + time.Duration(c.Partitions)*partitionTime
	}
	e.Time += trialOverhead
	return e
}

// Suite runs the workloads behind the promises and holds what was reached
// against them; errors are as for Run. A trial that fails ends the suite: the
// report has what came before.
func Suite(ctx context.Context, w *Workspace, s SuiteConfig) (*Report, error) {
	setDefault(&s.Profile, Quick)
	r := &Report{Started: time.Now(), Profile: string(s.Profile)}
	trials, err := s.trials()
	if err != nil {
		return r, err
	}
	estimate, _ := s.Estimate() // checked
	if err := w.Check(estimate.Disk); err != nil {
		return r, err
	}
	r.Machine, err = ThisMachine(ctx, w)
	for i := 0; i < len(trials) && err == nil; i++ {
		err = r.trial(ctx, w, &trials[i])
	}
	r.Interrupted = ctx.Err() != nil
	return r, err
}

func (r *Report) trial(ctx context.Context, w *Workspace, t *trial) error {
	for i := range t.goals {
		if t.goals[i].bound.slack < 0 { // of recovery: to be measured
			t.goals[i].bound.slack = openSlack.Seconds() + r.Machine.FlushP50/1e6
		}
	}
	if t.sides == nil {
		return errors.Join(r.run(ctx, w, &t.config, t.goals), w.removeTrials())
	}
	dir, err := w.trial()
	if err != nil {
		return err
	}
	sides, goals := t.sides(&t.config, dir)
	return errors.Join(r.race(ctx, &t.config, goals, sides...), w.removeTrials())
}
