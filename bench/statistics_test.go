package bench

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		samples []float64
		want    Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{4, 2}, Spread{3, 2, 4}},
		{[]float64{9, 1, 5}, Spread{5, 1, 9}},
		{[]float64{1, 100, 2, 3}, Spread{2.5, 1, 100}},
	} {
		before := slices.Clone(c.samples)
		if got := spreadOf(c.samples); got != c.want {
			t.Errorf("spread of %v: %v, want %v", c.samples, got, c.want)
		}
		if !slices.Equal(before, c.samples) {
			t.Errorf("%v was sorted in place: its rounds are paired with others", before)
		}
	}
}

func TestRatios(t *testing.T) {
	got := ratios([]float64{1, 6, 5, 7}, []float64{2, 3, 0})
	if want := []float64{0.5, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: pairs only, nothing divided by zero", got, want)
	}
}

// The right values are those of published tables of the test: for 5 and 5
// samples U = 0, 1, 2 have the two-sided p of 2, 4 and 8 in 252.
func TestRankTest(t *testing.T) {
	low := []float64{1, 2, 3, 4, 5}
	for _, c := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"apart", low, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		{"the other way", []float64{6, 7, 8, 9, 10}, low, 2.0 / 252},
		{"one out of place", []float64{1, 2, 3, 4, 6}, []float64{5, 7, 8, 9, 10}, 4.0 / 252},
		{"two out of place", []float64{1, 2, 3, 4, 7}, []float64{5, 6, 8, 9, 10}, 8.0 / 252},
		{"three and three", []float64{1, 2, 3}, []float64{4, 5, 6}, 0.1},
		{"all tied", []float64{2, 2, 2}, []float64{2, 2, 2}, 1},
		{"nothing", nil, low, 1},
	} {
		if got := rankTest(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: p = %v, want %v", c.name, got, c.want)
		}
	}
}

// Where both can be computed, the approximation is near the exact value.
func TestRankTestApproximation(t *testing.T) {
	var a, b []float64
	for i := range 25 {
		a, b = append(a, float64(i)), append(b, float64(i)+7.5)
	}
	ranks, sum := doubledRanks(a, b), 0
	for _, r := range ranks[:len(a)] {
		sum += r
	}
	exact, normal := exactTest(ranks, len(a), sum), normalTest(ranks, len(a), sum)
	if math.Abs(exact-normal) > 0.002 {
		t.Errorf("exact p = %v, approximated %v", exact, normal)
	}
	var many, more []float64
	for i := range 100 {
		many, more = append(many, float64(i)), append(more, float64(i)+50)
	}
	if p := rankTest(many, more); p > 1e-6 {
		t.Errorf("p = %v for a hundred samples that hardly overlap", p)
	}
}

func TestLatency(t *testing.T) {
	h := newHistogram()
	if latencyOf(h) != nil || latencyOf(nil) != nil {
		t.Error("no latencies have a summary")
	}
	for i := 1; i <= 10_000; i++ {
		record(h, time.Duration(i)*time.Microsecond)
	}
	record(h, -time.Second) // a clock that went back
	l := latencyOf(h)
	if l.Count != 10_001 {
		t.Errorf("%d counted, want 10001", l.Count)
	}
	for _, c := range []struct{ got, want float64 }{{l.P50, 5000}, {l.P99, 9900}, {l.P999, 9990}, {l.Max, 10_000}} {
		if math.Abs(c.got/c.want-1) > 0.002 { // three digits
			t.Errorf("got %v µs, want %v", c.got, c.want)
		}
	}
	record(h, 24*time.Hour)
	if got := latencyOf(h).Max; math.Abs(got/float64(latencyMax/time.Microsecond)-1) > 0.002 {
		t.Errorf("a latency beyond the largest counts as %v µs", got)
	}
}
