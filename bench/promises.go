package bench

import (
	"fmt"
	"time"
)

// burstBytes is what a burst appends: the memory that one partition has at
// level os holds it.
const burstBytes = 512 << 10

// burstTrials are P1.
func burstTrials(s *scale) []trial {
	var trials []trial
	one := func(size, records int, least float64) {
		id, reference := "P1/"+SizeText(int64(size)), "floor"
		if records > 1 {
			id += fmt.Sprintf("x%d", records)
		}
		trials = append(trials, trial{
			config: Config{Workload: Append, RecordBytes: size, RecordsPerBatch: records, Level: "os",
				Burst: burstBytes, Bytes: s.burst, Length: 4 * s.length},
			goals: []goal{{id: id, what: "append at level os, burst", metric: MetricMBps, reference: reference, bound: atLeast(least)}},
		})
	}
	one(100, 1, 0.25)
	one(1<<10, 1, 0.5)
	one(16<<10, 1, 0.85)
	one(100, 100, 0.7)
	return trials
}

// sustainedTrials are P2: rates without the clock of single appends, and
// latencies with it.
func sustainedTrials(s *scale) []trial {
	var trials []trial
	for _, size := range s.sustainedSize {
		c := Config{Workload: Append, RecordBytes: size, Level: "os", SegmentBytes: s.segment, Bytes: s.sustained, Length: 4 * s.length}
		id, what := "P2/"+SizeText(int64(size)), fmt.Sprintf("append at level os, sustained, segments of %s", SizeText(s.segment))
		timed := c
		timed.Timed = true
		trials = append(trials,
			trial{config: c, goals: []goal{{id: id, what: what, metric: MetricMBps, reference: "prototype", bound: atLeast(0.8)}}},
			trial{config: timed, goals: []goal{{id: id + "/p99.9", what: what, metric: MetricP999, reference: "prototype", bound: atMost(2)}}})
	}
	return trials
}

// flushTrials are P3.
func flushTrials(*scale) []trial {
	var trials []trial
	for _, size := range []int{1 << 10, 16 << 10} {
		trials = append(trials, trial{
			config: Config{Workload: Append, RecordBytes: size, Level: "fsync"},
			goals: []goal{{id: "P3/" + SizeText(int64(size)), what: "append at level fsync, 1 writer", metric: MetricP50,
				reference: "raw flush", bound: atMost(1.15)}},
		})
	}
	return trials
}

// sharedTrials are P4.
func sharedTrials(*scale) []trial {
	var trials []trial
	for _, writers := range []int{16, 64} {
		for _, partitions := range []int{1, 64} {
			trials = append(trials, trial{
				config: Config{Workload: Append, Level: "fsync", Writers: writers, Partitions: partitions},
				goals: []goal{{id: fmt.Sprintf("P4/%dx%d", writers, partitions),
					what:   fmt.Sprintf("appends at level fsync, %d writers, %d partitions", writers, partitions),
					metric: MetricOps, reference: "raw group commit", bound: atLeast(0.9)}},
			})
		}
	}
	return trials
}

// besideTrials are P5.
func besideTrials(s *scale) []trial {
	return []trial{{
		config: Config{Workload: Append, Level: "os", Rate: s.rate, FlushEvery: 20 * time.Millisecond, Length: 2 * s.length},
		goals: []goal{{id: "P5/1KiB", what: fmt.Sprintf("append at level os, %g/s, flushes every 20 ms", s.rate), metric: MetricP999,
			reference: "prototype", bound: atMost(1.3)}},
	}}
}

// readTrials are P6.
func readTrials(s *scale) []trial {
	var trials []trial
	for _, size := range []int{1 << 10, 16 << 10} {
		trials = append(trials, trial{
			config: Config{Workload: Read, RecordBytes: size, Bytes: min(s.sustained, 256<<20)},
			goals: []goal{{id: "P6/" + SizeText(int64(size)), what: "sequential read, cached", metric: MetricMBps,
				reference: "floor", bound: atLeast(0.75)}},
		})
	}
	return trials
}

// recoveryTrials are P11.
func recoveryTrials(s *scale) []trial {
	var trials []trial
	for _, level := range []string{"os", "fsync"} {
		for _, size := range s.recovered {
			row := func(crash, engine, reference string) goal {
				return goal{id: fmt.Sprintf("P11/%s/%s/%s", crash, level, SizeText(size)), what: "open " + engine, metric: MetricSeconds,
					engine: engine, reference: reference,
					bound: bound{limit: 1.5, most: true, slack: -1, text: "≤ 1.5 × " + reference + " + 1 flush + 20 ms"}}
			}
			trials = append(trials, trial{
				config: Config{Workload: Recovery, Level: level, Bytes: size, RecordBytes: 16 << 10, SegmentBytes: 256 << 20, Rounds: min(s.rounds, 5)},
				goals: []goal{
					row("kill", "after kill", "scan and rewrite"),
					row("power", "after power loss", "cold scan and rewrite"),
				},
			})
		}
	}
	return trials
}

// steadyTrials are P12.
func steadyTrials(s *scale) []trial {
	c := Config{Workload: Dedup, RecordBytes: 100, Level: "os", Bytes: 16 << 20, Producers: s.producers, Rounds: min(s.rounds, 5)}
	collector := func(with bool) func(*Config, string) ([]contestant, []goal) {
		return func(c *Config, dir string) ([]contestant, []goal) { return collectionSides(c, dir, with) }
	}
	return []trial{
		{config: c, sides: allocationSides},
		{config: c, sides: stallSides},
		{config: c, sides: collector(false)},
		{config: c, sides: collector(true)},
	}
}

// idleTrials are P15.
func idleTrials(s *scale) []trial {
	return []trial{{
		config: Config{Workload: Dedup, RecordBytes: 100, Level: "os", Bytes: 1 << 20, Partitions: s.idle, Rounds: min(s.rounds, 3)},
		sides:  idleSides,
	}}
}

// writtenTrials are P16.
func writtenTrials(s *scale) []trial {
	return []trial{{
		config: Config{Workload: Dedup, Level: "fsync", Writers: 16, Bytes: s.sustained, Rounds: min(s.rounds, 5)},
		sides: func(c *Config, dir string) ([]contestant, []goal) {
			small, large, busy := *c, *c, *c
			small.Workload, small.Producers = Append, 0
			large.Workload, large.Producers, large.RecordBytes, large.Writers = Append, 0, 256<<10, 4
			busy.Workload, busy.Level, busy.Producers, busy.Writers, busy.Partitions = Append, "os", 0, 1, 64
			busy.Bytes = 64 * (256 << 10)
			return writtenSides(&small, &large, &busy, dir)
		},
	}}
}
