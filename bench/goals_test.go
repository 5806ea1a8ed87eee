package bench

import (
	"testing"
	"time"
)

// seriesOf is a side with rounds of so many seconds.
func seriesOf(name string, seconds ...float64) series {
	s := series{contestant: contestant{name: name, metric: MetricSeconds}}
	for _, v := range seconds {
		s.samples = append(s.samples, sample{ops: 10, bytes: 1000, elapsed: time.Duration(v * float64(time.Second))})
	}
	return s
}

func TestRow(t *testing.T) {
	all := []series{seriesOf("engine", 3, 1, 2), seriesOf("raw", 1, 1, 4), seriesOf("empty")}
	yes, no := true, false
	for _, c := range []struct {
		name  string
		goal  goal
		ratio float64 // 0: none
		holds *bool
		text  string
	}{
		{"ratio of the rounds, not of the medians", goal{metric: MetricSeconds, reference: "raw", bound: atMost(1)}, 1, &yes, "≤ 1 × raw"},
		{"too slow", goal{metric: MetricSeconds, reference: "raw", bound: atMost(0.9)}, 1, &no, "≤ 0.9 × raw"},
		{"with slack", goal{metric: MetricSeconds, reference: "raw", bound: bound{limit: 1.5, most: true, slack: 0.5}}, 1, &yes, "≤ 1.5 × raw"},
		{"slack does not do", goal{metric: MetricSeconds, reference: "raw", bound: bound{limit: 1.4, most: true, slack: 0.5}}, 1, &no, "≤ 1.4 × raw"},
		{"at least", goal{metric: MetricOps, reference: "raw", bound: atLeast(1)}, 1, &yes, "≥ 1 × raw"},
		{"absolute", goal{metric: MetricSeconds, bound: atMost(2)}, 0, &yes, "≤ 2 s"},
		{"absolute, missed", goal{metric: MetricSeconds, bound: atMost(1.9)}, 0, &no, "≤ 1.9 s"},
		{"no reference measured", goal{metric: MetricSeconds, reference: "floor", bound: atMost(9)}, 0, nil, "≤ 9 × floor"},
		{"no round", goal{metric: MetricSeconds, engine: "empty", bound: atMost(9)}, 0, nil, "≤ 9 s"},
		{"absolute beside a reference", goal{metric: MetricSeconds, reference: "raw", bound: bound{limit: 2, most: true, plain: true}}, 1, &yes, "≤ 2 s"},
		{"no goal", goal{metric: MetricSeconds, reference: "raw", bound: bound{none: true}}, 1, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.goal.row(all, false)
			if r.Goal != c.text {
				t.Errorf("goal %q, want %q", r.Goal, c.text)
			}
			if (r.Ratio == nil) != (c.ratio == 0) || r.Ratio != nil && *r.Ratio != c.ratio {
				t.Errorf("ratio %v, want %v", r.Ratio, c.ratio)
			}
			if (r.Holds == nil) != (c.holds == nil) || r.Holds != nil && *r.Holds != *c.holds {
				t.Errorf("holds %v, want %v", r.Holds, c.holds)
			}
		})
	}
	r := (&goal{metric: MetricSeconds, reference: "raw", bound: atMost(1)}).row(all, true)
	if *r.Measured != 2 || *r.Reference != 1 || *r.Spread != (Spread{1, 0.5, 3}) || !r.Interrupted {
		t.Errorf("row %+v with spread %+v", r, *r.Spread)
	}
}

func TestMetrics(t *testing.T) {
	s := sample{ops: 10, bytes: 4_000_000, elapsed: 2 * time.Second, latency: newHistogram(), value: 7}
	record(s.latency, time.Millisecond)
	for metric, want := range map[Metric]float64{MetricMBps: 2, MetricOps: 5, MetricSeconds: 2, unitAllocs: 7} {
		if got := s.metric(metric); got != want {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
	for _, m := range []Metric{MetricP50, MetricP999} {
		if got := s.metric(m); got < 999 || got > 1001 {
			t.Errorf("%s: %v, want 1000", m, got)
		}
	}
	if got := (&sample{ops: 1}).metric(MetricOps); got != 0 {
		t.Errorf("a rate of no time is %v", got)
	}
}
