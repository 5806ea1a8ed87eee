package catalog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// What lives at the root of a data directory.
//
//	<topic>-<n>/                         a partition                            package log
//	<topic>-<n>.<topic id, hex>-delete/  a deleted partition on its way out     removed if the manifest says it is ours
//	*-delete/ *-stray/ *-future/         Kafka's pending changes                untouched
//	__cluster_metadata-0/                Kafka's metadata log                   untouched
//	.lock                                lock of the running process            held while open
//	.kafka_cleanshutdown                 mark of a clean stop                   removed by Open, written last by Close
//	recovery-point-offset-checkpoint     offsets below are on the device        read, written
//	log-start-offset-checkpoint          log start of partitions above 0        read, written
//	replication-offset-checkpoint        high watermarks                        read, written
//	cleaner-offset-checkpoint            first offsets not compacted            kept; lines of deleted topics go
//	meta.properties                      identity of a Kafka node               untouched
//	bootstrap.checkpoint                 Kafka's                                untouched
//	oncelog.manifest                     our topics and stored configuration    read, written
//
// Anything else is left alone.
const (
	// ManifestFile holds what is known about topics.
	ManifestFile = "oncelog.manifest"
	// LockFile is Kafka's.
	LockFile = ".lock"
	// deletedSuffix is Kafka's, for directories that wait for removal.
	deletedSuffix = "-delete"
	// futureSuffix is Kafka's, for the target of a replica move.
	futureSuffix = "-future"
	// dirNameMax is the longest name of a directory.
	dirNameMax = 255
	// rootFileMax bounds what is read of a file at the root: some million
	// partitions.
	rootFileMax = 64 << 20
)

// deletedName is the name under which the directory of a deleted partition
// waits for removal, in Kafka's form. The id makes it one that only this topic
// can have, so that it is known from the manifest alone.
func deletedName(p topic.Partition, id checkpoint.TopicID) string {
	suffix := fmt.Sprintf("-%d.%s%s", p.Index, hex.EncodeToString(id[:]), deletedSuffix)
	return p.Topic[:min(len(p.Topic), dirNameMax-len(suffix))] + suffix
}

// directory is what the directory of a partition looks like from outside.
type directory struct {
	partition topic.Partition
	id        checkpoint.TopicID // zero if there is none or it cannot be read
	segments  bool               // it holds a .log file
	err       error              // why nothing is known of it, nil if it was inspected
}

// listPartitions lists the directories that are named like partitions, and the
// partitions that have a target of Kafka's replica moves here, which is a log
// too.
func listPartitions(fsys vfs.FS, dir string) (found []directory, future []topic.Partition, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if p, ok := parseFuture(e.Name()); ok && e.IsDir() {
			future = append(future, p)
		}
		p, err := topic.ParseDir(e.Name())
		if err != nil {
			continue
		}
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := fsys.Stat(filepath.Join(dir, e.Name()))
			isDir = err == nil && info.IsDir()
		}
		if isDir {
			found = append(found, directory{partition: p})
		}
	}
	return found, future, nil
}

// parseFuture reads <topic>-<n>.<unique>-future. A name that is cut elsewhere
// gives a partition that is none, or another one: that says no more than that
// there is a log.
func parseFuture(name string) (p topic.Partition, ok bool) {
	name, ok = strings.CutSuffix(name, futureSuffix)
	if i := strings.LastIndexByte(name, '.'); ok && i > 0 {
		p, _ = topic.ParseDir(name[:i])
	}
	return p, ok
}

// inspect fills in what lies inside. A partition.metadata that cannot be read
// is like none: all it holds is in the manifest too, or unknown to us.
func (d *directory) inspect(fsys vfs.FS, root string) error {
	path := filepath.Join(root, d.partition.String())
	b, err := vfs.ReadFile(fsys, filepath.Join(path, checkpoint.PartitionMetadataFile), rootFileMax)
	switch {
	case err == nil:
		if m, err := checkpoint.ReadPartitionMetadata(b); err == nil {
			d.id = m.TopicID
		}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, vfs.ErrTooLarge), errors.Is(err, syscall.EISDIR):
	default:
		return err
	}
	d.segments, err = hasSegments(fsys, path)
	return err
}

// hasSegments tells whether a partition directory holds any .log file. One
// without was made by a creation that was not finished, and holds nothing.
func hasSegments(fsys vfs.FS, dir string) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") || strings.HasSuffix(e.Name(), ".log.swap") {
			return true, nil
		}
	}
	return false, nil
}

// removeTree removes a directory with all in it. What is gone already is no
// error.
func removeTree(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = removeTree(fsys, path)
		} else {
			err = fsys.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := fsys.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
