package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// side is one of those that are measured in turn. The methods are called from
// one goroutine.
type side interface {
	// prepare makes what is needed and warms up; the clock is not running.
	prepare(ctx context.Context) error
	// round does the work once.
	round(ctx context.Context) (sample, error)
	// close gives back what prepare made, also after an error of it.
	close() error
}

// sample is what one round did.
type sample struct {
	ops, bytes int64
	elapsed    time.Duration
	latency    *hdrhistogram.Histogram // nil: single operations were not timed
	value      float64                 // of any other metric than those with a name
}

// Metric says what a figure is, and in which unit. Beside those with a name
// there are units of single figures, such as "allocs/op"; all but the rates are
// better when small.
type Metric string

// Metrics that all workloads have.
const (
	MetricMBps    Metric = "MB/s" // 10^6 bytes
	MetricOps     Metric = "ops/s"
	MetricP50     Metric = "p50 µs"
	MetricP999    Metric = "p99.9 µs"
	MetricSeconds Metric = "s"
)

// moreIsBetter tells the direction of a metric.
func (m Metric) moreIsBetter() bool { return m == MetricMBps || m == MetricOps }

func (s *sample) metric(m Metric) float64 {
	switch m {
	case MetricMBps:
		return perSecond(s.bytes, s.elapsed) / 1e6
	case MetricOps:
		return perSecond(s.ops, s.elapsed)
	case MetricSeconds:
		return s.elapsed.Seconds()
	case MetricP50, MetricP999:
		l := latencyOf(s.latency)
		switch {
		case l == nil:
			return 0
		case m == MetricP50:
			return l.P50
		}
		return l.P999
	}
	return s.value
}

func perSecond(n int64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(n) / elapsed.Seconds()
}

// contestant is a side with its name.
type contestant struct {
	name   string // engine, floor, prototype …
	params string // how it is named among results
	metric Metric // its main figure
	side   side
}

// series is what the rounds of one side gave.
type series struct {
	contestant
	samples []sample
}

func (s *series) values(m Metric) []float64 {
	v := make([]float64, len(s.samples))
	for i := range s.samples {
		v[i] = s.samples[i].metric(m)
	}
	return v
}

// race measures the sides in turn. When ctx ends, what whole rounds gave is
// answered, with its error; a round counts only if all sides ran it, so that
// the rounds of all can be paired.
func race(ctx context.Context, c *Config, contestants ...contestant) (_ []series, err error) {
	all := make([]series, len(contestants))
	for i, one := range contestants {
		all[i].contestant = one
	}
	defer func() {
		for i := range all {
			err = errors.Join(err, all[i].side.close())
		}
	}()
	for i := range all {
		c.tell("%s: %s: prepare", all[i].params, all[i].name)
		if err := all[i].side.prepare(ctx); err != nil {
			return all, during(ctx, all[i].contestant, err)
		}
	}
	for n := range c.Rounds {
		round := make([]sample, len(all))
		for i := range all {
			c.tell("%s: %s: round %d of %d", all[i].params, all[i].name, n+1, c.Rounds)
			if round[i], err = all[i].side.round(ctx); err != nil {
				return all, during(ctx, all[i].contestant, err)
			}
			if err := ctx.Err(); err != nil {
				return all, err
			}
		}
		for i := range all {
			all[i].samples = append(all[i].samples, round[i])
		}
	}
	return all, nil
}

// during tells where an error came from. One that the end of ctx caused is the
// end of ctx.
func during(ctx context.Context, c contestant, err error) error {
	if e := ctx.Err(); e != nil {
		return e
	}
	return fmt.Errorf("%s: %s: %w", c.params, c.name, err)
}
