package main

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// onePartitionFS is a log directory in which there is one partition only, for
// a store to open: the others need not be loaded, and may be as they like. Safe
// for concurrent use as the FS under it.
type onePartitionFS struct {
	vfs.FS
	dir string // the log directory
	tp  topic.Partition
	// checked is an offset up to which the log was found whole before, 0: none.
	// Where Kafka alone writes it is shown as the recovery point, which Kafka
	// raises rarely: else all since would be read with every look.
	checked int64
}

func (f *onePartitionFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := f.FS.ReadDir(name)
	if filepath.Clean(name) != filepath.Clean(f.dir) {
		return entries, err
	}
	kept := entries[:0]
	for _, e := range entries {
		if tp, err := topic.ParseDir(e.Name()); err != nil || tp == f.tp {
			kept = append(kept, e)
		}
	}
	return kept, err
}

func (f *onePartitionFS) Open(name string) (vfs.File, error) {
	if f.checked == 0 || name != filepath.Join(f.dir, checkpoint.RecoveryPointFile) || !f.foreign() {
		return f.FS.Open(name)
	}
	entries, point := readCheckpoint(f.FS, name), checkpoint.OffsetEntry{Partition: f.tp}
	for _, e := range entries {
		if e.Partition == f.tp {
			point = e
		}
	}
	point.Offset = max(point.Offset, f.checked)
	shown := vfs.NewMem()
	if err := vfs.WriteTemp(shown, filepath.Base(name), checkpoint.AppendOffsets(nil, []checkpoint.OffsetEntry{point})); err != nil {
		return nil, err
	}
	return shown.Open(filepath.Base(name))
}

// foreign tells whether the directory was never opened by a store of ours.
func (f *onePartitionFS) foreign() bool {
	_, err := f.FS.Stat(filepath.Join(f.dir, catalog.ManifestFile))
	return errors.Is(err, fs.ErrNotExist)
}
