package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

func newVerifyCommand() *cobra.Command {
	v := &verification{fs: vfs.Machine()}
	var format string
	cmd := &cobra.Command{
		Use:   "verify DIR...",
		Short: "Read log directories or partitions whole and compare everything in them",
		Long: `Read every batch of every partition and compare it with its checksum, its
records, its neighbours, the three indexes, the producer snapshots, the leader
epochs and the checkpoints. DIR is a log directory, or the directory of one
partition in it.

Findings are damage (files contradict themselves or each other), warnings
(nothing is damaged, but somebody may come to harm, such as a batch that Kafka
stored and a consumer stumbles over) and notes (a torn tail that recovery will
cut, files that are none of the log's). Only damage makes the exit status 1.

Nothing is written, no lock is taken and nothing expires: directories in use and
directories that a crash left can be verified. Without Kafka's mark of a clean
stop in the log directory, what does not hold above the recovery point is what
a crash leaves, and no damage. Ctrl-C stops, and shows what was found so far.

Exit status: 0 sound, 1 damage found, 2 could not look at everything (wrong
usage included), or stopped.`,
		Example: `  # a whole log directory
  oncelog verify /var/lib/kafka/data

  # one partition, one topic
  oncelog verify /var/lib/kafka/data/orders-0
  oncelog verify --topic orders /var/lib/kafka/data

  # all findings of damage, as JSON
  oncelog verify -o json /var/lib/kafka/data | jq -c 'select(.severity == "damage")'`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if v.out, err = newOutput(cmd.OutOrStdout(), format); err != nil {
				return usageError(cmd, err)
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			v.stderr, v.progress = cmd.ErrOrStderr(), newProgress(cmd.ErrOrStderr())
			return v.run(ctx, args)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format: text (tables) or json (one object a line)")
	cmd.Flags().StringVar(&v.topic, "topic", "", "only partitions of this topic")
	return cmd
}

// verification is one run of verify. Not safe for concurrent use.
type verification struct {
	fs       vfs.FS
	out      *output
	stderr   io.Writer
	progress *progress
	topic    string

	verificationSums
	directories int  // looked at, or a partition in them
	partitions  int  // looked at, to the end or not
	unfinished  int  // of those: not to the end
	blind       bool // something could not be looked at

	held      []heldFinding // findings that are shown below the table
	heldCount int           // all that were to be held, those left out included
}

// errStopped ends a run that was told to stop.
var errStopped = errors.New("stopped before everything was looked at")

// run verifies all directories, whatever happens to one of them.
func (v *verification) run(ctx context.Context, dirs []string) error {
	var ended error
	for _, dir := range dirs {
		if ended = v.directory(ctx, dir); errors.Is(ended, errStopped) || errors.Is(ended, errOutput) {
			break
		}
		if ended != nil {
			v.complain(ended)
			ended = nil
		}
	}
	v.progress.done()
	v.showHeld()
	v.summary(ended)
	if err := v.out.flush(); err != nil {
		return &exitError{code: exitBlind, err: fmt.Errorf("write the output: %w", err)}
	}
	switch {
	case ended != nil:
		return &exitError{code: exitBlind, err: ended}
	case v.damage > 0:
		return &exitError{code: exitDamaged}
	case v.blind:
		return &exitError{code: exitBlind}
	}
	return nil
}

// complain tells of what could not be looked at; the rest still is.
func (v *verification) complain(err error) {
	v.progress.done()
	v.blind = true
	fmt.Fprintf(v.stderr, "oncelog: %v\n", err)
}

// directory verifies a log directory, or one partition of it.
func (v *verification) directory(ctx context.Context, dir string) error {
	c, err := listContents(v.fs, dir)
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if !c.isPartition() {
		return v.logDirectory(ctx, dir, c)
	}
	tp, err := topic.ParseDir(filepath.Base(absolute))
	if err != nil {
		return fmt.Errorf("%s holds the files of a partition, but has not the name of one (topic-number); rename a copy", dir)
	}
	root := v.readRoot(filepath.Dir(absolute))
	v.directoryRow(dir, root, 1)
	v.measure([]string{dir})
	return v.partition(ctx, root, dir, tp)
}

// logDirectory verifies the partitions of a log directory, and the files beside
// them.
func (v *verification) logDirectory(ctx context.Context, dir string, c *contents) error {
	if !c.isLogDirectory() {
		return fmt.Errorf("%s is no log directory: it holds no partition (a directory topic-number)", dir)
	}
	var chosen []topic.Partition
	var paths []string
	for _, tp := range c.partitions {
		if v.topic == "" || tp.Topic == v.topic {
			chosen = append(chosen, tp)
			paths = append(paths, filepath.Join(dir, tp.String()))
		}
	}
	if len(chosen) == 0 && v.topic != "" {
		return fmt.Errorf("%s: no partition of topic %q", dir, v.topic)
	}
	root := v.readRoot(dir)
	v.directoryRow(dir, root, len(chosen))
	v.measure(paths)
	for i, tp := range chosen {
		err := v.partition(ctx, root, paths[i], tp)
		if errors.Is(err, errStopped) || errors.Is(err, errOutput) {
			return err
		}
		if err != nil {
			v.complain(err)
		}
	}
	if v.topic == "" {
		v.surroundings(root, c)
	}
	return nil
}

// measure finds out how much there is to read, for a person who watches.
func (v *verification) measure(dirs []string) {
	if v.progress.w == nil {
		return
	}
	for _, dir := range dirs {
		entries, err := v.fs.ReadDir(dir)
		if err != nil {
			continue // it is complained about when its turn comes
		}
		for _, e := range entries {
			if !isLogFile(e) {
				continue
			}
			if info, err := v.fs.Stat(filepath.Join(dir, e.Name())); err == nil {
				v.progress.total += info.Size()
			}
		}
	}
}
