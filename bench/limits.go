package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// limitsSides is about how many sides limits measures.
const limitsSides = 18

// limits measures what the machine can do in four groups, each in turn with
// the engine: appends to memory and page cache, flushes of one writer, flushes
// that writers share, reads.
func (r *Report) limits(ctx context.Context, c *Config, dir string) error {
	for _, group := range []func(*Config, string) (Config, []contestant, []goal){
		memoryLimits, flushLimits, sharedLimits, readLimits,
	} {
		n, err := os.MkdirTemp(dir, "group-")
		if err != nil {
			return err
		}
		config, sides, goals := group(c, n)
		if err := r.race(ctx, &config, goals, sides...); err != nil {
			return err
		}
	}
	return nil
}

// compareAll makes a row for each side but the first, held against the first.
func compareAll(prefix string, m Metric, sides []contestant) []goal {
	var goals []goal
	for _, s := range sides[1:] {
		one := ratiosOf(prefix, m, s.name, sides[0])
		one[0].id = prefix + "/" + strings.ReplaceAll(s.name, " ", "-")
		goals = append(goals, one...)
	}
	return goals
}

// limited is the configuration of a group.
func limited(c *Config, level string, timed bool) Config {
	g := *c
	g.Level, g.Timed, g.Rate, g.FlushEvery, g.Burst = level, timed, 0, 0, 0
	g.Workload = Append
	return g
}

func memoryLimits(c *Config, dir string) (Config, []contestant, []goal) {
	g := limited(c, "os", false)
	g.Writers = 1
	in := func(name string) string { return filepath.Join(dir, name) }
	side := func(name string, s sink) contestant {
		return contestant{name: name, params: "limits/memory/size=" + SizeText(int64(g.RecordBytes)), metric: MetricMBps, side: newLoad(&g, name, s)}
	}
	sides := []contestant{
		side("floor", newFloor(in("floor"), false)),
		side("prototype", newRing(in("ring"), g.SegmentBytes)),
		side("engine", newEngine(&g, in("engine"))),
		side("pwrite", &rawWrite{circle: circle{name: in("pwrite"), state: Written}}),
		side("mapped segment", &mapSegment{dir: in("mapped"), segmentBytes: g.SegmentBytes}),
	}
	if canPopulate {
		sides = append(sides, side("mapped segment populated", &mapSegment{dir: in("populated"), segmentBytes: g.SegmentBytes, populated: true}))
	}
	return g, sides, compareAll("limits/memory", MetricMBps, sides)
}

func flushLimits(c *Config, dir string) (Config, []contestant, []goal) {
	g := limited(c, "fsync", true)
	g.Writers = 1
	in := func(name string) string { return filepath.Join(dir, name) }
	side := func(name string, s sink) contestant {
		return contestant{name: name, params: "limits/flush/size=" + SizeText(int64(g.RecordBytes)), metric: MetricP50, side: newLoad(&g, name, s)}
	}
	sides := []contestant{
		side("raw flush", &rawFlush{circle: circle{name: in("written"), state: Written}}),
		side("raw flush unwritten file", &rawFlush{circle: circle{name: in("unwritten"), state: Fresh}}),
		side("engine", newEngine(&g, in("engine"))),
		side("mapped and msync", &mapSegment{dir: in("msync"), segmentBytes: g.SegmentBytes, sync: mapSyncRange}),
		side("mapped and fdatasync", &mapSegment{dir: in("fdatasync"), segmentBytes: g.SegmentBytes, sync: mapSyncFile}),
	}
	return g, sides, compareAll("limits/flush", MetricP50, sides)
}

func sharedLimits(c *Config, dir string) (Config, []contestant, []goal) {
	g := limited(c, "fsync", true)
	if g.Writers == 1 {
		g.Writers = 16
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	side := func(name string, s sink) contestant {
		return contestant{name: name, params: g.name(), metric: MetricOps, side: newLoad(&g, name, s)}
	}
	sides := []contestant{
		side("raw group commit", &groupCommit{circle: circle{name: in("shared"), state: Written}}),
		side("engine", newEngine(&g, in("engine"))),
	}
	return g, sides, compareAll("limits/shared", MetricOps, sides)
}

func readLimits(c *Config, dir string) (Config, []contestant, []goal) {
	g := limited(c, "os", false)
	g.Workload, g.Writers = Read, 1
	sides := []contestant{
		{name: "pread and checksum", params: g.name(), metric: MetricMBps, side: newRawRead(&g, filepath.Join(dir, "raw"))},
		{name: "engine", params: g.name(), metric: MetricMBps, side: newEngineRead(&g, filepath.Join(dir, "engine"))},
	}
	return g, sides, compareAll("limits/read", MetricMBps, sides)
}
