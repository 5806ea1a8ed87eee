package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// logRoot is what the files at the root of a log directory say.
type logRoot struct {
	dir                              string
	clean                            bool
	recovery, start, high, compacted map[topic.Partition]int64
	ids                              map[string]identified // of topics, as far as their partitions were looked at
	memory                           *catalog.Memory       // what journal and tail hold; nil: nothing
}

// identified is a topic's id and the file that says so.
type identified struct {
	id   checkpoint.TopicID
	path string
}

// rootFileMax bounds the files at the root of a log directory.
const rootFileMax = 256 << 20

// readRoot reads the files that say what is expected of the partitions.
func (v *verification) readRoot(dir string) *logRoot {
	// The mark comes first: it is gone before anything is written.
	mark, clean := v.rootFile(dir, checkpoint.CleanShutdownFile)
	r := &logRoot{
		dir: dir, clean: clean, ids: map[string]identified{},
		recovery:  v.offsets(dir, checkpoint.RecoveryPointFile),
		start:     v.offsets(dir, checkpoint.LogStartFile),
		high:      v.offsets(dir, checkpoint.HighWatermarkFile),
		compacted: v.offsets(dir, checkpoint.CleanerFile),
	}
	if _, err := checkpoint.ReadCleanShutdown(mark); err != nil {
		v.rootFinding(log.SeverityWarning, dir, checkpoint.CleanShutdownFile, "%v; the mark counts all the same, but Kafka cannot tell which of its runs stopped there", err)
	}
	v.readMemory(r)
	return r
}

// readMemory reads what journal, rescue and tail hold. While they are in use a mark
// of a clean stop is another program's, which knew nothing of them.
func (v *verification) readMemory(r *logRoot) {
	if _, err := catalog.MadeHere(v.fs, r.dir); err != nil {
		return // it is told of with what the manifest says
	}
	memory, err := catalog.ReadMemory(v.fs, r.dir)
	switch {
	case err != nil && catalog.IsDamagedMemory(err):
		v.found("", log.Finding{Severity: log.SeverityDamage, Kind: log.FindingMemory, File: r.dir, Pos: -1, Offset: -1,
			Text: fmt.Sprintf("%v; oncelog would not open the directory", err)})
	case err != nil:
		v.complain(cannotLook(r.dir, err))
	case memory.InUse():
		r.clean = false
	}
	r.memory = memory
	if memory == nil {
		return
	}
	for _, f := range memory.Files {
		text := fmt.Sprintf("holds %d bytes in %d runs and %d frames", f.Bytes, f.Runs, f.Frames)
		if filepath.Base(f.Path) == tail.FileName {
			text = fmt.Sprintf("holds %d bytes in %d slots", f.Bytes, f.Slots)
		}
		v.rootFinding(log.SeverityNote, r.dir, filepath.Base(f.Path), "%s; the partitions are verified with it", text)
		if f.DroppedPos >= 0 {
			v.rootFinding(log.SeverityNote, r.dir, filepath.Base(f.Path), "the run at byte %d is not whole: it was never acknowledged, and recovery drops it", f.DroppedPos)
		}
	}
}

// rootFile reads a file at the root. One that is missing says nothing; one
// that cannot be read is complained about, and says nothing either.
func (v *verification) rootFile(dir, name string) (content []byte, there bool) {
	path := filepath.Join(dir, name)
	b, err := vfs.ReadFile(v.fs, path, rootFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err != nil {
		v.complain(cannotLook(path, err))
		return nil, false
	}
	return b, true
}

// rootFinding tells of a file at the root.
func (v *verification) rootFinding(s log.Severity, dir, name, format string, args ...any) {
	v.found("", log.Finding{Severity: s, Kind: log.FindingFile, File: filepath.Join(dir, name), Pos: -1, Offset: -1, Text: fmt.Sprintf(format, args...)})
}

// offsets reads a checkpoint file.
func (v *verification) offsets(dir, name string) map[topic.Partition]int64 {
	b, there := v.rootFile(dir, name)
	if !there {
		return nil
	}
	entries, err := checkpoint.ReadOffsets(b)
	if err != nil {
		v.rootFinding(log.SeverityDamage, dir, name, "%v; who opens the directory takes the file for empty", err)
		return nil
	}
	offsets := make(map[topic.Partition]int64, len(entries))
	for _, e := range entries {
		offsets[e.Partition] = e.Offset
	}
	return offsets
}

// stillClean tells whether nobody has opened the directory since its root was
// read.
func (v *verification) stillClean(r *logRoot) bool {
	_, err := v.fs.Stat(filepath.Join(r.dir, checkpoint.CleanShutdownFile))
	return r.clean && err == nil
}

// identify compares the topic id of a partition with those of the others of
// its topic. A file that cannot be read is told of by log.Verify.
func (v *verification) identify(r *logRoot, dir string, tp topic.Partition) {
	path := filepath.Join(dir, checkpoint.PartitionMetadataFile)
	b, err := vfs.ReadFile(v.fs, path, rootFileMax)
	if err != nil {
		return
	}
	m, err := checkpoint.ReadPartitionMetadata(b)
	if err != nil {
		return
	}
	first, known := r.ids[tp.Topic]
	if !known {
		r.ids[tp.Topic] = identified{m.TopicID, path}
		return
	}
	if first.id != m.TopicID {
		v.found(tp.String(), log.Finding{Severity: log.SeverityDamage, Kind: log.FindingFile, File: path, Pos: -1, Offset: -1,
			Text: fmt.Sprintf("the topic id is %s, %s says %s: Kafka would not start", m.TopicID, first.path, first.id)})
	}
}

// surroundings verifies what is no partition: other files at the root, and that
// every partition is there of which one of them speaks.
func (v *verification) surroundings(r *logRoot, c *contents) {
	if meta, there := v.rootFile(r.dir, checkpoint.MetaFile); there {
		if _, err := checkpoint.ReadMeta(meta); err != nil {
			v.rootFinding(log.SeverityDamage, r.dir, checkpoint.MetaFile, "%v; Kafka would not start", err)
		}
	}
	for _, name := range c.pending {
		v.rootFinding(log.SeverityNote, r.dir, name, "not looked at: a directory that waits for Kafka to remove, claim or complete it")
	}
	for _, name := range c.others {
		if name == topic.ClusterMetadata+"-0" {
			v.rootFinding(log.SeverityNote, r.dir, name, "not looked at: Kafka's metadata log")
			continue
		}
		if inside, err := listContents(v.fs, filepath.Join(r.dir, name)); err == nil && inside.isPartition() {
			v.rootFinding(log.SeverityWarning, r.dir, name, "not looked at: it holds the files of a partition, but has not the name of one")
		}
	}
	v.missing(r, c)
}

// missing tells of partitions that are not there, though a file at the root
// speaks of them.
func (v *verification) missing(r *logRoot, c *contents) {
	for _, tp := range v.madeAndGone(r) {
		v.rootFinding(log.SeverityDamage, r.dir, tp.String(), "the directory is missing: oncelog made the partition, and has not deleted it")
	}
	for _, tp := range slices.SortedFunc(maps.Keys(r.recovery), topic.Partition.Compare) {
		if !v.gone(r, tp) {
			continue
		}
		// No damage: the partition may have been deleted just before the end,
		// or left out of a copy.
		offset, severity, text := r.recovery[tp], log.SeverityWarning, "unless that is meant, it is lost"
		if offset == 0 || c.pendingOf(tp) {
			severity, text = log.SeverityNote, "nothing is lost by that"
		}
		v.found(tp.String(), log.Finding{Severity: severity, Kind: log.FindingPoints, File: filepath.Join(r.dir, checkpoint.RecoveryPointFile), Pos: -1, Offset: offset,
			Text: fmt.Sprintf("the recovery point is %d, and there is no directory: %s", offset, text)})
	}
}

// gone tells whether a partition has no directory. It looks again: one may have
// been made since they were listed.
func (v *verification) gone(r *logRoot, tp topic.Partition) bool {
	_, err := v.fs.Stat(filepath.Join(r.dir, tp.String()))
	return errors.Is(err, fs.ErrNotExist)
}

// madeAndGone are the partitions without a directory that the manifest says
// were made here.
func (v *verification) madeAndGone(r *logRoot) []topic.Partition {
	made, err := catalog.MadeHere(v.fs, r.dir)
	switch {
	case errors.Is(err, catalog.ErrManifest):
		v.rootFinding(log.SeverityDamage, r.dir, catalog.ManifestFile, "%v; oncelog would not open the directory", err)
	case errors.Is(err, catalog.ErrNewerFormat):
		v.complain(err)
	case err != nil:
		v.complain(cannotLook(filepath.Join(r.dir, catalog.ManifestFile), err))
	}
	gone := slices.DeleteFunc(made, func(tp topic.Partition) bool { return !v.gone(r, tp) })
	if len(gone) == 0 || err != nil {
		return nil
	}
	// A topic that is deleted meanwhile leaves the manifest first.
	still, err := catalog.MadeHere(v.fs, r.dir)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(gone, func(tp topic.Partition) bool { return !slices.Contains(still, tp) })
}
