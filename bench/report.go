package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Format is the version of a Report as JSON.
const Format = 1

// Report is what a run found: of each side a result, and of each promise a
// row.
type Report struct {
	Started     time.Time
	Profile     string // of a suite; "": one workload
	Engine      string // version of the program, if the caller told it
	Machine     Machine
	Results     []Result
	Rows        []Row
	Interrupted bool // it was stopped: figures are of the rounds that were done
}

// Result is what the rounds of one side gave.
type Result struct {
	Name        string    `json:"name"` // in the form of Go's benchmarks, without "Benchmark"
	Side        string    `json:"side"` // engine, or a reference
	Config      Config    `json:"config"`
	Rounds      int       `json:"rounds"`
	Metric      Metric    `json:"metric"` // of the next two
	Measured    Spread    `json:"measured"`
	Samples     []float64 `json:"samples"`
	Ops         []int64   `json:"ops"`   // of each round
	Bytes       []int64   `json:"bytes"` // of each round
	Seconds     []float64 `json:"seconds"`
	Latency     *Latency  `json:"latency,omitempty"` // over all rounds
	P50         []float64 `json:"p50_us,omitempty"`  // of each round
	P999        []float64 `json:"p999_us,omitempty"` // of each round
	Interrupted bool      `json:"interrupted"`
}

// Row holds what was reached against a goal. Nil is what there is not: a row
// without a reference, or one that was interrupted before its first round.
type Row struct {
	ID            string   `json:"id"` // number of the promise and the case, as P1/1KiB
	What          string   `json:"what"`
	Metric        Metric   `json:"metric"`
	Measured      *float64 `json:"measured"`
	Reference     *float64 `json:"reference"`
	ReferenceKind string   `json:"reference_kind,omitempty"` // floor, prototype, raw …
	Ratio         *float64 `json:"ratio"`
	Goal          string   `json:"goal"` // as "≥ 0.5 × floor"
	Holds         *bool    `json:"holds"`
	Spread        *Spread  `json:"spread"` // of the ratio over the rounds; of what was measured if there is none
	Note          string   `json:"note,omitempty"`
	Interrupted   bool     `json:"interrupted"`
}

// add takes over what a race gave, if it gave anything.
func (r *Report) add(c *Config, all []series, interrupted bool) {
	for i := range all {
		s := &all[i]
		if len(s.samples) == 0 {
			continue
		}
		result := Result{
			Name: s.params, Side: s.name, Config: *c, Rounds: len(s.samples), Metric: s.metric,
			Samples: s.values(s.metric), Seconds: s.values(MetricSeconds), Interrupted: interrupted,
		}
		result.Measured = spreadOf(result.Samples)
		for _, one := range s.samples {
			result.Ops, result.Bytes = append(result.Ops, one.ops), append(result.Bytes, one.bytes)
		}
		if s.samples[0].latency != nil {
			result.P50, result.P999 = s.values(MetricP50), s.values(MetricP999)
			merged := newHistogram()
			for _, one := range s.samples {
				merged.Merge(one.latency)
			}
			result.Latency = latencyOf(merged)
		}
		r.Results = append(r.Results, result)
	}
}

// WriteJSON writes the report as one object a line: the run and its machine,
// the results, the rows.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		Kind string `json:"kind"`
		runLine
	}{"run", r.runLine()})
	for i := range r.Results {
		if err == nil {
			err = e.Encode(struct {
				Kind string `json:"kind"`
				*Result
			}{"result", &r.Results[i]})
		}
	}
	for i := range r.Rows {
		if err == nil {
			err = e.Encode(struct {
				Kind string `json:"kind"`
				*Row
			}{"row", &r.Rows[i]})
		}
	}
	return err
}

// runLine is the first line of a report.
type runLine struct {
	Format      int       `json:"format"`
	Started     time.Time `json:"started"`
	Profile     string    `json:"profile,omitempty"`
	Engine      string    `json:"engine,omitempty"`
	Machine     Machine   `json:"machine"`
	Interrupted bool      `json:"interrupted"`
}

func (r *Report) runLine() runLine {
	return runLine{Format, r.Started, r.Profile, r.Engine, r.Machine, r.Interrupted}
}

// WriteGo writes the results in the format of Go's benchmarks, a line a round,
// which benchstat takes.
func (r *Report) WriteGo(w io.Writer) error {
	_, err := fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: github.com/oncelog/oncelog/bench\ncpu: %s\n", r.Machine.OS, r.Machine.Arch, r.Machine.CPU)
	for i := range r.Results {
		for n := range r.Results[i].Rounds {
			if err == nil {
				_, err = io.WriteString(w, r.Results[i].goLine(n, r.Machine.GOMAXPROCS))
			}
		}
	}
	return err
}

// goLine is round n. Sides have names of their own: benchstat compares lines of
// one name.
func (r *Result) goLine(n, procs int) string {
	var b strings.Builder
	name := strings.ToUpper(r.Name[:1]) + r.Name[1:]
	fmt.Fprintf(&b, "Benchmark%s/side=%s-%d\t%d", name, strings.ReplaceAll(r.Side, " ", "-"), procs, max(r.Ops[n], 1))
	figure := func(v float64, unit string) {
		b.WriteString("\t" + strconv.FormatFloat(v, 'g', 6, 64) + " " + unit)
	}
	figure(r.Seconds[n]*1e9/float64(max(r.Ops[n], 1)), "ns/op")
	if r.Bytes[n] > 0 && r.Seconds[n] > 0 {
		figure(float64(r.Bytes[n])/r.Seconds[n]/1e6, "MB/s")
	}
	if r.P50 != nil {
		figure(r.P50[n]*1e3, "p50-ns/op")
		figure(r.P999[n]*1e3, "p99.9-ns/op")
	}
	switch r.Metric {
	case MetricMBps, MetricOps, MetricP50, MetricP999, MetricSeconds:
	default:
		figure(r.Samples[n], string(r.Metric))
	}
	b.WriteByte('\n')
	return b.String()
}
