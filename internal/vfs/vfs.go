// Package vfs is the file system as the rest of the program sees it: the
// machine's, one in memory, and (package faultfs) one that fails on demand.
//
// All types are safe for concurrent use unless their method says otherwise.
// Errors are those of package os (fs.PathError; errors.Is with fs.ErrNotExist
// and the numbers of package syscall works on every implementation). Nothing
// is durable on return of a call but what Sync, Datasync, Mapping.Sync and
// SyncDir say.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrLocked says that another opener, in this process or another, holds a lock.
// What holds it stands in the text of the error that wraps it.
var ErrLocked = errors.New("vfs: locked")

// FS is a tree of files. Names are slash-separated paths as package os takes
// them.
type FS interface {
	// Open opens a file for reading only.
	Open(name string) (File, error)
	// OpenFile opens a file with the flags of package os (O_RDWR, O_CREATE,
	// O_EXCL, O_TRUNC). A new file is durable once its directory is synced.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// Rename moves a file or directory over whatever has the new name.
	Rename(oldname, newname string) error
	// Mkdir makes one directory; fs.ErrExist if there is something already.
	Mkdir(name string, perm fs.FileMode) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat describes a file or directory.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the entries of a directory durable: files made, renamed
	// and removed in it.
	SyncDir(name string) error
	// Lock takes the exclusive advisory lock on a file, which is made if it is
	// missing, writes the process id into it, and holds it until the closer is
	// closed. It never waits: a lock that is taken gives an error that wraps
	// ErrLocked and names the holder as far as it is known. On the machine's
	// file system it is an open-file-description lock, which excludes Apache
	// Kafka on its .lock file. On return the name leads to the locked file: a
	// holder, and nobody else, may remove it before closing the closer.
	Lock(name string) (io.Closer, error)
	// Place tells what a directory lies on.
	Place(dir string) (Place, error)
}

// Place is what a directory lies on.
type Place struct {
	Boot [16]byte  // changes when the machine starts again, and with it what a mapping is worth
	Kind PlaceKind // whether mappings can be trusted there
	Name string    // of the file system, for people
}

// PlaceKind says what a file system does with mappings and power loss.
type PlaceKind uint8

const (
	PlaceDisk     PlaceKind = iota // local
	PlaceVolatile                  // in memory, or gone with its container
	PlaceRemote                    // over a network or in user space: other rules for mappings
)

// File is one open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// WriteVAt writes the buffers one behind the other from position pos, in
	// one system call where the system can. It does not keep bufs and writes
	// nothing into them. A short write gives the count written and an error.
	WriteVAt(bufs [][]byte, pos int64) (int, error)
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Truncate sets the file's length; a longer file ends in a hole.
	Truncate(size int64) error
	// Allocate reserves real blocks for [0, size) and makes the file at least
	// size bytes long; new bytes are zero. A full disk is its error.
	Allocate(size int64) error
	// Sync makes data and metadata durable, Datasync data and the length. A
	// failed one is final: what it covered may be gone although a second call
	// succeeds, so there must be no second call.
	Sync() error
	Datasync() error
	// Map maps the first size bytes, which must lie inside the file.
	// Map of size 0 gives an empty mapping.
	Map(size int64, writable bool) (Mapping, error)
	// Name is the name the file was opened with.
	Name() string
}

// Mapping is a shared mapping of the head of a file.
type Mapping interface {
	// Bytes is the mapped memory, valid until Close. Touching it after Close
	// is a fault that nothing catches: whoever hands it out counts references.
	Bytes() []byte
	// Populate brings the pages into memory for reading.
	Populate() error
	// Sync makes [pos, pos+n) durable.
	Sync(pos, n int64) error
	// Close unmaps. The bytes written stay in the file.
	Close() error
}

// ReadFile reads a whole file, which must not be longer than limit bytes.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: ErrTooLarge}
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

// ErrTooLarge says that a file is longer than the reader takes.
var ErrTooLarge = errors.New("vfs: file larger than expected")

// Replace puts a file with the given content in place of name, so that after
// a crash at any moment name holds the old content or the new one, whole. On
// return without error the new content is durable. The content is written
// beside it as name+".tmp" first, the suffix that Kafka takes for this.
func Replace(fsys FS, name string, content []byte) error {
	if err := WriteTemp(fsys, name+".tmp", content); err != nil {
		return err
	}
	if err := fsys.Rename(name+".tmp", name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// WriteTemp makes (or empties) a file, writes content and syncs the file, not
// its directory.
func WriteTemp(fsys FS, name string, content []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
