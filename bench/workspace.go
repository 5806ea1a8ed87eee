package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// What a workspace holds: the mark that says whose it is, and one directory
// for each trial. Nothing else is ever removed.
const (
	markName    = "oncelog-bench.mark"
	markText    = "Made by oncelog bench, which removes this directory.\n"
	trialPrefix = "trial-"
)

// Errors of a workspace.
var (
	ErrNotOurs   = errors.New("bench: the directory is not the bench's own")
	ErrInUse     = errors.New("bench: another bench works in the directory")
	ErrDiskSpace = errors.New("bench: not enough disk space")
)

// Workspace is the one directory that a bench writes to. Not safe for
// concurrent use.
type Workspace struct {
	dir    string
	mark   *os.File // locked while the workspace is open
	trials int
}

// OpenWorkspace makes a directory for the bench, whose parent must exist. One
// that is there already is taken if it is empty, or if a bench made it and
// left it: then what that one left is removed. Any other is ErrNotOurs, and
// stays as it is.
func OpenWorkspace(dir string) (*Workspace, error) {
	err := os.Mkdir(dir, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if err := ours(dir, entries); err != nil {
		return nil, err
	}
	mark, err := os.OpenFile(filepath.Join(dir, markName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	w := &Workspace{dir: dir, mark: mark}
	if err := control(mark, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: wait for it, or take another one than %s", ErrInUse, dir), mark.Close())
	}
	if _, err := mark.WriteAt([]byte(markText), 0); err != nil {
		return nil, errors.Join(err, mark.Close())
	}
	if err := w.removeTrials(); err != nil {
		return nil, errors.Join(err, mark.Close())
	}
	return w, nil
}

// ours tells whether all that is in a directory was made by a bench.
func ours(dir string, entries []os.DirEntry) error {
	marked := false
	for _, e := range entries {
		switch name := e.Name(); {
		case name == markName:
			text, err := os.ReadFile(filepath.Join(dir, markName))
			if err != nil {
				return err
			}
			// An empty one: a bench that was killed before it wrote.
			marked = string(text) == markText || len(text) == 0
		case e.IsDir() && strings.HasPrefix(name, trialPrefix):
		default:
			return fmt.Errorf("%w: %s holds %s; name one that is new or empty", ErrNotOurs, dir, name)
		}
	}
	if len(entries) > 0 && !marked {
		return fmt.Errorf("%w: %s has no %s of ours; name one that is new or empty", ErrNotOurs, dir, markName)
	}
	return nil
}

// Dir is the directory.
func (w *Workspace) Dir() string { return w.dir }

// Check answers ErrDiskSpace unless the file system has room for so many bytes
// and a tenth of them more.
func (w *Workspace) Check(size int64) error {
	free, err := freeBytes(w.dir)
	if err != nil {
		return err
	}
	if need := size + size/10; free < need {
		return fmt.Errorf("%w: %s needs %s, %s are free; take fewer bytes a round, or another file system", ErrDiskSpace, w.dir, about(need), about(free))
	}
	return nil
}

// freeBytes is how much of a file system may be written.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// about is a number of bytes for people.
func about(size int64) string {
	switch f := float64(size); {
	case size >= 1<<40:
		return fmt.Sprintf("%.1f TiB", f/(1<<40))
	case size >= 1<<30:
		return fmt.Sprintf("%.1f GiB", f/(1<<30))
	}
	return fmt.Sprintf("%d MiB", (size+1<<20-1)>>20)
}

// trial makes a new directory for one trial.
func (w *Workspace) trial() (string, error) {
	w.trials++
	dir := filepath.Join(w.dir, fmt.Sprintf("%s%d", trialPrefix, w.trials))
	return dir, os.Mkdir(dir, 0o755)
}

func (w *Workspace) removeTrials() error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), trialPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(w.dir, e.Name())))
		}
	}
	return err
}

// Close removes what the bench made, and the directory with it if that is all;
// with keep it stays, and the next bench in it removes it.
func (w *Workspace) Close(keep bool) error {
	if keep {
		return w.mark.Close()
	}
	err := w.removeTrials()
	if err == nil {
		err = os.Remove(filepath.Join(w.dir, markName))
	}
	err = errors.Join(err, w.mark.Close())
	if err != nil {
		return err
	}
	if err := os.Remove(w.dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}
