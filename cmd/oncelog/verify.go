package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
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
directories that a crash left can be verified.

` + exitCodesHelp,
		Example: `  # a whole log directory
  oncelog verify /var/lib/kafka/data

  # one partition
  oncelog verify /var/lib/kafka/data/orders-0

  # all findings of damage, as JSON
  oncelog verify -o json /var/lib/kafka/data | jq -c 'select(.severity == "damage")'`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if v.out, err = newOutput(cmd.OutOrStdout(), format); err != nil {
				return usageError(cmd, err)
			}
			v.cmd, v.progress = cmd, newProgress(cmd.ErrOrStderr())
			return v.run(args)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format: text (tables) or json (one object a line)")
	cmd.Flags().StringVar(&v.topic, "topic", "", "only partitions of this topic")
	return cmd
}

// verification is one run of verify.
type verification struct {
	fs       vfs.FS
	cmd      *cobra.Command
	out      *output
	progress *progress
	topic    string

	partitions, blind          int
	damage, warnings, notes    int
	batches, records, segments int64
	bytes                      int64
	reports                    []log.VerifyReport // whose findings are shown below the table
}

func (v *verification) run(dirs []string) error {
	for _, dir := range dirs {
		if err := v.directory(dir); err != nil {
			v.complain(err)
		}
	}
	v.progress.done()
	v.findings()
	v.summary()
	if err := v.out.flush(); err != nil {
		return err
	}
	switch {
	case v.damage > 0:
		return &exitError{code: exitDamaged}
	case v.blind > 0:
		return &exitError{code: exitBlind}
	case v.partitions == 0:
		return &exitError{code: exitBlind, err: errors.New("no partition was verified")}
	}
	return nil
}

// complain tells of what could not be looked at; the rest still is.
func (v *verification) complain(err error) {
	v.progress.done()
	v.blind++
	fmt.Fprintf(v.cmd.ErrOrStderr(), "oncelog: %v\n", err)
}

// directory verifies a log directory, or one partition of it.
func (v *verification) directory(dir string) error {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if tp, err := topic.ParseDir(filepath.Base(absolute)); err == nil {
		if _, err := v.fs.ReadDir(dir); err != nil {
			return cannotLook(dir, err)
		}
		root := v.rootOf(filepath.Dir(absolute))
		return v.partition(root, dir, tp)
	}
	entries, err := v.fs.ReadDir(dir)
	if err != nil {
		return cannotLook(dir, err)
	}
	root, found := v.rootOf(dir), false
	for _, e := range entries {
		tp, err := topic.ParseDir(e.Name())
		if err != nil || !e.IsDir() || v.topic != "" && tp.Topic != v.topic {
			continue
		}
		found = true
		if err := v.partition(root, filepath.Join(dir, e.Name()), tp); err != nil {
			v.complain(err)
		}
	}
	if !found && v.topic != "" {
		return fmt.Errorf("%s: no partition of topic %q", dir, v.topic)
	}
	if !found {
		return fmt.Errorf("%s is no log directory: it holds no partition (a directory topic-number)", dir)
	}
	return nil
}

// logRoot is what the files at the root of a log directory say.
type logRoot struct {
	clean                            bool
	recovery, start, high, compacted map[topic.Partition]int64
}

func (v *verification) rootOf(dir string) logRoot {
	_, err := v.fs.Stat(filepath.Join(dir, checkpoint.CleanShutdownFile))
	return logRoot{
		clean:     err == nil,
		recovery:  v.offsets(dir, checkpoint.RecoveryPointFile),
		start:     v.offsets(dir, checkpoint.LogStartFile),
		high:      v.offsets(dir, checkpoint.HighWatermarkFile),
		compacted: v.offsets(dir, checkpoint.CleanerFile),
	}
}

// rootFileMax bounds the checkpoint files at the root of a log directory.
const rootFileMax = 256 << 20

// offsets reads a checkpoint file. One that is missing says nothing; one that
// cannot be read is complained about, and says nothing either.
func (v *verification) offsets(dir, name string) map[topic.Partition]int64 {
	path := filepath.Join(dir, name)
	b, err := vfs.ReadFile(v.fs, path, rootFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var entries []checkpoint.OffsetEntry
	if err == nil {
		if entries, err = checkpoint.ReadOffsets(b); err != nil {
			v.warnings++
			fmt.Fprintf(v.cmd.ErrOrStderr(), "oncelog: %s: %v; Kafka takes such a file for empty\n", path, err)
			return nil
		}
	}
	if err != nil {
		v.complain(cannotLook(path, err))
		return nil
	}
	offsets := make(map[topic.Partition]int64, len(entries))
	for _, e := range entries {
		offsets[e.Partition] = e.Offset
	}
	return offsets
}

// partition verifies one partition and shows its row.
func (v *verification) partition(root logRoot, dir string, tp topic.Partition) error {
	_, compacted := root.compacted[tp]
	o := log.Options{FS: v.fs, Dir: dir, Partition: tp, ReadOnly: true, Clean: root.clean,
		Points: log.Points{RecoveryPoint: root.recovery[tp], LogStart: root.start[tp], HighWatermark: root.high[tp]}}
	r, err := log.Verify(v.cmd.Context(), o, log.VerifyOptions{Compacted: compacted, Progress: func(n int64) { v.progress.add(dir, n) }})
	if err != nil {
		return cannotVerify(dir, err)
	}
	v.partitions++
	v.segments, v.batches, v.records, v.bytes = v.segments+int64(r.Segments), v.batches+r.Batches, v.records+r.Records, v.bytes+r.Bytes
	v.damage, v.warnings, v.notes = v.damage+r.Damage, v.warnings+r.Warnings, v.notes+r.Notes
	if len(r.Findings) > 0 {
		v.reports = append(v.reports, r)
	}
	w := v.out
	w.begin("partition")
	w.string("partition", tp.String())
	w.int("segments", int64(r.Segments))
	w.int("batches", r.Batches)
	w.int("records", r.Records)
	w.int("bytes", r.Bytes)
	w.int("log_start", r.LogStart)
	w.int("log_end", r.LogEnd)
	w.int("open", int64(r.Open))
	w.int("aborted", int64(r.Aborted))
	w.int("producers", int64(r.Producers))
	w.int("damage", int64(r.Damage))
	w.int("warnings", int64(r.Warnings))
	w.int("notes", int64(r.Notes))
	w.end()
	if v.out.failed() {
		return errOutput
	}
	return nil
}

func cannotVerify(dir string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return cannotLook(dir, err)
	}
	return err
}

// findings shows what was found, the worst of each partition first.
func (v *verification) findings() {
	for _, r := range v.reports {
		slices.SortStableFunc(r.Findings, func(a, b log.Finding) int { return int(b.Severity) - int(a.Severity) })
		for _, f := range r.Findings {
			w := v.out
			w.begin("finding")
			w.string("severity", f.Severity.String())
			w.string("about", f.Kind)
			w.string("partition", r.Partition.String())
			w.string("path", f.File)
			w.optionalInt("pos", f.Pos, f.Pos >= 0)
			w.optionalInt("offset", f.Offset, f.Offset >= 0)
			w.string("text", f.Text)
			w.end()
		}
		if kept, all := len(r.Findings), r.Damage+r.Warnings+r.Notes; all > kept {
			fmt.Fprintf(v.cmd.ErrOrStderr(), "oncelog: %s: %d more findings are not shown\n", r.Partition, all-kept)
		}
	}
}

// summary shows the sums, and in words whether all is sound.
func (v *verification) summary() {
	if v.partitions == 0 {
		return
	}
	verdict := "sound"
	if v.damage > 0 {
		verdict = "damaged"
	}
	w := v.out
	w.begin("summary")
	w.string("verdict", verdict)
	w.int("partitions", int64(v.partitions))
	w.int("segments", v.segments)
	w.int("batches", v.batches)
	w.int("records", v.records)
	w.int("bytes", v.bytes)
	w.int("damage", int64(v.damage))
	w.int("warnings", int64(v.warnings))
	w.int("notes", int64(v.notes))
	w.end()
}
