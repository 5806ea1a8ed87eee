package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
)

// knownFiles says what dump takes, for errors.
const knownFiles = "a .log, .index, .timeindex, .txnindex or .snapshot file, an offset checkpoint, " +
	"leader-epoch-checkpoint, partition.metadata, meta.properties, .kafka_cleanshutdown, oncelog.manifest, oncelog.journal, " +
	"oncelog.rescue, oncelog.tail, or a directory of them"

// fileDumper gives the method that shows a file of that name, nil for a file
// that is none of Kafka's.
func (d *dumper) fileDumper(name string) func(path string) error {
	switch name {
	case checkpoint.RecoveryPointFile, checkpoint.LogStartFile, checkpoint.HighWatermarkFile, checkpoint.CleanerFile:
		return d.offsets
	case checkpoint.LeaderEpochFile:
		return d.epochs
	case checkpoint.PartitionMetadataFile:
		return d.partitionMetadata
	case checkpoint.MetaFile:
		return d.meta
	case checkpoint.CleanShutdownFile:
		return d.cleanShutdown
	case catalog.ManifestFile:
		return d.manifestFile
	case journal.Name:
		return d.journalFile
	case journal.RescueName:
		return d.rescueFile
	case tail.FileName:
		return d.tailFile
	}
	n, ok := segment.ParseName(name)
	if !ok {
		return nil
	}
	switch n.Kind {
	case segment.KindLog:
		return d.log
	case segment.KindOffsetIndex:
		return func(path string) error { return d.offsetIndex(path, n.Offset) }
	case segment.KindTimeIndex:
		return func(path string) error { return d.timeIndex(path, n.Offset) }
	case segment.KindTxnIndex:
		return func(path string) error { return d.txnIndex(path, n.Offset) }
	case segment.KindSnapshot:
		return d.snapshot
	}
	return nil
}

// path shows what one argument names.
func (d *dumper) path(path string) error {
	info, err := d.fs.Stat(path)
	if err != nil {
		return cannotLook(path, err)
	}
	if info.IsDir() {
		return d.directory(path)
	}
	show := d.fileDumper(filepath.Base(path))
	if show == nil {
		return fmt.Errorf("%s is of no kind that dump knows by its name: want %s", path, knownFiles)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	d.beginMemory(filepath.Join(filepath.Dir(path), ".."))
	d.beginPartition(filepath.Base(filepath.Dir(absolute)))
	d.layMemory(filepath.Dir(path), partitionOf(filepath.Base(filepath.Dir(absolute))))
	return d.shown(show(path))
}

// shown turns the error of a file into the one that ends the run, if the
// output is what failed.
func (d *dumper) shown(err error) error {
	if err == nil && d.out.failed() {
		return errOutput
	}
	return err
}

// beginPartition sets what depends on the partition, told by the name of its
// directory.
func (d *dumper) beginPartition(dir string) {
	d.decided = nil
	if d.auto {
		p, _ := topic.ParseDir(dir)
		d.decoder = decoderOfTopic(p.Topic)
	}
}

// directory shows a log directory, or the directory of a partition: one in
// which the files of segments lie, or that has the name of one.
func (d *dumper) directory(path string) error {
	entries, err := d.fs.ReadDir(path)
	if err != nil {
		return cannotLook(path, err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	_, notNamed := topic.ParseDir(filepath.Base(absolute))
	if notNamed == nil || slices.ContainsFunc(entries, isPartitionFile) {
		d.beginMemory(filepath.Join(path, ".."))
		return d.partition(path, filepath.Base(absolute), entries)
	}
	d.beginMemory(filepath.Clean(path))
	known := slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return d.isPartition(filepath.Join(path, e.Name()), e) || !e.IsDir() && d.fileDumper(e.Name()) != nil
	})
	if !known {
		return fmt.Errorf("%s is no log directory: it holds no partition (a directory topic-number) and no file that dump knows; want %s", path, knownFiles)
	}
	if err := d.files(path, entries); err != nil {
		return err
	}
	for _, e := range entries {
		if sub := filepath.Join(path, e.Name()); d.isPartition(sub, e) {
			inside, err := d.fs.ReadDir(sub)
			if err != nil {
				d.complain(cannotLook(sub, err))
				continue
			}
			if err := d.partition(sub, e.Name(), inside); err != nil {
				return err
			}
		}
	}
	return nil
}

// partitionOf is the partition that a directory has the name of, zero if none.
func partitionOf(name string) topic.Partition {
	tp, _ := topic.ParseDir(name)
	return tp
}

// isPartition tells whether an entry of a log directory is the directory of a
// partition, be it one about to be deleted or moved.
func (d *dumper) isPartition(path string, e fs.DirEntry) bool {
	if !e.IsDir() {
		return false
	}
	if _, err := topic.ParseDir(e.Name()); err == nil {
		return true
	}
	inside, err := d.fs.ReadDir(path)
	return err == nil && slices.ContainsFunc(inside, isPartitionFile)
}

// isPartitionFile tells whether only the directory of a partition has such a
// file.
func isPartitionFile(e fs.DirEntry) bool {
	_, ok := segment.ParseName(e.Name())
	return ok && !e.IsDir()
}

// partition shows the files of one partition.
func (d *dumper) partition(path, name string, entries []fs.DirEntry) error {
	// A directory pending deletion is named topic-partition.id-delete.
	named, _, _ := strings.Cut(name, ".")
	if _, err := topic.ParseDir(name); err == nil {
		named = name
	}
	d.beginPartition(named)
	d.layMemory(path, partitionOf(name))
	if d.records {
		d.decided = newDecisions()
		for _, e := range sortedFiles(entries) {
			n, ok := segment.ParseName(e.Name())
			if !ok || n.Kind != segment.KindLog || n.Suffix != segment.SuffixNone {
				continue
			}
			if err := d.decide(filepath.Join(path, e.Name())); err != nil {
				d.decided = nil // the file is complained about when it is shown
				break
			}
		}
		if d.decided != nil {
			d.lastStable = d.decided.lastStable()
		}
	}
	return d.files(path, entries)
}

// files shows the files of a directory, one after the other, and names those
// it leaves out.
func (d *dumper) files(path string, entries []fs.DirEntry) error {
	for _, e := range sortedFiles(entries) {
		file := filepath.Join(path, e.Name())
		show := d.fileDumper(e.Name())
		if show == nil {
			d.skipped(file, "none of the files that dump knows")
			continue
		}
		err := d.shown(show(file))
		switch {
		case errors.Is(err, errOutput):
			return err
		case errors.Is(err, fs.ErrNotExist):
			d.skipped(file, "it is gone: the directory is in use")
		case err != nil:
			d.complain(err)
		}
	}
	return nil
}

// skipped names a file that is not shown.
func (d *dumper) skipped(path, reason string) {
	d.out.file(path)
	d.out.begin("skipped")
	d.out.string("skipped", reason)
	d.out.end()
}

// sortedFiles are the files of a directory: the segments in the order of the
// log, each with its indexes, behind them everything else by name.
func sortedFiles(entries []fs.DirEntry) []fs.DirEntry {
	files := slices.DeleteFunc(slices.Clone(entries), fs.DirEntry.IsDir)
	slices.SortStableFunc(files, func(a, b fs.DirEntry) int {
		m, mOK := segment.ParseName(a.Name())
		n, nOK := segment.ParseName(b.Name())
		switch {
		case mOK && nOK:
			return cmp.Or(cmp.Compare(m.Offset, n.Offset), cmp.Compare(m.Suffix, n.Suffix), cmp.Compare(m.Kind, n.Kind))
		case mOK:
			return -1
		case nOK:
			return 1
		}
		return cmp.Compare(a.Name(), b.Name())
	})
	return files
}
