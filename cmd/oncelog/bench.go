package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/bench"
	"github.com/oncelog/oncelog/internal/vfs"
)

// exitStopped: a bench was told to stop. Its figures so far were printed.
const exitStopped = 3

const benchExitHelp = `Exit status: 0 measured, 2 could not measure (wrong usage included),
3 stopped by Ctrl-C or SIGTERM, with the figures of the rounds that were done.`

// benchDirName is the directory that a bench makes for itself.
const benchDirName = "oncelog-bench"

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine on this machine, beside the machine's own limits",
		Long: `Measure the engine on this machine. What is compared is measured in turn, round
by round, in one process: the engine, a bare reference, the engine again. Figures
are medians over the rounds, with the smallest and the largest beside them.

All files are made in DIR/` + benchDirName + ` (--dir), which is removed at the end. What a
bench did not make is never touched. How much disk and time it will take is said
before it starts; with too little room it does not start.

` + benchExitHelp,
		Example: `  # whether things are about right here, in under a minute
  oncelog bench suite quick --dir /var/lib/oncelog

  # 16 writers that wait for the disk, beside a bare group commit
  oncelog bench append --level fsync --writers 16 --limits`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, w := range benchWorkloads {
		cmd.AddCommand(newBenchWorkloadCommand(w))
	}
	cmd.AddCommand(newBenchSuiteCommand(), newBenchCompareCommand(), newBenchCrashCommand())
	return cmd
}

// benchRun is what every command that measures has.
type benchRun struct {
	dir, format, profile string
	keep                 bool
	config               bench.Config
}

// flags adds the flags that every command that measures has.
func (r *benchRun) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.dir, "dir", ".", "where to make the directory "+benchDirName+": on the file system to measure")
	f.BoolVar(&r.keep, "keep", false, "leave the files; the next bench in the same place removes them")
	f.StringVarP(&r.format, "output", "o", formatText, "format: text (tables), json (one object a line) or go (Go benchmarks, for benchstat)")
	f.StringVar(&r.profile, "profile", "", "leave CPU, heap, mutex and block profiles and an execution trace in this directory; costs time")
	f.BoolVar(&r.config.Direct, "direct", false, "open the store without mapped tail and journal")
	f.IntVar(&r.config.Rounds, "rounds", 0, "rounds of each side (default 5, or the suite's)")
	f.DurationVar(&r.config.Length, "length", 0, "length of a round (default 1s, or the suite's)")
	f.Var(sizeFlag{&r.config.Bytes}, "bytes", "a round ends with this many bytes at the latest; what read, aborted and recovery write first (default 256MiB, or the suite's)")
}

// run makes the workspace, measures and prints.
func (r *benchRun) run(cmd *cobra.Command, estimate bench.Estimate, measure func(context.Context, *bench.Workspace) (*bench.Report, error)) (err error) {
	out, err := newBenchOutput(cmd.OutOrStdout(), r.format)
	if err != nil {
		return usageError(cmd, err)
	}
	dir := filepath.Join(r.dir, benchDirName)
	if info, err := os.Stat(r.dir); err != nil {
		return &exitError{code: exitBlind, err: cannotLook(r.dir, err)}
	} else if !info.IsDir() {
		return &exitError{code: exitBlind, err: fmt.Errorf("%s is no directory", r.dir)}
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	fmt.Fprintf(cmd.ErrOrStderr(), "%s in %s: %s\n", cmd.CommandPath(), dir, estimate)
	w, err := bench.OpenWorkspace(dir)
	if err != nil {
		return &exitError{code: exitBlind, err: trimPackage(err)}
	}
	defer func() { err = errors.Join(err, w.Close(r.keep)) }()
	if err := w.Check(estimate.Disk); err != nil {
		return &exitError{code: exitBlind, err: trimPackage(err)}
	}
	report, err := r.measure(ctx, cmd, w, measure)
	if report != nil && (err == nil || len(report.Results)+len(report.Rows) > 0) {
		report.Engine = version()
		if err := out.report(report); err != nil {
			return err
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return &exitError{code: exitStopped, err: errors.New("stopped; the figures are of the rounds that were done")}
	case errors.Is(err, bench.ErrInvalidConfig):
		return usageError(cmd, err)
	}
	return &exitError{code: exitBlind, err: err}
}

// measure measures, with profiles if they were asked for.
func (r *benchRun) measure(ctx context.Context, cmd *cobra.Command, w *bench.Workspace, measure func(context.Context, *bench.Workspace) (*bench.Report, error)) (_ *bench.Report, err error) {
	if r.profile != "" {
		profiles, err := bench.StartProfiles(r.profile)
		if err != nil {
			if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
				return nil, fmt.Errorf("--profile: %w", err)
			}
			return nil, err
		}
		defer func() {
			if e := profiles.Stop(); e != nil {
				err = errors.Join(err, e)
				return
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "profiles are in %s; figures taken with them are none\n", r.profile)
		}()
	}
	return measure(ctx, w)
}

// prepare sets what the command line has no flag for.
func (r *benchRun) prepare(cmd *cobra.Command) *progress {
	p := newProgress(cmd.ErrOrStderr())
	r.config.Progress = p.tell
	r.config.Crash = crashChild
	r.config.AfterPowerLoss = anotherBoot{vfs.Machine()}
	return p
}

// tell shows what is being done.
func (p *progress) tell(text string) {
	if p.w == nil {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.w, "\r\x1b[K%.110s", text)
}
