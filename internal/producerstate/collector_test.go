package producerstate

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// collectorTime is the CPU time that one collection takes.
func collectorTime(t *testing.T) time.Duration {
	runtime.GC()
	before := collectorSeconds(t)
	runtime.GC()
	return time.Duration((collectorSeconds(t) - before) * float64(time.Second))
}

// collectorSeconds is the CPU time of the collector so far, idle time it used included.
func collectorSeconds(t *testing.T) float64 {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
		{Name: "/cpu/classes/gc/pause:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
	}
	metrics.Read(samples)
	seconds := 0.0
	for _, s := range samples {
		if s.Value.Kind() != metrics.KindFloat64 {
			t.Fatalf("no metric %s", s.Name)
		}
		seconds += s.Value.Float64()
	}
	return seconds
}
