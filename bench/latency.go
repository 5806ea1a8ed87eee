package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencyMax is the longest latency that is told apart; longer ones count as
// this one.
const latencyMax = 10 * time.Minute

// newHistogram makes a histogram of latencies in ns, exact to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(latencyMax), 3)
}

// record counts one latency.
func record(h *hdrhistogram.Histogram, latency time.Duration) {
	_ = h.RecordValue(int64(min(max(latency, 1), latencyMax))) // cannot be out of range
}

// Latency sums latencies up, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// latencyOf sums a histogram up; nil if it is empty.
func latencyOf(h *hdrhistogram.Histogram) *Latency {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	at := func(percent float64) float64 { return float64(h.ValueAtPercentile(percent)) / 1e3 }
	return &Latency{Count: h.TotalCount(), P50: at(50), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1e3}
}
