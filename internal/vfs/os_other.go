//go:build !linux

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
)

// errNoMachine is the error of every call: the promises of this package rest
// on what Linux does with mappings, locks and flushes.
var errNoMachine = fmt.Errorf("vfs: oncelog keeps files on Linux only, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)

type machine struct{}

// Machine returns the file system of the machine, which exists on Linux only:
// here every call gives an error.
func Machine() FS { return machine{} }

func refuse(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: errNoMachine}
}

func (machine) Open(name string) (File, error) { return nil, refuse("open", name) }

func (machine) OpenFile(name string, _ int, _ fs.FileMode) (File, error) {
	return nil, refuse("open", name)
}

func (machine) Remove(name string) error { return refuse("remove", name) }

func (machine) Rename(oldname, _ string) error { return refuse("rename", oldname) }

func (machine) Mkdir(name string, _ fs.FileMode) error { return refuse("mkdir", name) }

func (machine) ReadDir(name string) ([]fs.DirEntry, error) { return nil, refuse("readdir", name) }

func (machine) Stat(name string) (fs.FileInfo, error) { return nil, refuse("stat", name) }

func (machine) SyncDir(name string) error { return refuse("sync", name) }

func (machine) Lock(name string) (io.Closer, error) { return nil, refuse("lock", name) }

func (machine) Place(dir string) (Place, error) { return Place{}, refuse("stat", dir) }
