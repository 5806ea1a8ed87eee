package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/bench"
)

// benchWorkload is a subcommand that measures one workload.
type benchWorkload struct {
	workload          bench.Workload
	short, long, more string // more: an example
	flags             func(cmd *cobra.Command, c *bench.Config)
}

var benchWorkloads = []benchWorkload{
	{
		workload: bench.Append,
		short:    "Append batches",
		long: `Append batches, by default at level fsync with one idempotent producer a writer.

Closed loop (no --rate): each writer appends as fast as it is answered; this finds
the throughput. Open loop (--rate): appends are due at fixed times, and latency
counts from the time an append was due: a stall is felt by all that it delayed.

With --limits the reference that belongs to the case is measured in turn with the
engine: a bare write and flush (fsync, 1 writer), a bare group commit (fsync, more
writers), copy and checksum into warm memory (os, --burst), a bare ring with
background writes (os).`,
		more: `  # latency at 10 000 appends/s at level os, while the store is flushed every 20 ms
  oncelog bench append --level os --rate 10000 --flush-every 20ms --limits`,
		flags: func(cmd *cobra.Command, c *bench.Config) {
			f := cmd.Flags()
			batchFlags(cmd, c)
			writerFlags(cmd, c)
			f.StringVar((*string)(&c.Producer), "producer", "", "plain or idempotent (default idempotent)")
			f.StringVar((*string)(&c.Files), "files", "", "written (one store for all rounds) or fresh (a new one for each) (default written)")
			f.Float64Var(&c.Rate, "rate", 0, "appends due in a second, over all writers; 0: closed loop")
			f.BoolVar(&c.Timed, "timed", false, "take the time of each append also where that costs much of it (closed loop, level os)")
			f.Var(sizeFlag{&c.Burst}, "burst", "bytes to append until the clock stands still for a flush; 0: sustained")
			f.DurationVar(&c.FlushEvery, "flush-every", 0, "flush the store in this interval beside the appends; 0: no")
		},
	},
	{
		workload: bench.Read,
		short:    "Read sequentially, checksums verified",
		long: `Write --bytes, and read them again and again by fetches of 1 MiB, from the first
offset to the last, checksums verified. With --limits, in turn with bare reads of
1 MiB and the same checksums.`,
		more: `  oncelog bench read --size 16KiB --cache cold --limits`,
		flags: func(cmd *cobra.Command, c *bench.Config) {
			f := cmd.Flags()
			batchFlags(cmd, c)
			f.IntVar(&c.Writers, "readers", 0, "goroutines that read (default 1)")
			f.IntVar(&c.Partitions, "partitions", 0, "partitions they read (default 1)")
			f.StringVar((*string)(&c.Cache), "cache", "", "warm (in the page cache) or cold (dropped from it before each round) (default warm)")
		},
	},
	{
		workload: bench.Dedup,
		short:    "Append from many idempotent producers, and duplicates",
		long: `Append from many idempotent producers in turn, from one, and batches that are
duplicates of stored ones, in turn; by default at level os.`,
		more: `  oncelog bench dedup --producers 100000 --size 100`,
		flags: func(cmd *cobra.Command, c *bench.Config) {
			f := cmd.Flags()
			batchFlags(cmd, c)
			writerFlags(cmd, c)
			f.IntVar(&c.Producers, "producers", 0, "producers that take turns (default 1000)")
		},
	},
	{
		workload: bench.Aborted,
		short:    "Read committed records behind aborted transactions",
		long: `Read at read_committed what stands behind many aborted transactions, in turn with
the same behind one: the cost of a fetch must not depend on their number.`,
		more: `  oncelog bench aborted --transactions 100000 --long`,
		flags: func(cmd *cobra.Command, c *bench.Config) {
			f := cmd.Flags()
			batchFlags(cmd, c)
			f.IntVar(&c.Transactions, "transactions", 0, "aborted transactions before what is read (default 10000)")
			f.BoolVar(&c.Long, "long", false, "and one that spans them all")
		},
	},
	{
		workload: bench.Recovery,
		short:    "Open a store after kill -9 and after power loss",
		long: `Write --bytes in a process that is killed by kill -9, and open copies of what it
left: as they are, and as after power loss (without what was in the mapped tail,
with another boot id, dropped from the page cache). With --limits, in turn with reading,
checking, rewriting and flushing what a checkpoint bounds.`,
		more: `  oncelog bench recovery --bytes 1GiB --level os --limits`,
		flags: func(cmd *cobra.Command, c *bench.Config) {
			f := cmd.Flags()
			batchFlags(cmd, c)
			f.StringVar(&c.Level, "level", "", "os or fsync (default fsync)")
			f.IntVar(&c.Partitions, "partitions", 0, "partitions (default 1)")
		},
	},
	{
		workload: bench.Limits,
		short:    "Measure what the machine can do, and the engine beside it",
		long: `Measure what the machine can do, each group in turn with the engine:

  memory  copy and checksum into warm memory; a ring with background writes;
          a write an append; a mapped segment, cold and populated
  flush   a write and a flush on a written file, and on an unwritten one;
          mapped segments with msync and with fdatasync
  shared  a bare group commit
  read    reads of 1 MiB with checksums

Ratios are to the first of each group.`,
		more: `  oncelog bench limits --size 16KiB --dir /mnt/nvme`,
		flags: func(cmd *cobra.Command, c *bench.Config) {
			f := cmd.Flags()
			batchFlags(cmd, c)
			f.IntVar(&c.Writers, "writers", 0, "goroutines that share flushes (default 16)")
		},
	},
}

// batchFlags are the flags of what is appended.
func batchFlags(cmd *cobra.Command, c *bench.Config) {
	f := cmd.Flags()
	f.Var(intSizeFlag{&c.RecordBytes}, "size", "size of a record's value (default 1KiB)")
	f.IntVar(&c.RecordsPerBatch, "batch", 0, "records a batch (default 1)")
	f.Var(sizeFlag{&c.SegmentBytes}, "segment", "size of a segment (default 64MiB)")
}

// writerFlags are the flags of who appends.
func writerFlags(cmd *cobra.Command, c *bench.Config) {
	f := cmd.Flags()
	f.IntVar(&c.Writers, "writers", 0, "goroutines that append (default 1)")
	f.IntVar(&c.Partitions, "partitions", 0, "partitions they append to (default 1)")
	f.StringVar(&c.Level, "level", "", "os or fsync (default fsync; dedup: os)")
}

func newBenchWorkloadCommand(w benchWorkload) *cobra.Command {
	r := &benchRun{config: bench.Config{Workload: w.workload}}
	name := string(w.workload)
	cmd := &cobra.Command{
		Use:     name,
		Short:   w.short,
		Long:    w.long + "\n\n" + benchExitHelp,
		Example: fmt.Sprintf("  oncelog bench %s\n\n%s", name, w.more),
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.config.Normalize()
			if err != nil {
				return usageError(cmd, trimPackage(err))
			}
			return r.run(cmd, c.Estimate(), func(ctx context.Context, space *bench.Workspace) (*bench.Report, error) {
				progress := r.prepare(cmd)
				defer progress.done()
				return bench.Run(ctx, space, r.config)
			})
		},
	}
	r.flags(cmd)
	w.flags(cmd, &r.config)
	cmd.Flags().DurationVar(&r.config.Warmup, "warmup", 0, "of each side (default 200ms)")
	if w.workload != bench.Limits && w.workload != bench.Dedup && w.workload != bench.Aborted {
		cmd.Flags().BoolVar(&r.config.Limits, "limits", false, "measure the bare references too, in turn, and print ratios")
	}
	return cmd
}

// trimPackage takes the name of the package from the text of an error, which
// says nothing to a person.
func trimPackage(err error) error {
	return &shortError{err}
}

// shortError is an error without the name of the package that found it.
type shortError struct{ err error }

func (e *shortError) Error() string { return strings.TrimPrefix(e.err.Error(), "bench: ") }
func (e *shortError) Unwrap() error { return e.err }
