package main

import (
	"context"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/oncelog/oncelog/internal/vfs"
)

// interruptibleFS opens and reads no file any more once its context has ended,
// so that a store under way to open fails as if the disk had: a case that it
// is made for. Safe for concurrent use as the FS under it.
type interruptibleFS struct {
	vfs.FS
	ctx      context.Context
	read     func(n int) // told of every read
	released atomic.Bool // the context does not count any more
}

// release makes it like the FS under it.
func (f *interruptibleFS) release() { f.released.Store(true) }

func (f *interruptibleFS) stopped(op, name string) error {
	if f.released.Load() || f.ctx.Err() == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: f.ctx.Err()}
}

func (f *interruptibleFS) Open(name string) (vfs.File, error) {
	if err := f.stopped("open", name); err != nil {
		return nil, err
	}
	return f.wrap(f.FS.Open(name))
}

func (f *interruptibleFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := f.stopped("open", name); err != nil {
		return nil, err
	}
	return f.wrap(f.FS.OpenFile(name, flag, perm))
}

func (f *interruptibleFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &interruptibleFile{File: file, fs: f}, nil
}

type interruptibleFile struct {
	vfs.File
	fs *interruptibleFS
}

func (f *interruptibleFile) ReadAt(b []byte, pos int64) (int, error) {
	if err := f.fs.stopped("read", f.Name()); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(b, pos)
	f.fs.read(n)
	return n, err
}

// recoveryWatch shows the progress of a recovery, of which many goroutines
// tell. Safe for concurrent use.
type recoveryWatch struct {
	mu       sync.Mutex // guards all below
	progress *progress
	name     string // of the stage, and how far it is
}

// stage tells how many partitions are done.
func (w *recoveryWatch) stage(name string) {
	w.mu.Lock()
	w.name = name
	w.mu.Unlock()
	w.read(0)
}

// read counts bytes.
func (w *recoveryWatch) read(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress.add(w.name, int64(n))
}

// done ends the line that shows it.
func (w *recoveryWatch) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress.done()
	w.progress = &progress{} // what comes later is not shown
}
