package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Errors of reading and comparing reports.
var (
	ErrNoReport      = errors.New("bench: not a report")
	ErrNotComparable = errors.New("bench: the reports cannot be compared")
)

// Bounds of what is read.
const (
	reportLineMax = 8 << 20
	reportMax     = 256 << 20
)

// ReadReport reads what WriteJSON wrote. ErrNoReport says in which line it is
// something else, or of another version.
func ReadReport(from io.Reader) (*Report, error) {
	b, err := io.ReadAll(io.LimitReader(from, reportMax+1))
	if err != nil {
		return nil, err
	}
	if len(b) > reportMax {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrNoReport, reportMax)
	}
	r, n := &Report{}, 0
	for line := range bytes.Lines(b) {
		n++
		if err := r.readLine(n, line); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrNoReport, n, err)
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrNoReport)
	}
	return r, nil
}

func (r *Report) readLine(n int, line []byte) error {
	if len(line) > reportLineMax {
		return fmt.Errorf("longer than %d bytes", reportLineMax)
	}
	var kind struct{ Kind string }
	if err := json.Unmarshal(line, &kind); err != nil {
		return err
	}
	if (kind.Kind == "run") != (n == 1) {
		return fmt.Errorf("kind %q: a report begins with a run, and has no other", kind.Kind)
	}
	switch kind.Kind {
	case "run":
		var run runLine
		if err := json.Unmarshal(line, &run); err != nil {
			return err
		}
		if run.Format != Format {
			return fmt.Errorf("format %d, this program reads %d", run.Format, Format)
		}
		r.Started, r.Profile, r.Engine, r.Machine, r.Interrupted = run.Started, run.Profile, run.Engine, run.Machine, run.Interrupted
	case "result":
		var one Result
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		r.Results = append(r.Results, one)
	case "row":
		var one Row
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		r.Rows = append(r.Rows, one)
	default:
		return fmt.Errorf("kind %q is unknown", kind.Kind)
	}
	return nil
}

// Verdict says what a difference is worth.
type Verdict string

// Verdicts.
const (
	Same    Verdict = "~"      // chance explains it
	Better  Verdict = "better" // it does not
	Worse   Verdict = "worse"
	Unknown Verdict = "?" // too few rounds to tell, whatever they gave
)

// Difference holds the results of one name and side against each other.
type Difference struct {
	Name    string  `json:"name"`
	Side    string  `json:"side"`
	Metric  Metric  `json:"metric"`
	A       Spread  `json:"a"`
	B       Spread  `json:"b"`
	Change  float64 `json:"change"` // of the medians, as a part of A's: 0.1 is a tenth more
	P       float64 `json:"p"`      // Mann-Whitney, two-sided
	Verdict Verdict `json:"verdict"`
}

// Comparison is what Compare finds.
type Comparison struct {
	Differences []Difference
	OnlyA       []string // results that the other one lacks
	OnlyB       []string
	Notes       []string // differences of the machines that may be what is compared
}

// significance is below which p a difference counts.
const significance = 0.05

// Compare holds b against a. It refuses reports of different machines, or
// without any result in common: ErrNotComparable, with all reasons.
func Compare(a, b *Report) (*Comparison, error) {
	if reasons := incomparable(&a.Machine, &b.Machine); len(reasons) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotComparable, strings.Join(reasons, "; "))
	}
	c := &Comparison{Notes: notes(a, b)}
	others := map[string]*Result{}
	for i := range b.Results {
		others[b.Results[i].key()] = &b.Results[i]
	}
	for i := range a.Results {
		one := &a.Results[i]
		other := others[one.key()]
		if other == nil {
			c.OnlyA = append(c.OnlyA, one.key())
			continue
		}
		delete(others, one.key())
		d, err := difference(one, other)
		if err != nil {
			return nil, err
		}
		c.Differences = append(c.Differences, d)
	}
	for i := range b.Results {
		if others[b.Results[i].key()] != nil {
			c.OnlyB = append(c.OnlyB, b.Results[i].key())
		}
	}
	if len(c.Differences) == 0 {
		return nil, fmt.Errorf("%w: no workload is in both", ErrNotComparable)
	}
	return c, nil
}

// key is what results must share to be compared. A closed loop at level os has
// another figure when single appends are timed, which the name says.
func (r *Result) key() string { return r.Name + " " + r.Side }

// incomparable lists what must be equal and is not.
func incomparable(a, b *Machine) (reasons []string) {
	differ := func(what string, a, b any) {
		if a != b {
			reasons = append(reasons, fmt.Sprintf("%s: %v and %v", what, a, b))
		}
	}
	differ("CPU", a.CPU, b.CPU)
	differ("cores", a.Cores, b.Cores)
	differ("GOMAXPROCS", a.GOMAXPROCS, b.GOMAXPROCS)
	differ("architecture", a.Arch, b.Arch)
	differ("system", a.OS, b.OS)
	differ("file system", a.FileSystem, b.FileSystem)
	differ("device", a.Device, b.Device)
	differ("model of the device", a.Model, b.Model)
	differ("write cache", a.WriteCache, b.WriteCache)
	return reasons
}

// flushDrift is by which factor a device may flush slower or faster before it
// is worth a note.
const flushDrift = 1.5

func notes(a, b *Report) (notes []string) {
	note := func(what string, a, b string) {
		if a != b {
			notes = append(notes, fmt.Sprintf("%s: %s and %s", what, a, b))
		}
	}
	note("engine", a.Engine, b.Engine)
	note("Go", a.Machine.Go, b.Machine.Go)
	note("kernel", a.Machine.Kernel, b.Machine.Kernel)
	note("mount options", a.Machine.Mount, b.Machine.Mount)
	if x, y := a.Machine.FlushP50, b.Machine.FlushP50; x > y*flushDrift || y > x*flushDrift {
		notes = append(notes, fmt.Sprintf("a flush took %.0f µs and %.0f µs (p50): figures at level fsync differ by that", x, y))
	}
	for i, r := range []*Report{a, b} {
		if r.Interrupted {
			notes = append(notes, fmt.Sprintf("%c was interrupted: fewer rounds", 'A'+i))
		}
	}
	return notes
}

func difference(a, b *Result) (Difference, error) {
	if a.Metric != b.Metric {
		return Difference{}, fmt.Errorf("%w: %s: in %s and in %s", ErrNotComparable, a.key(), a.Metric, b.Metric)
	}
	if what := otherwise(&a.Config, &b.Config); what != "" {
		return Difference{}, fmt.Errorf("%w: %s: %s differs", ErrNotComparable, a.key(), what)
	}
	d := Difference{Name: a.Name, Side: a.Side, Metric: a.Metric, A: spreadOf(a.Samples), B: spreadOf(b.Samples), P: rankTest(a.Samples, b.Samples)}
	if d.A.Median != 0 {
		d.Change = d.B.Median/d.A.Median - 1
	}
	switch {
	case leastP(len(a.Samples), len(b.Samples)) >= significance:
		d.Verdict = Unknown
	case d.P >= significance || d.Change == 0:
		d.Verdict = Same
	case d.Change > 0 == a.Metric.moreIsBetter():
		d.Verdict = Better
	default:
		d.Verdict = Worse
	}
	return d, nil
}

// otherwise names what of two configurations differs and is not in the name
// of the result; "" if nothing is.
func otherwise(a, b *Config) string {
	switch {
	case a.SegmentBytes != b.SegmentBytes:
		return "segment size"
	case a.Bytes != b.Bytes:
		return "bytes a round"
	case a.Length != b.Length:
		return "length of a round"
	}
	return ""
}

// leastP is the smallest p that so many samples can give: 2 ways of all to
// choose.
func leastP(n, m int) float64 {
	ways := 1.0
	for i := 1; i <= n; i++ {
		ways = ways * float64(m+i) / float64(i)
	}
	return 2 / ways
}
