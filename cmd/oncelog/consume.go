package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/internal/delivery"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

const consumeHelp = `Print the records that Kafka's Java consumer would deliver from one partition,
in order and once. DIR is a log directory. What that consumer skips is left out,
and told on standard error at the end: control records, with read_committed the
records of aborted transactions, and everything from the first open transaction
on. The end of the log counts as the high watermark.

--from says where to begin:
  earliest              the log start
  latest                the end of what the isolation level shows
  1234                  an offset; one outside of the log is refused
  2026-01-02T15:04:05Z  the first record that is not older than this time (RFC
                        3339, with a zone), or the end if all are older
  @1700000000000        the same, in ms since 1970

Text shows times in UTC, what is not printable as 0x and hex, and the first 120
bytes of long keys and values. JSON has all bytes, in hex.

Nothing is written and no lock is taken: directories in use and directories that
a crash left can be read. Behind a torn tail, as recovery would cut it, nothing
is shown. A damaged batch ends the output: the records before it are printed.

Exit status: 0 all is printed, or Ctrl-C ended --follow, 1 damage was met, 2
could not look (wrong usage and offsets out of range included), or stopped.`

const consumeExamples = `  # all that is committed
  oncelog consume /var/lib/kafka/data --topic orders --isolation read_committed

  # values of one partition, from a time on, as JSON
  oncelog consume /var/lib/kafka/data --topic orders --partition 2 --from 2026-01-02T15:04:05Z -o json | jq -r .value

  # ten records from an offset on
  oncelog consume /var/lib/kafka/data --topic orders --from 1234 --max 10

  # whatever comes, while a broker writes
  oncelog consume /var/lib/kafka/data --topic orders --from latest --follow`

func newConsumeCommand() *cobra.Command {
	c := &consumer{source: source{fs: vfs.Machine()}}
	var format, from, isolation string
	cmd := &cobra.Command{
		Use:     "consume DIR --topic T",
		Short:   "Print the records of a partition as a consumer gets them, without a server",
		Long:    consumeHelp,
		Example: consumeExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(cmd, errors.New("consume needs one log directory"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := c.parse(from, isolation); err != nil {
				return usageError(cmd, err)
			}
			if c.out, err = newOutput(cmd.OutOrStdout(), format); err != nil {
				return usageError(cmd, err)
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c.source.dir, c.stderr, c.progress = args[0], cmd.ErrOrStderr(), &progress{}
			if !isTerminal(cmd.OutOrStdout()) { // else the records show how far it is
				c.progress = newProgress(c.stderr)
			}
			return c.run(ctx)
		},
	}
	cmd.Flags().StringVar(&c.source.tp.Topic, "topic", "", "topic (required)")
	cmd.Flags().Int32Var(&c.source.tp.Index, "partition", 0, "partition")
	cmd.Flags().StringVar(&from, "from", "earliest", "earliest, latest, an offset, a time or @milliseconds")
	cmd.Flags().StringVar(&isolation, "isolation", log.ReadUncommitted.String(), "read_uncommitted or read_committed")
	cmd.Flags().Int64VarP(&c.max, "max", "n", 0, "print at most so many records; 0: all")
	cmd.Flags().BoolVarP(&c.follow, "follow", "f", false, "wait for more at the end, until Ctrl-C")
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format: text (tables) or json (one object a line)")
	return cmd
}

// consumer is one run of consume. Not safe for concurrent use.
type consumer struct {
	source   source
	from     startingPoint
	max      int64 // records; 0: all
	follow   bool
	delivery delivery.Delivery
	out      *output
	stderr   io.Writer
	progress *progress
	shown    int64 // records
	ended    bool  // all there is was delivered
}

// parse reads what the flags do not check themselves.
func (c *consumer) parse(from, isolation string) (err error) {
	switch {
	case c.source.tp.Topic == "":
		return errors.New("consume needs --topic")
	case topic.CheckName(c.source.tp.Topic) != nil:
		return fmt.Errorf("--topic: %w", topic.CheckName(c.source.tp.Topic))
	case c.source.tp.Index < 0:
		return fmt.Errorf("--partition %d: partitions are counted from 0", c.source.tp.Index)
	case c.max < 0:
		return fmt.Errorf("--max %d: want a number of records, or 0 for all", c.max)
	}
	switch isolation {
	case log.ReadCommitted.String():
		c.delivery.Isolation = log.ReadCommitted
	case log.ReadUncommitted.String():
		c.delivery.Isolation = log.ReadUncommitted
	default:
		return fmt.Errorf("--isolation %q: want read_uncommitted or read_committed", isolation)
	}
	c.from, err = parseStartingPoint(from)
	return err
}

// run prints the records and then tells what was left out.
func (c *consumer) run(ctx context.Context) error {
	c.source.fs = &interruptibleFS{FS: c.source.fs, ctx: ctx, read: c.read}
	defer c.source.close()
	defer c.delivery.Close()
	err := c.consume(ctx)
	c.progress.done()
	if e := c.out.flush(); e != nil && (err == nil || errors.Is(err, errOutput)) {
		err = fmt.Errorf("write the output: %w", e)
	}
	if c.source.log != nil {
		c.tellLeftOut()
	}
	if c.ended {
		c.tellEnd()
	}
	switch {
	case err != nil && ctx.Err() != nil && c.follow:
		return nil
	case err != nil && ctx.Err() != nil:
		return &exitError{code: exitBlind, err: c.stopped()}
	case isDamage(err):
		return &exitError{code: exitDamaged, err: err}
	case err != nil:
		return &exitError{code: exitBlind, err: err}
	}
	return nil
}

// stopped is the error of a run that was told to stop.
func (c *consumer) stopped() error {
	if c.source.log == nil {
		return errors.New("stopped before the first record")
	}
	return fmt.Errorf("stopped: --from %d goes on", c.delivery.Position)
}

// consume delivers from the wanted offset to the end, and with --follow what
// comes then.
func (c *consumer) consume(ctx context.Context) (err error) {
	if err := c.source.open(); err != nil {
		return err
	}
	if c.delivery.Position, err = c.source.find(c.from, c.delivery.Isolation); err != nil {
		return err
	}
	for {
		if err := c.drain(ctx); err != nil || c.full() {
			return err
		}
		if c.source.damage != nil {
			return c.source.damage
		}
		if !c.follow {
			return nil
		}
		if err := c.out.flush(); err != nil {
			return errOutput
		}
		if err := c.source.await(ctx); err != nil {
			return err
		}
	}
}

// drain delivers all there is.
func (c *consumer) drain(ctx context.Context) error {
	c.ended = false
	for !c.full() {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := c.source.read(c.delivery.Position, c.delivery.Isolation)
		if err != nil {
			return err
		}
		n := len(f.Bytes())
		for c.delivery.Take(f); !c.full() && c.delivery.Next(); c.shown++ {
			printRecord(c.out, c.delivery.Batch(), c.delivery.Record())
		}
		f.Close()
		if err := c.delivery.Err(); err != nil {
			return c.source.place(err)
		}
		if c.out.failed() {
			return errOutput
		}
		if n == 0 {
			c.ended = true
			return nil
		}
	}
	return nil
}

func (c *consumer) full() bool { return c.max > 0 && c.shown >= c.max }

// read tells of bytes that were read, with the place in the log.
func (c *consumer) read(n int) {
	name := c.source.tp.String()
	if l := c.source.log; l != nil {
		name = fmt.Sprintf("%s: offset %d of %d", name, c.delivery.Position, l.Frontiers().LogEnd)
	}
	c.progress.add(name, int64(n))
}
