package main

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/oncelog/oncelog/bench"
)

// formatGo is the format of Go's benchmarks.
const formatGo = "go"

// benchOutput prints reports in one of three formats.
type benchOutput struct {
	w      io.Writer
	format string
}

func newBenchOutput(w io.Writer, format string) (*benchOutput, error) {
	switch format {
	case formatText, formatJSON, formatGo:
		return &benchOutput{w: w, format: format}, nil
	}
	return nil, fmt.Errorf("output format %q is unknown: want %s, %s or %s", format, formatText, formatJSON, formatGo)
}

func (b *benchOutput) report(r *bench.Report) error {
	switch b.format {
	case formatJSON:
		return r.WriteJSON(b.w)
	case formatGo:
		return r.WriteGo(b.w)
	}
	m := &r.Machine
	fmt.Fprintf(b.w, "%s, %d cores, %s %s, %s %s/%s\n", m.CPU, m.Cores, m.OS, m.Kernel, m.Go, m.OS, m.Arch)
	fmt.Fprintf(b.w, "%s on %s %s, write cache %s; a flush takes %s µs (p50), %s µs (p99)\n\n",
		m.FileSystem, m.Device, m.Model, m.WriteCache, decimalText(m.FlushP50), decimalText(m.FlushP99))
	out, err := newOutput(b.w, formatText)
	if err != nil {
		return err
	}
	if r.Profile == "" {
		showResults(out, r)
	}
	showRows(out, r)
	return out.flush()
}

func showResults(out *output, r *bench.Report) {
	name := ""
	for i := range r.Results {
		one := &r.Results[i]
		if one.Name != name {
			name = one.Name
			out.file(name)
		}
		out.begin("result")
		out.string("side", one.Side)
		out.string("unit", string(one.Metric))
		out.spread("median", one.Measured)
		l, known := one.Latency, one.Latency != nil
		if !known {
			l = &bench.Latency{}
		}
		for _, q := range []struct {
			name  string
			value float64
		}{{"p50_us", l.P50}, {"p99_us", l.P99}, {"p99.9_us", l.P999}, {"max_us", l.Max}} {
			out.table.cell(q.name, optionalText(q.value, known), true)
		}
		out.int("rounds", int64(one.Rounds))
		out.end()
	}
}

func showRows(out *output, r *bench.Report) {
	if len(r.Rows) == 0 {
		return
	}
	out.file("")
	if r.Profile == "" {
		fmt.Fprintln(out.w)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		out.begin("row")
		out.string("id", row.ID)
		out.string("unit", string(row.Metric))
		out.table.cell("reached", pointerText(row.Measured), true)
		out.table.cell("reference", pointerText(row.Reference), true)
		out.table.cell("ratio", pointerText(row.Ratio), true)
		spread := "-"
		if row.Spread != nil {
			spread = fmt.Sprintf("%s … %s", decimalText(row.Spread.Min), decimalText(row.Spread.Max))
		}
		out.table.cell("range", spread, false)
		if r.Profile != "" {
			out.table.cell("goal", row.Goal, false)
			out.table.cell("holds", holdsText(row.Holds), false)
		}
		out.table.cell("what", row.What, false)
		out.end()
	}
}

func holdsText(holds *bool) string {
	switch {
	case holds == nil:
		return "-"
	case *holds:
		return "yes"
	}
	return "NO"
}

func pointerText(v *float64) string {
	if v == nil {
		return "-"
	}
	return decimalText(*v)
}

func optionalText(v float64, known bool) string {
	if !known {
		return "-"
	}
	return decimalText(v)
}

// decimalText is a number with about three digits that matter.
func decimalText(v float64) string {
	digits := 0
	switch a := math.Abs(v); {
	case a == 0 || a >= 100:
	case a >= 10:
		digits = 1
	case a >= 1:
		digits = 2
	case a >= 0.01:
		digits = 3
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
