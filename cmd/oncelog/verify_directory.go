package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// contents is what a directory holds, sorted by what it says of the directory.
// Its name says nothing: log directories are called data-0 too.
type contents struct {
	partitions []topic.Partition // directories named like partitions, links to some included
	pending    []string          // directories of changes that Kafka has not finished
	others     []string          // all other directories
	rootFiles  bool              // files that lie at the root of log directories
	files      bool              // files that lie in the directories of partitions
}

// rootFiles lie at the root of log directories, and nowhere else.
var rootFiles = []string{
	checkpoint.CleanShutdownFile, checkpoint.MetaFile, checkpoint.RecoveryPointFile, checkpoint.LogStartFile,
	checkpoint.HighWatermarkFile, checkpoint.CleanerFile, catalog.ManifestFile,
}

// pendingSuffixes end the names of directories that wait for something: to be
// removed, to be claimed, to take the place of another.
var pendingSuffixes = []string{"-delete", "-stray", "-future"}

// listContents lists a directory. The error says what to do.
func listContents(fsys vfs.FS, dir string) (*contents, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%s is a file; name a log directory", dir)
	}
	if err != nil {
		return nil, cannotLook(dir, err)
	}
	c := &contents{}
	for _, e := range entries {
		name := e.Name()
		if !isDirectory(fsys, dir, e) {
			_, ours := segment.ParseName(name)
			c.files = c.files || ours || name == checkpoint.LeaderEpochFile || name == checkpoint.PartitionMetadataFile
			c.rootFiles = c.rootFiles || slices.Contains(rootFiles, name)
			continue
		}
		tp, err := topic.ParseDir(name)
		switch {
		case err == nil:
			c.partitions = append(c.partitions, tp)
		case slices.ContainsFunc(pendingSuffixes, func(s string) bool { return strings.HasSuffix(name, s) }):
			c.pending = append(c.pending, name)
		default:
			c.others = append(c.others, name)
		}
	}
	slices.SortFunc(c.partitions, topic.Partition.Compare)
	return c, nil
}

// isDirectory follows links, as Kafka does.
func isDirectory(fsys vfs.FS, dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := fsys.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

func isLogFile(e fs.DirEntry) bool {
	n, ok := segment.ParseName(e.Name())
	return ok && n.Kind == segment.KindLog && !e.IsDir()
}

// isPartition tells whether it is the directory of a partition.
func (c *contents) isPartition() bool { return c.files && !c.rootFiles }

// isLogDirectory tells whether it is a log directory.
func (c *contents) isLogDirectory() bool {
	return !c.isPartition() && (c.rootFiles || len(c.partitions) > 0)
}

// pendingOf tells whether one of the unfinished changes is about a partition.
func (c *contents) pendingOf(tp topic.Partition) bool {
	return slices.ContainsFunc(c.pending, func(name string) bool { return strings.HasPrefix(name, tp.String()+".") })
}
