package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/bench"
)

func newBenchCompareCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare the results of two runs",
		Long: `Compare results that "oncelog bench … -o json" wrote: for each workload that is in
both, the medians, the ranges, the change, and whether chance explains it
(Mann-Whitney; below 0.05 it does not).

Results of different machines are refused: CPU, cores, architecture, file system
and device must be the same. Another kernel, Go or engine is told, and may be what
is compared.

Exit status: 0 compared, 2 could not compare (wrong usage included).`,
		Example: `  oncelog bench compare before.json after.json
  oncelog bench compare -o json before.json after.json | jq 'select(.verdict == "worse")'`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := newOutput(cmd.OutOrStdout(), format)
			if err != nil {
				return usageError(cmd, err)
			}
			var reports [2]*bench.Report
			for i, name := range args {
				if reports[i], err = readReport(name); err != nil {
					return &exitError{code: exitBlind, err: err}
				}
			}
			c, err := bench.Compare(reports[0], reports[1])
			if err != nil {
				return &exitError{code: exitBlind, err: trimPackage(err)}
			}
			for _, n := range c.Notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "oncelog: %s\n", n)
			}
			for _, only := range []struct {
				in    string
				names []string
			}{{args[0], c.OnlyA}, {args[1], c.OnlyB}} {
				for _, name := range only.names {
					fmt.Fprintf(cmd.ErrOrStderr(), "oncelog: only in %s: %s\n", only.in, name)
				}
			}
			showDifferences(out, c)
			return out.flush()
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format: text (tables) or json (one object a line)")
	return cmd
}

func readReport(name string) (*bench.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, cannotLook(name, err)
	}
	defer f.Close()
	r, err := bench.ReadReport(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; make one with: oncelog bench … -o json", name, trimPackage(err))
	}
	return r, nil
}

func showDifferences(out *output, c *bench.Comparison) {
	for _, d := range c.Differences {
		out.begin("difference")
		out.string("name", d.Name)
		out.string("side", d.Side)
		out.string("unit", string(d.Metric))
		out.spread("a", d.A)
		out.spread("b", d.B)
		out.decimal("change", d.Change, fmt.Sprintf("%+.1f%%", 100*d.Change))
		out.decimal("p", d.P, fmt.Sprintf("%.3f", d.P))
		out.string("verdict", string(d.Verdict))
		out.end()
	}
}

// spread is what several rounds gave.
func (o *output) spread(name string, s bench.Spread) {
	if o.json {
		o.object(name, s)
		return
	}
	o.table.cell(name, decimalText(s.Median), true)
	o.table.cell("range", fmt.Sprintf("%s … %s", decimalText(s.Min), decimalText(s.Max)), false)
}

// decimal is a number with a fraction: whole in JSON, as text in a table.
func (o *output) decimal(name string, v float64, text string) {
	if o.json {
		o.object(name, v)
		return
	}
	o.table.cell(name, text, true)
}
