package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/vfs"
)

func newRecoverCommand() *cobra.Command {
	r := &recovery{fs: vfs.Machine()}
	var format string
	cmd := &cobra.Command{
		Use:   "recover DIR",
		Short: "Bring a log directory in order after a crash (writes)",
		Long: `Open a log directory, recover what a crash left, and close it cleanly, so that
Apache Kafka or oncelog can go on with it. This writes: the end of a log that a
crash tore is cut, and kept beside it in a .cut file; indexes, snapshots and
checkpoints that it lacks are made. Only what was written since the recovery
point is read: 'oncelog verify' reads everything, tells beforehand what would be
cut, and writes nothing.

A directory in use is refused. A partition that is damaged where it was on the
device is left as it is, named with the reason, and the directory is not marked
clean; the others are recovered all the same. No record expires and none is
deleted by retention. Run again on a directory in order it changes nothing.

If another program, such as Kafka, wrote into a log after a crash of oncelog, where
journal or mapped tail say that an append of ours belongs, both cannot hold: the
directory is refused. --accept-foreign takes what the other one wrote, and sets
journal and tail aside (oncelog.journal.TIME.kept, oncelog.tail.TIME.kept).

Ctrl-C stops safely: what is done stays done, and the next run goes on.

Exit status: 0 in order and closed cleanly, 1 some partitions are damaged,
2 not done or not all (no permission, wrong usage), or stopped.`,
		Example: `  oncelog recover /var/lib/kafka/data

  # what was cut, as JSON
  oncelog recover -o json /var/lib/kafka/data | jq -c 'select(.event == "tail cut")'`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.out, err = newOutput(cmd.OutOrStdout(), format); err != nil {
				return usageError(cmd, err)
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			r.dir, r.stderr = args[0], cmd.ErrOrStderr()
			r.watch.progress, r.watch.name = newProgress(r.stderr), r.dir
			return r.run(ctx)
		},
	}
	cmd.Flags().BoolVar(&r.acceptForeign, "accept-foreign", false, "take what another program wrote after a crash of ours, and set our journal and tail aside")
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format: text (tables) or json (one object a line)")
	return cmd
}

// recovery is one run of recover.
type recovery struct {
	fs     vfs.FS
	dir    string
	out    *output
	stderr io.Writer
	watch  recoveryWatch

	acceptForeign bool
	clean         bool // there was a mark of a clean stop
	partitions    []recovered
	closed        bool // there is one now

	mu     sync.Mutex // guards events
	events []oncelog.Event
}

// recovered is a partition of the open store.
type recovered struct {
	oncelog.TopicPartition
	logStart, logEnd int64
	refused          error // why it does not open
}

// forever is longer than anything that expires.
const forever = 100 * 365 * 24 * time.Hour

// run recovers the directory and shows what was done, also if not all was.
func (r *recovery) run(ctx context.Context) error {
	err := r.look()
	if err != nil {
		return &exitError{code: exitBlind, err: err}
	}
	err = r.recover(ctx)
	r.watch.done()
	r.show(err)
	if flushErr := r.out.flush(); flushErr != nil && err == nil {
		err = fmt.Errorf("the directory is recovered, but: write the output: %w", flushErr)
	}
	if err != nil {
		return &exitError{code: exitBlind, err: err}
	}
	return r.verdict()
}

// look refuses what is no log directory, before anything is made in it.
func (r *recovery) look() error {
	c, err := listContents(r.fs, r.dir)
	switch {
	case err != nil:
		return err
	case c.isPartition():
		return fmt.Errorf("%s is the directory of a partition; name the log directory that it lies in", r.dir)
	case !c.isLogDirectory():
		return fmt.Errorf("%s is no log directory: it holds no partition (a directory topic-number); nothing was changed", r.dir)
	}
	r.clean = r.marked()
	return nil
}

// marked tells whether there is a mark of a clean stop.
func (r *recovery) marked() bool {
	_, err := r.fs.Stat(filepath.Join(r.dir, checkpoint.CleanShutdownFile))
	return err == nil
}

// recover opens the directory and closes it. The error says what to do.
func (r *recovery) recover(ctx context.Context) error {
	fs := &interruptibleFS{FS: r.fs, ctx: ctx, read: r.watch.read}
	s, err := oncelog.Open(r.dir, oncelog.Options{FS: fs, Events: r.event, AcceptForeign: r.acceptForeign, RetentionInterval: forever, ProducerExpiration: forever,
		// Whoever opens it next carries transactions on: but what is set aside takes
		// the open ones along.
		Transactions: oncelog.TransactionOptions{ReadOnly: !r.acceptForeign}})
	if err != nil {
		if _, foreign := errors.AsType[*oncelog.ForeignWriterError](err); foreign {
			err = fmt.Errorf("%w: --accept-foreign does that; nothing was changed", err)
		}
		return stoppedOr(ctx, err)
	}
	// From here on the store itself sees to it that it stops safely.
	fs.release()
	for _, t := range s.Topics() {
		for _, index := range t.Partitions {
			p := recovered{TopicPartition: oncelog.TopicPartition{Topic: t.Name, Index: index}}
			l, err := s.Partition(p.TopicPartition)
			if p.refused = err; err == nil {
				f := l.Frontiers()
				p.logStart, p.logEnd = f.LogStart, f.LogEnd
			}
			r.partitions = append(r.partitions, p)
		}
	}
	if err := s.Close(ctx); err != nil {
		return stoppedOr(ctx, err)
	}
	r.closed = r.marked()
	return nil
}

// stoppedOr is the error of a run that was told to stop, or the one it has.
func stoppedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("stopped: what was not done yet is as the crash left it, and nothing is lost; run it again to go on")
	}
	return err
}

// event takes what the store tells. Safe for concurrent use.
func (r *recovery) event(e oncelog.Event) {
	if e.Kind == oncelog.EventProgress {
		r.watch.stage(fmt.Sprintf("%s: %d of %d partitions", e.File, e.Count, e.Total))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// verdict ends a run that was done.
func (r *recovery) verdict() error {
	refused, blind := 0, error(nil)
	for _, p := range r.partitions {
		if p.refused != nil {
			refused++
			if blind == nil && !refusedAsDamaged(p.refused) {
				blind = p.refused
			}
		}
	}
	switch {
	case blind != nil:
		advice := ""
		if errors.Is(blind, fs.ErrPermission) {
			advice = "; give this user read and write permission on the directory and all in it"
		}
		return &exitError{code: exitBlind, err: fmt.Errorf("%d of %d partitions refuse to open, the others are in order; the directory is not marked clean: %w%s", refused, len(r.partitions), blind, advice)}
	case refused > 0:
		return &exitError{code: exitDamaged, err: fmt.Errorf("%d of %d partitions refuse to open, the others are in order; the directory is not marked clean", refused, len(r.partitions))}
	case !r.closed:
		fmt.Fprintf(r.stderr, "oncelog: %s is not marked clean: it holds copies that Kafka is moving here (-future), which Kafka has to recover\n", r.dir)
	}
	return nil
}

// refusedAsDamaged tells whether a partition refuses because of what is in it, rather
// than because it could not be read.
func refusedAsDamaged(err error) bool {
	return errors.Is(err, oncelog.ErrCorrupt) || errors.Is(err, batch.ErrLegacyMagic) || errors.Is(err, oncelog.ErrPartitionMissing)
}
