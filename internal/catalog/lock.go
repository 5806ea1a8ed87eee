package catalog

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/vfs"
)

// dirLock is the lock on a data directory.
type dirLock struct {
	fs     vfs.FS
	path   string
	closer io.Closer
	made   bool // the file was not there before
}

// lockDir takes Kafka's lock. It never waits; an error that wraps
// vfs.ErrLocked names the holder.
func lockDir(fsys vfs.FS, dir string) (*dirLock, error) {
	l := &dirLock{fs: fsys, path: filepath.Join(dir, LockFile)}
	_, err := fsys.Stat(l.path)
	l.made = errors.Is(err, fs.ErrNotExist)
	if l.closer, err = fsys.Lock(l.path); err != nil {
		return nil, err
	}
	return l, nil
}

// release gives the lock back. The file stays, as Kafka's does.
func (l *dirLock) release() error { return l.closer.Close() }

// undo gives the lock back and leaves no file where none was: while it is
// still held, so that no other holder's file is hit.
func (l *dirLock) undo() error {
	var err error
	if l.made {
		err = l.fs.Remove(l.path)
	}
	return errors.Join(err, l.closer.Close())
}
