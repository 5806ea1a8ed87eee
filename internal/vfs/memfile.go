package vfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// memFile is an open file of a Mem.
type memFile struct {
	// Set by OpenFile.
	mem                *Mem
	content            *content
	name               string
	readable, writable bool

	closed bool // guarded by Mem.mu
}

func (f *memFile) Name() string { return f.name }

// check gives the error of a call on a file that is closed, or that was not
// opened for this. The caller holds the lock.
func (f *memFile) check(op string, allowed bool) error {
	switch {
	case f.closed:
		return f.pathError(op, fs.ErrClosed)
	case !allowed:
		return f.pathError(op, syscall.EBADF)
	}
	return nil
}

func (f *memFile) pathError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

func (f *memFile) ReadAt(p []byte, pos int64) (int, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	if pos < 0 {
		return 0, f.pathError("readat", errNegativePos)
	}
	if err := f.check("read", f.readable); err != nil {
		return 0, err
	}
	return f.content.readAt(p, pos)
}

func (f *memFile) WriteAt(p []byte, pos int64) (int, error) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	return f.writeLocked(p, pos)
}

func (f *memFile) writeLocked(p []byte, pos int64) (int, error) {
	if pos < 0 {
		return 0, f.pathError("writeat", errNegativePos)
	}
	if err := f.check("write", f.writable); err != nil {
		return 0, err
	}
	if int64(len(p)) > sizeMax-pos {
		return 0, f.pathError("write", syscall.EFBIG)
	}
	n, err := f.content.writeAt(&f.mem.space, p, pos)
	if n > 0 {
		f.content.modified = f.mem.clock()
	}
	return n, f.pathError("write", err)
}

// sizeMax is the longest file. The machine has such a limit too; here it bounds
// the memory that one write far behind the end takes.
const sizeMax = 64 << 30

func (f *memFile) WriteVAt(bufs [][]byte, pos int64) (int, error) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if pos < 0 {
		return 0, f.pathError("write", errNegativePos)
	}
	if err := f.check("write", f.writable); err != nil {
		return 0, err
	}
	total := 0
	for _, buf := range bufs {
		n, err := f.writeLocked(buf, pos+int64(total))
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (f *memFile) Size() (int64, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	if err := f.check("stat", true); err != nil {
		return 0, err
	}
	return f.content.size, nil
}

func (f *memFile) Truncate(size int64) error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.check("truncate", f.writable); err != nil {
		return f.pathError("truncate", notWritable(err))
	}
	if size < 0 {
		return f.pathError("truncate", syscall.EINVAL)
	}
	if size > sizeMax {
		return f.pathError("truncate", syscall.EFBIG)
	}
	f.content.truncate(&f.mem.space, size)
	f.content.modified = f.mem.clock()
	return nil
}

// notWritable is the error of the system for ftruncate, which has its own for a
// file that is open for reading.
func notWritable(err error) error {
	if errors.Is(err, syscall.EBADF) {
		return syscall.EINVAL
	}
	return cause(err)
}

func (f *memFile) Allocate(size int64) error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.check("allocate", f.writable); err != nil || size <= 0 {
		return err
	}
	if size > sizeMax {
		return f.pathError("allocate", syscall.EFBIG)
	}
	return f.pathError("allocate", f.content.allocate(&f.mem.space, size))
}

func (f *memFile) Sync() error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.check("sync", true); err != nil {
		return err
	}
	f.content.sync()
	return nil
}

func (f *memFile) Datasync() error { return f.Sync() }

// LoseSync implements Loser.
func (f *memFile) LoseSync(o CrashOptions) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	f.content.failSync(newLottery(o))
}

func (f *memFile) Close() error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.check("close", true); err != nil {
		return err
	}
	f.closed = true
	f.mem.closeLocked(f.content)
	return nil
}

// closeLocked ends a file or a mapping.
func (m *Mem) closeLocked(c *content) {
	c.handles--
	m.releaseSpace(c)
}

func (f *memFile) Map(size int64, writable bool) (Mapping, error) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.check("map", true); err != nil {
		return nil, err
	}
	if !f.readable || writable && !f.writable {
		return nil, f.pathError("map", syscall.EACCES)
	}
	if size == 0 {
		return &memMapping{name: f.name}, nil
	}
	b, err := f.content.mapHead(&f.mem.space, size, writable)
	if err != nil {
		return nil, f.pathError("map", err)
	}
	f.content.handles++
	return &memMapping{mem: f.mem, content: f.content, name: f.name, b: b}, nil
}

// memMapping is an open mapping of a Mem. An empty one has no content.
type memMapping struct {
	// Set by Map. Close, which must not run beside another method, clears them.
	mem     *Mem
	content *content
	b       []byte

	name string
}

func (m *memMapping) Bytes() []byte { return m.b }

func (m *memMapping) Populate() error { return nil }

func (m *memMapping) Sync(pos, n int64) error {
	if pos < 0 || n < 0 || pos+n < pos || pos+n > int64(len(m.b)) {
		return &fs.PathError{Op: "sync", Path: m.name, Err: syscall.EINVAL}
	}
	if n == 0 {
		return nil
	}
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	m.content.syncSize()
	m.content.syncPages(int(pos/pageSize), pages(pos+n))
	return nil
}

// LoseSync implements Loser, for the whole file.
func (m *memMapping) LoseSync(o CrashOptions) {
	if m.content == nil {
		return
	}
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	m.content.failSync(newLottery(o))
}

func (m *memMapping) Close() error {
	if m.content == nil {
		return nil
	}
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	m.content.unmap()
	m.mem.closeLocked(m.content)
	m.content, m.b = nil, nil
	return nil
}

// memLock is a lock held.
type memLock struct{ f *memFile }

var _ io.Closer = (*memLock)(nil)

// Close empties the file and gives the lock back.
func (l *memLock) Close() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	l.f.mem.mu.Lock()
	defer l.f.mem.mu.Unlock()
	l.f.content.locked = false
	l.f.closed = true
	l.f.mem.closeLocked(l.f.content)
	return nil
}
