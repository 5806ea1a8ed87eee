package catalog

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/oncelog/oncelog/internal/vfs"
)

// lockFileMax bounds what is read of a lock file.
const lockFileMax = 64

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
	const tries = 10
	l := &dirLock{fs: fsys, path: filepath.Join(dir, LockFile)}
	for try := 1; ; try++ {
		_, err := fsys.Stat(l.path)
		l.made = errors.Is(err, fs.ErrNotExist)
		if l.closer, err = fsys.Lock(l.path); err != nil {
			return nil, err
		}
		if l.current() || try == tries {
			return l, nil
		}
		// The locked file was removed by another opener that failed: what it
		// guards now is nothing. The name is what counts.
		if err := l.closer.Close(); err != nil {
			return nil, err
		}
	}
}

// current tells whether the name still leads to the file that is locked: it is
// there and holds our process id (or, on a full disk, nothing).
func (l *dirLock) current() bool {
	b, err := vfs.ReadFile(l.fs, l.path, lockFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	pid := bytes.TrimSpace(b)
	return err != nil || len(pid) == 0 || string(pid) == strconv.Itoa(os.Getpid())
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
