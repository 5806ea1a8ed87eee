package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSuite runs all promises with as little as they take.
func TestSuite(t *testing.T) {
	before := scales[Quick]
	defer func() { scales[Quick] = before }()
	scales[Quick] = scale{rounds: 1, length: time.Millisecond, warmup: time.Millisecond, burst: 64 << 10,
		sustained: 256 << 10, segment: 1 << 20, sustainedSize: []int{1 << 10}, recovered: []int64{256 << 10},
		idle: 5, producers: 50, rate: 1000}
	r, err := Suite(t.Context(), workspace(t), SuiteConfig{})
	if err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, 1)
	if r.Profile != string(Quick) {
		t.Errorf("profile %q", r.Profile)
	}
	seen := map[string]bool{}
	for _, row := range r.Rows {
		promise, _, _ := strings.Cut(row.ID, "/")
		seen[promise] = true
		if row.Measured == nil || row.Holds == nil || row.Spread == nil || row.Goal == "" || row.What == "" {
			t.Errorf("row %+v", row)
		}
		if (row.ReferenceKind == "") != (row.Reference == nil) || (row.Reference == nil) != (row.Ratio == nil) {
			t.Errorf("row %s: reference %v of kind %q, ratio %v", row.ID, row.Reference, row.ReferenceKind, row.Ratio)
		}
	}
	for _, p := range SuitePromises() {
		if !seen[p] {
			t.Errorf("no row for %s", p)
		}
	}
}

func TestSuiteConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		config SuiteConfig
		want   string // in the error; "": none
	}{
		{"all", SuiteConfig{}, ""},
		{"nvme", SuiteConfig{Profile: NVMe}, ""},
		{"no such profile", SuiteConfig{Profile: "fast"}, `profile "fast" is unknown`},
		{"no such promise", SuiteConfig{Only: []string{"P9"}}, `no promise "P9" in a suite`},
		{"bad rounds", SuiteConfig{Base: Config{Rounds: -1}}, "rounds is -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := c.config.Estimate()
			if c.want == "" {
				if err != nil || e.Disk <= 0 || e.Time <= 0 {
					t.Errorf("estimate %+v, %v", e, err)
				}
				return
			}
			if !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// References can be left out; what must be held against them has no verdict.
func TestSuiteBare(t *testing.T) {
	s := SuiteConfig{Only: []string{"P3"}, Bare: true, Base: Config{Rounds: 1, Length: time.Millisecond, Bytes: 16 << 10}}
	r, err := Suite(t.Context(), workspace(t), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Measured == nil || row.Reference != nil || row.Ratio != nil || row.Holds != nil {
			t.Errorf("row %+v", row)
		}
	}
	if sides := slices.Compact(sidesOf(r)); !slices.Equal(sides, []string{"engine"}) {
		t.Errorf("sides %v", sides)
	}
}

// A suite that is stopped has the rows of the trials that were done.
func TestSuiteInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trial := ""
	s := SuiteConfig{Only: []string{"P3"}, Base: Config{Rounds: 1, Length: time.Millisecond, Bytes: 16 << 10, Progress: func(text string) {
		name, _, _ := strings.Cut(text, ":")
		if trial != "" && name != trial {
			cancel()
		}
		trial = name
	}}}
	r, err := Suite(ctx, workspace(t), s)
	if !errors.Is(err, context.Canceled) || !r.Interrupted {
		t.Fatalf("error %v, interrupted %t", err, r.Interrupted)
	}
	if len(r.Rows) != 2 || r.Rows[0].Holds == nil || r.Rows[1].Measured != nil || !r.Rows[1].Interrupted {
		t.Errorf("rows %+v", r.Rows)
	}
}
