package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/bench"
)

// benchProfiles are what a suite can be run as.
var benchProfiles = []bench.Profile{bench.Quick, bench.Standard, bench.NVMe}

func newBenchSuiteCommand() *cobra.Command {
	r, s := &benchRun{}, &bench.SuiteConfig{}
	limits := true
	cmd := &cobra.Command{
		Use:   "suite [quick|standard|nvme]",
		Short: "Hold the engine against what it promises",
		Long: `Measure the engine against each number that it promises, with the references of
each in turn, and print goal, what was reached, and whether the goal holds.

  quick     under a minute, little data: whether things are about right (default)
  standard  some ten minutes: worth to be compared
  nvme      an hour, on a real server with a fast device and 40 GiB of room

The quick profile has shorter rounds and fewer producers and partitions than the
promises are about; each row says how many. A goal that does not hold is no error.

` + benchExitHelp,
		Example: `  oncelog bench suite quick
  oncelog bench suite standard --only P3,P4 --dir /mnt/nvme

  # before and after a change
  oncelog bench suite standard -o json > before.json
  oncelog bench suite standard -o json > after.json
  oncelog bench compare before.json after.json`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Profile = bench.Quick
			if len(args) > 0 {
				s.Profile = bench.Profile(args[0])
			}
			if !slices.Contains(benchProfiles, s.Profile) {
				return usageError(cmd, fmt.Errorf("profile %q is unknown, want quick, standard or nvme", args[0]))
			}
			s.Bare, s.Base = !limits, r.config
			estimate, err := s.Estimate()
			if err != nil {
				return usageError(cmd, trimPackage(err))
			}
			return r.run(cmd, estimate, func(ctx context.Context, space *bench.Workspace) (*bench.Report, error) {
				progress := r.prepare(cmd)
				defer progress.done()
				s.Base = r.config
				return bench.Suite(ctx, space, *s)
			})
		},
	}
	r.flags(cmd)
	cmd.Flags().StringSliceVar(&s.Only, "only", nil, "promises to measure, of "+strings.Join(bench.SuitePromises(), ","))
	cmd.Flags().BoolVar(&limits, "limits", true, "measure the bare references too, in turn, which most goals are held against")
	return cmd
}
