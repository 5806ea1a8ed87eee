package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func reportOf(samples ...float64) *Report {
	n := len(samples)
	r := Result{Name: "append/level=fsync", Side: "engine", Rounds: n, Metric: MetricMBps, Samples: samples, Measured: spreadOf(samples),
		Ops: make([]int64, n), Bytes: make([]int64, n), Seconds: make([]float64, n)}
	for i := range n {
		r.Ops[i], r.Bytes[i], r.Seconds[i] = 1000, 2_000_000, 0.5
	}
	return &Report{Results: []Result{r}, Machine: Machine{CPU: "X", Cores: 2, GOMAXPROCS: 2, Arch: "amd64", OS: "linux", FileSystem: "ext4", Device: "vda", FlushP50: 100}}
}

func TestCompare(t *testing.T) {
	low, high := []float64{10, 11, 12, 13, 14}, []float64{20, 21, 22, 23, 24}
	for _, c := range []struct {
		name   string
		a, b   []float64
		metric Metric
		want   Verdict
	}{
		{"faster", low, high, MetricMBps, Better},
		{"slower", high, low, MetricMBps, Worse},
		{"sooner", high, low, MetricP50, Better},
		{"later", low, high, MetricP50, Worse},
		{"the same", low, low, MetricMBps, Same},
		{"within the noise", low, []float64{9, 12.5, 11.5, 16, 13.5}, MetricMBps, Same},
		{"too few rounds", low[:2], high[:2], MetricMBps, Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := reportOf(c.a...), reportOf(c.b...)
			a.Results[0].Metric, b.Results[0].Metric = c.metric, c.metric
			got, err := Compare(a, b)
			if err != nil {
				t.Fatal(err)
			}
			if d := got.Differences[0]; d.Verdict != c.want {
				t.Errorf("%+v, want %s", d, c.want)
			}
			if len(got.Notes) != 0 {
				t.Errorf("notes %q", got.Notes)
			}
		})
	}
	d, err := Compare(reportOf(low...), reportOf(high...))
	if err != nil || math.Abs(d.Differences[0].Change-10.0/12) > 1e-9 || d.Differences[0].P != 2.0/252 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestCompareRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *Report)
		want   string
	}{
		{"another CPU", func(r *Report) { r.Machine.CPU = "Y" }, "CPU: X and Y"},
		{"fewer cores", func(r *Report) { r.Machine.Cores = 1 }, "cores: 2 and 1"},
		{"GOMAXPROCS", func(r *Report) { r.Machine.GOMAXPROCS = 1 }, "GOMAXPROCS: 2 and 1"},
		{"architecture", func(r *Report) { r.Machine.Arch = "arm64" }, "architecture: amd64 and arm64"},
		{"file system", func(r *Report) { r.Machine.FileSystem = "xfs" }, "file system: ext4 and xfs"},
		{"device", func(r *Report) { r.Machine.Device = "nvme0n1" }, "device: vda and nvme0n1"},
		{"two reasons", func(r *Report) { r.Machine.Device, r.Machine.CPU = "sda", "Z" }, "CPU: X and Z; device: vda and sda"},
		{"nothing in common", func(r *Report) { r.Results[0].Name = "read" }, "no workload is in both"},
		{"another side", func(r *Report) { r.Results[0].Side = "floor" }, "no workload is in both"},
		{"another unit", func(r *Report) { r.Results[0].Metric = MetricOps }, "in MB/s and in ops/s"},
		{"other segments", func(r *Report) { r.Results[0].Config.SegmentBytes = 1 }, "segment size differs"},
		{"shorter rounds", func(r *Report) { r.Results[0].Config.Length = 1 }, "length of a round differs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := reportOf(1, 2, 3), reportOf(1, 2, 3)
			c.change(b)
			_, err := Compare(a, b)
			if !errors.Is(err, ErrNotComparable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// What may be compared is told when it differs.
func TestCompareNotes(t *testing.T) {
	a, b := reportOf(1, 2, 3), reportOf(1, 2, 3)
	b.Machine.Go, b.Machine.Kernel, b.Machine.FlushP50, b.Interrupted = "go1.27", "7.0", 200, true
	b.Results = append(b.Results, Result{Name: "read", Side: "engine"})
	c, err := Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Notes) != 4 || len(c.OnlyA) != 0 || len(c.OnlyB) != 1 || c.OnlyB[0] != "read engine" {
		t.Errorf("notes %q, only A %q, only B %q", c.Notes, c.OnlyA, c.OnlyB)
	}
}

func TestReportJSON(t *testing.T) {
	r := reportOf(1, 2, 3)
	r.Profile, r.Interrupted = "quick", true
	r.Rows = []Row{
		(&goal{id: "P1/1KiB", metric: MetricSeconds, reference: "raw", bound: atMost(2)}).row([]series{seriesOf("engine", 1), seriesOf("raw", 2)}, false),
		{ID: "P11/kill", Goal: "≤ 1 s", Interrupted: true},
	}
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	var kinds []string
	for _, line := range lines {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		kinds = append(kinds, o["kind"].(string))
		if o["kind"] != "row" {
			continue
		}
		for _, name := range []string{"id", "measured", "reference", "ratio", "goal", "holds", "spread"} {
			if _, ok := o[name]; !ok {
				t.Errorf("row without %s: %s", name, line)
			}
		}
	}
	if got := strings.Join(kinds, " "); got != "run result row row" {
		t.Errorf("lines %s", got)
	}
	if want := `"id":"P1/1KiB","what":"","metric":"s","measured":1,"reference":2,"reference_kind":"raw","ratio":0.5,"goal":"≤ 2 × raw","holds":true,"spread":{"median":0.5,"min":0.5,"max":0.5}`; !strings.Contains(lines[2], want) {
		t.Errorf("row %s", lines[2])
	}
	back, err := ReadReport(&text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, r) {
		t.Errorf("read back %+v", back)
	}
}

func TestReadReportRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty":        "",
		"text":         "hello\n",
		"no run":       `{"kind":"result"}` + "\n",
		"two runs":     `{"kind":"run","format":1}` + "\n" + `{"kind":"run","format":1}` + "\n",
		"newer":        `{"kind":"run","format":2}` + "\n",
		"unknown kind": `{"kind":"run","format":1}` + "\n" + `{"kind":"batch"}` + "\n",
		"wrong type":   `{"kind":"run","format":1}` + "\n" + `{"kind":"result","samples":"many"}` + "\n",
		"cut off":      `{"kind":"run","format":1}` + "\n" + `{"kind":"result","sam`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadReport(strings.NewReader(text)); !errors.Is(err, ErrNoReport) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// The format is that of Go's benchmarks: name, count, then value and unit in
// turn.
func TestWriteGo(t *testing.T) {
	r := reportOf(1, 2)
	r.Results[0].P50, r.Results[0].P999 = []float64{1, 2}, []float64{3, 4}
	r.Results[0].Side = "raw flush"
	var text strings.Builder
	if err := r.WriteGo(&text); err != nil {
		t.Fatal(err)
	}
	want := `goos: linux
goarch: amd64
pkg: github.com/oncelog/oncelog/bench
cpu: X
BenchmarkAppend/level=fsync/side=raw-flush-2	1000	500000 ns/op	4 MB/s	1000 p50-ns/op	3000 p99.9-ns/op
BenchmarkAppend/level=fsync/side=raw-flush-2	1000	500000 ns/op	4 MB/s	2000 p50-ns/op	4000 p99.9-ns/op
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}
