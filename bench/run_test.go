package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog"
)

// small is a workload that ends by its bytes, in milliseconds.
func small(w Workload) Config {
	return Config{Workload: w, Rounds: 2, Warmup: time.Millisecond, Length: 20 * time.Millisecond, Bytes: 64 << 10,
		RecordBytes: 256, SegmentBytes: 1 << 20, Producers: 7, Transactions: 5, Limits: true}
}

func workspace(t *testing.T) *Workspace {
	t.Helper()
	w, err := OpenWorkspace(filepath.Join(t.TempDir(), "bench"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(false); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(w.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("something was left: %v", err)
		}
	})
	return w
}

// TestWorkloads runs each once: all sides have all rounds, and did something.
func TestWorkloads(t *testing.T) {
	with := func(w Workload, change func(c *Config)) Config {
		c := small(w)
		change(&c)
		return c
	}
	for _, c := range []struct {
		name   string
		config Config
		sides  string
	}{
		{"append fsync", small(Append), "engine, raw flush"},
		{"append fsync shared", with(Append, func(c *Config) { c.Writers, c.Partitions = 4, 8 }), "engine, raw group commit"},
		{"append os", with(Append, func(c *Config) { c.Level = "os" }), "engine, prototype"},
		{"append os plain fresh", with(Append, func(c *Config) { c.Level, c.Producer, c.Files = "os", Plain, Fresh }), "engine, prototype"},
		{"append idempotent fresh", with(Append, func(c *Config) { c.Files = Fresh }), "engine, raw flush"},
		{"append burst", with(Append, func(c *Config) { c.Level, c.Burst = "os", 16<<10 }), "engine, floor"},
		{"append burst many", with(Append, func(c *Config) { c.Level, c.Burst, c.RecordsPerBatch = "os", 16<<10, 10 }), "engine, floor"},
		{"append open loop", with(Append, func(c *Config) { c.Level, c.Rate, c.Writers, c.FlushEvery = "os", 2000, 2, 5*time.Millisecond }), "engine, prototype"},
		{"append direct", with(Append, func(c *Config) { c.Direct, c.Limits = true, false }), "engine"},
		{"append in memory", with(Append, func(c *Config) { c.FS, c.Limits = oncelog.NewMemFS(), false }), "engine"},
		{"read", with(Read, func(c *Config) { c.Writers, c.Partitions = 2, 3 }), "engine, floor"},
		{"dedup", small(Dedup), "engine, one producer, duplicates"},
		{"aborted", with(Aborted, func(c *Config) { c.Long = true }), "engine, one transaction"},
		{"recovery", small(Recovery), "after kill, after power loss, scan and rewrite, cold scan and rewrite"},
		{"recovery os", with(Recovery, func(c *Config) { c.Level = "os" }), "after kill, after power loss, scan and rewrite, cold scan and rewrite"},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := 0
			c.config.Progress = func(string) { told++ }
			r, err := Run(t.Context(), workspace(t), c.config)
			if err != nil {
				t.Fatal(err)
			}
			checkReport(t, r, c.config.Rounds)
			if got := strings.Join(sidesOf(r), ", "); got != c.sides {
				t.Errorf("sides %s, want %s", got, c.sides)
			}
			if r.Interrupted || told == 0 {
				t.Errorf("interrupted %t, progress told %d times", r.Interrupted, told)
			}
			if c.config.Limits && len(r.Rows) == 0 {
				t.Error("references, but no ratio")
			}
		})
	}
}

func sidesOf(r *Report) (sides []string) {
	for i := range r.Results {
		sides = append(sides, r.Results[i].Side)
	}
	return sides
}

// checkReport looks at what every report has.
func checkReport(t *testing.T, r *Report, rounds int) {
	t.Helper()
	if r.Machine.Cores == 0 || r.Machine.Go == "" || r.Machine.FlushP50 <= 0 {
		t.Errorf("machine %+v", r.Machine)
	}
	for i := range r.Results {
		one := &r.Results[i]
		if one.Rounds != rounds || len(one.Samples) != rounds || len(one.Ops) != rounds || len(one.Bytes) != rounds || len(one.Seconds) != rounds {
			t.Errorf("%s: rounds %d of %d, %d samples", one.Side, one.Rounds, rounds, len(one.Samples))
		}
		for n := range one.Ops {
			if one.Ops[n] <= 0 || one.Seconds[n] <= 0 {
				t.Errorf("%s: round %d did %d ops in %v s", one.Side, n, one.Ops[n], one.Seconds[n])
			}
		}
		if one.Measured.Min > one.Measured.Median || one.Measured.Median > one.Measured.Max {
			t.Errorf("%s: spread %+v", one.Side, one.Measured)
		}
		if one.Config.Timed && one.Latency == nil && one.Config.Workload == Append {
			t.Errorf("%s: timed, but no latency", one.Side)
		}
	}
}

func TestLimits(t *testing.T) {
	c := small(Limits)
	r, err := Run(t.Context(), workspace(t), c)
	if err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, c.Rounds)
	found := map[string]bool{}
	for _, row := range r.Rows {
		if row.Measured == nil || row.Ratio == nil || row.Holds != nil {
			t.Errorf("row %+v", row)
		}
		found[row.ID] = true
	}
	for _, id := range []string{"limits/memory/prototype", "limits/memory/engine", "limits/memory/pwrite", "limits/memory/mapped-segment",
		"limits/flush/raw-flush-unwritten-file", "limits/flush/engine", "limits/flush/mapped-and-msync", "limits/flush/mapped-and-fdatasync",
		"limits/shared/engine", "limits/read/engine"} {
		if !found[id] {
			t.Errorf("no row %s", id)
		}
	}
}

// TestInterrupted ends the context in the middle: whole rounds count, others
// do not, and the stores are closed and gone.
func TestInterrupted(t *testing.T) {
	c := small(Append)
	c.Rounds = 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Progress = func(text string) {
		if strings.HasSuffix(text, "raw flush: round 4 of 10") {
			cancel()
		}
	}
	r, err := Run(ctx, workspace(t), c)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if !r.Interrupted || len(r.Results) != 2 {
		t.Fatalf("interrupted %t, %d results", r.Interrupted, len(r.Results))
	}
	checkReport(t, r, 3)
	if row := r.Rows[0]; !row.Interrupted || row.Ratio == nil {
		t.Errorf("row %+v", row)
	}
}

// A run that is stopped before its first round has a row without figures.
func TestInterruptedAtOnce(t *testing.T) {
	c := small(Append)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Progress = func(string) { cancel() }
	r, err := Run(ctx, workspace(t), c)
	if !errors.Is(err, context.Canceled) || !r.Interrupted || len(r.Results) != 0 {
		t.Fatalf("error %v, interrupted %t, results %v", err, r.Interrupted, r.Results)
	}
	for _, row := range r.Rows {
		if row.Measured != nil || row.Holds != nil {
			t.Errorf("row %+v", row)
		}
	}
}
