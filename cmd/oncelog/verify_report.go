package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// verificationSums add up over all partitions.
type verificationSums struct {
	damage, warnings, notes           int
	segments, batches, records, bytes int64
}

func (s *verificationSums) add(r *log.VerifyReport) {
	s.segments, s.batches, s.records, s.bytes = s.segments+int64(r.Segments), s.batches+r.Batches, s.records+r.Records, s.bytes+r.Bytes
	s.damage, s.warnings, s.notes = s.damage+r.Damage, s.warnings+r.Warnings, s.notes+r.Notes
}

// heldFinding is a finding and the partition that it is about; "" for none.
type heldFinding struct {
	partition string
	log.Finding
}

// heldMax is how many findings a table holds back, since they come below that
// of the partitions; as many again may be damage. JSON holds back none.
const heldMax = 10_000

// partition verifies one partition and shows its row, also if it could not be
// looked at to the end: then of what was seen until then.
func (v *verification) partition(ctx context.Context, root *logRoot, dir string, tp topic.Partition) error {
	r, err := v.look(ctx, root, dir, tp)
	if root.clean && (err != nil || r.Damage > 0) && !v.stillClean(root) {
		// Somebody opened the directory meanwhile. What was seen may be a log
		// in motion, which is judged otherwise.
		*root = *v.readRoot(root.dir)
		r, err = v.look(ctx, root, dir, tp)
	}
	if v.deleted(root, dir, err) {
		v.rootFinding(log.SeverityNote, root.dir, filepath.Base(dir), "the partition was deleted meanwhile: the directory is in use")
		return nil
	}
	v.partitions++
	if err != nil {
		v.unfinished++
	}
	v.add(&r)
	v.partitionRow(&r, err == nil)
	v.identify(root, dir, tp)
	slices.SortStableFunc(r.Findings, func(a, b log.Finding) int { return int(b.Severity) - int(a.Severity) })
	for _, f := range r.Findings {
		v.show(tp.String(), f)
	}
	if kept, all := len(r.Findings), r.Damage+r.Warnings+r.Notes; all > kept {
		v.progress.done()
		fmt.Fprintf(v.stderr, "oncelog: %s: %d more findings are not shown\n", tp, all-kept)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return errStopped
	case v.out.failed():
		return errOutput
	case err != nil:
		return cannotVerify(dir, err)
	}
	return nil
}

// deleted tells whether an error comes from a partition that vanished since it
// was listed.
func (v *verification) deleted(root *logRoot, dir string, err error) bool {
	if root.clean || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err = v.fs.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// look has package log verify a partition.
func (v *verification) look(ctx context.Context, root *logRoot, dir string, tp topic.Partition) (log.VerifyReport, error) {
	if ctx.Err() != nil {
		return log.VerifyReport{Partition: tp}, ctx.Err()
	}
	_, compacted := root.compacted[tp]
	o := log.Options{FS: v.fs, Dir: dir, Partition: tp, ReadOnly: true, Clean: root.clean,
		Points: log.Points{RecoveryPoint: root.recovery[tp], LogStart: root.start[tp], HighWatermark: root.high[tp]}}
	root.memory.Apply(&o)
	return log.Verify(ctx, o, log.VerifyOptions{Compacted: compacted, Progress: func(n int64) { v.progress.add(dir, n) }})
}

// cannotVerify says which file of a partition cannot be read, and what to do.
func cannotVerify(dir string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return cannotLook(e.Path, err)
	}
	if errors.Is(err, batch.ErrLegacyMagic) {
		return fmt.Errorf("%s: %w; let a Kafka of version 3 rewrite the topic, or copy it to a new one", dir, err)
	}
	return fmt.Errorf("%s: %w", dir, err)
}

// found counts a finding that log.Verify did not make, and shows it.
func (v *verification) found(partition string, f log.Finding) {
	switch f.Severity {
	case log.SeverityDamage:
		v.damage++
	case log.SeverityWarning:
		v.warnings++
	default:
		v.notes++
	}
	v.show(partition, f)
}

// show shows a finding: at once as JSON, below the partitions in a table.
func (v *verification) show(partition string, f log.Finding) {
	if v.out.json {
		v.findingRow(partition, f)
		return
	}
	v.heldCount++
	if n := len(v.held); n < heldMax || f.Severity == log.SeverityDamage && n < 2*heldMax {
		v.held = append(v.held, heldFinding{partition, f})
	}
}

// showHeld shows what was held back, all damage first.
func (v *verification) showHeld() {
	slices.SortStableFunc(v.held, func(a, b heldFinding) int { return int(b.Severity) - int(a.Severity) })
	for _, f := range v.held {
		v.findingRow(f.partition, f.Finding)
	}
	if more := v.heldCount - len(v.held); more > 0 {
		fmt.Fprintf(v.stderr, "oncelog: %d more findings are not shown; -o json shows them\n", more)
	}
}

// directoryRow tells which directory the partitions that follow are of, and by
// what they are judged.
func (v *verification) directoryRow(dir string, root *logRoot, partitions int) {
	v.directories++
	w := v.out
	w.begin("directory")
	w.string("directory", dir)
	w.bool("stopped_cleanly", root.clean)
	w.int("partitions", int64(partitions))
	w.end()
}

func (v *verification) partitionRow(r *log.VerifyReport, complete bool) {
	w := v.out
	w.begin("partition")
	w.string("partition", r.Partition.String())
	w.bool("complete", complete)
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
}

func (v *verification) findingRow(partition string, f log.Finding) {
	w := v.out
	w.begin("finding")
	w.string("severity", f.Severity.String())
	w.string("about", f.Kind)
	optionalString(w, "partition", partition)
	w.string("path", f.File)
	w.optionalInt("pos", f.Pos, f.Pos >= 0)
	w.optionalInt("offset", f.Offset, f.Offset >= 0)
	w.string("text", f.Text)
	w.end()
}

// optionalString is a text that JSON leaves out if there is none.
func optionalString(w *output, name, text string) {
	if text == "" {
		w.object(name, nil)
		return
	}
	w.string(name, text)
}

// summary shows the sums, and in words whether all is sound.
func (v *verification) summary(ended error) {
	if v.directories == 0 {
		return
	}
	verdict := "sound"
	switch {
	case v.damage > 0:
		verdict = "damaged"
	case v.blind || ended != nil:
		verdict = "incomplete" // sound as far as it was looked at
	}
	w := v.out
	w.begin("summary")
	w.string("verdict", verdict)
	w.int("partitions", int64(v.partitions))
	w.int("unfinished", int64(v.unfinished))
	w.int("segments", v.segments)
	w.int("batches", v.batches)
	w.int("records", v.records)
	w.int("bytes", v.bytes)
	w.int("damage", int64(v.damage))
	w.int("warnings", int64(v.warnings))
	w.int("notes", int64(v.notes))
	w.end()
}
