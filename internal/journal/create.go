package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/vfs"
)

// Name and RescueName are the files of this package at the root of a store.
// Either may be accompanied by one with the suffix ".tmp", of no meaning.
const (
	Name       = "oncelog.journal"
	RescueName = "oncelog.rescue"
	tempSuffix = ".tmp"
)

// takeOver opens the file of the right size, made anew if there is none, with
// a header of a new session that is durable in both copies.
func takeOver(o *Options) (vfs.File, header, error) {
	h := header{session: rand.Uint64(), halfBytes: o.halfBytes(), sequence: 1, chain: rand.Uint64(), store: o.Store, write: 1}
	name := filepath.Join(o.Dir, Name)
	f, err := o.FS.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return create(o, &h)
	}
	if err != nil {
		return nil, h, err
	}
	old, counts, err := readHeader(f, journalMagic)
	if err != nil {
		return nil, h, errors.Join(err, f.Close())
	}
	if size, err := f.Size(); err != nil || size != h.fileBytes() || old.halfBytes != h.halfBytes {
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, h, err
		}
		return create(o, &h)
	}
	h.write = old.write + 1
	if err := writeHeader(f, &h, journalMagic, counts); err != nil {
		return nil, h, errors.Join(fmt.Errorf("begin a session of the journal: %w", err), f.Close())
	}
	return f, h, nil
}

// create makes the file, in place of one of another size: under another name
// first, so that the name never stands for anything unfinished.
func create(o *Options, h *header) (vfs.File, header, error) {
	name := filepath.Join(o.Dir, Name)
	if err := writeEmpty(o.FS, name+tempSuffix, h); err != nil {
		_ = o.FS.Remove(name + tempSuffix) // of a full disk, say
		return nil, *h, fmt.Errorf("make the journal: %w", err)
	}
	if err := o.FS.Rename(name+tempSuffix, name); err != nil {
		return nil, *h, err
	}
	if err := o.FS.SyncDir(o.Dir); err != nil {
		return nil, *h, err
	}
	f, err := o.FS.OpenFile(name, os.O_RDWR, 0)
	return f, *h, err
}

// zerosBytes is the piece in which a new file is written.
const zerosBytes = 1 << 20

// writeEmpty makes a file with a header and otherwise zeros. The zeros are
// written, not only allocated: a flush that overwrites written blocks need not
// change the file system's own records.
func writeEmpty(fsys vfs.FS, name string, h *header) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(fillEmpty(f, h), f.Close())
}

func fillEmpty(f vfs.File, h *header) error {
	size := h.fileBytes()
	if err := f.Allocate(size); err != nil { // a full disk shows at once
		return err
	}
	zeros := make([]byte, min(size, zerosBytes))
	for pos := int64(0); pos < size; pos += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-pos)], pos); err != nil {
			return err
		}
	}
	block := h.block(journalMagic)
	for i := range int64(2) {
		if _, err := f.WriteAt(block, i*blockBytes); err != nil {
			return err
		}
	}
	return f.Sync()
}

// Remove removes the journal of a directory, durably. It is no error if there
// is none.
func Remove(fsys vfs.FS, dir string) error { return remove(fsys, dir, Name) }

// RemoveRescue is Remove for the rescue file.
func RemoveRescue(fsys vfs.FS, dir string) error { return remove(fsys, dir, RescueName) }

func remove(fsys vfs.FS, dir, base string) error {
	name := filepath.Join(dir, base)
	for _, name := range [...]string{name + tempSuffix, name} {
		if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fsys.SyncDir(dir)
}
