package overlay

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/oncelog/oncelog/internal/vfs"
)

// Files are pieces by the path of the file they belong to.
type Files map[string][]Piece

// Add enters the pieces of the partition in dir; path names its files.
func (f Files) Add(pieces []Piece, path func(segment int64) string) {
	for base, group := range bySegment(pieces) {
		f[filepath.Clean(path(base))] = group
	}
}

// View is fsys with pieces laid over its files, for reading: whatever would
// change something answers EROFS. Files that only pieces know are there too.
func View(fsys vfs.FS, files Files) vfs.FS {
	if len(files) == 0 {
		return readOnly{fsys}
	}
	v := &view{readOnly: readOnly{fsys}, files: files, dirs: map[string][]string{}}
	for path := range files {
		dir := filepath.Dir(path)
		v.dirs[dir] = append(v.dirs[dir], filepath.Base(path))
	}
	return v
}

// readOnly refuses what changes something.
type readOnly struct{ vfs.FS }

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

func (r readOnly) OpenFile(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	if flag != os.O_RDONLY {
		return nil, refuse("open", name)
	}
	return r.Open(name)
}

func (readOnly) Remove(name string) error               { return refuse("remove", name) }
func (readOnly) Rename(oldname, _ string) error         { return refuse("rename", oldname) }
func (readOnly) Mkdir(name string, _ fs.FileMode) error { return refuse("mkdir", name) }
func (readOnly) SyncDir(name string) error              { return refuse("sync", name) }
func (readOnly) Lock(name string) (io.Closer, error)    { return nil, refuse("lock", name) }

// view lays pieces over the files of a tree.
type view struct {
	readOnly
	files Files
	dirs  map[string][]string // names of those files by directory
}

func (v *view) OpenFile(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	if flag != os.O_RDONLY {
		return nil, refuse("open", name)
	}
	return v.Open(name)
}

func (v *view) Open(name string) (vfs.File, error) {
	pieces := v.files[filepath.Clean(name)]
	f, err := v.FS.Open(name)
	if pieces == nil {
		return f, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &file{name: name, pieces: pieces, size: end(pieces)}, nil
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{File: f, name: name, pieces: pieces, under: size, size: max(size, end(pieces))}, nil
}

func end(pieces []Piece) int64 {
	most := int64(0)
	for _, p := range pieces {
		most = max(most, p.Pos+p.Length)
	}
	return most
}

func (v *view) Stat(name string) (fs.FileInfo, error) {
	info, err := v.FS.Stat(name)
	pieces := v.files[filepath.Clean(name)]
	if pieces == nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	return laidOver(info, filepath.Base(name), pieces), nil
}

func (v *view) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := v.FS.ReadDir(name)
	names := v.dirs[filepath.Clean(name)]
	if err != nil || len(names) == 0 {
		return entries, err
	}
	dir := filepath.Clean(name)
	for _, n := range names {
		i, found := slices.BinarySearchFunc(entries, n, func(e fs.DirEntry, n string) int { return strings.Compare(e.Name(), n) })
		var under fs.FileInfo
		if found {
			if under, err = entries[i].Info(); err != nil {
				return nil, err
			}
		} else {
			entries = slices.Insert(entries, i, fs.DirEntry(nil))
		}
		entries[i] = fs.FileInfoToDirEntry(laidOver(under, n, v.files[filepath.Join(dir, n)]))
	}
	return entries, nil
}

// laidOver describes a file with pieces over it; under is nil if only they are
// there.
func laidOver(under fs.FileInfo, name string, pieces []Piece) fs.FileInfo {
	if under == nil {
		return info{name: name, size: end(pieces)}
	}
	return info{name: name, size: max(under.Size(), end(pieces)), time: under.ModTime()}
}

type info struct {
	name string
	size int64
	time time.Time
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return 0o644 }
func (i info) ModTime() time.Time { return i.time }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
