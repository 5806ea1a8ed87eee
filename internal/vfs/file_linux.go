package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vectorsMax is how many buffers one pwritev takes (IOV_MAX of Linux).
const vectorsMax = 1024

// machineFile is a file of the machine. os.File guards the descriptor: it
// stays open while a call on it runs, also against Close from another
// goroutine.
type machineFile struct {
	// Set by OpenFile.
	file *os.File
	raw  syscall.RawConn
}

func (f *machineFile) Name() string { return f.file.Name() }

func (f *machineFile) ReadAt(p []byte, pos int64) (int, error) { return f.file.ReadAt(p, pos) }

func (f *machineFile) WriteAt(p []byte, pos int64) (int, error) { return f.file.WriteAt(p, pos) }

func (f *machineFile) Close() error { return f.file.Close() }

func (f *machineFile) Truncate(size int64) error { return f.file.Truncate(size) }

func (f *machineFile) Sync() error { return f.file.Sync() }

func (f *machineFile) Size() (int64, error) {
	info, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *machineFile) WriteVAt(bufs [][]byte, pos int64) (int, error) {
	if pos < 0 {
		return 0, f.pathError("write", errNegativePos)
	}
	c := calls.Get().(*call)
	c.bufs, c.pos = bufs, pos
	err := f.run(c, (*call).writeVectors)
	n := c.n
	c.release()
	return n, f.pathError("write", err)
}

func (f *machineFile) Datasync() error {
	c := calls.Get().(*call)
	err := f.run(c, (*call).datasync)
	c.release()
	return f.pathError("datasync", err)
}

// Allocate, where the file system has no fallocate, writes zeros; then no
// other write to the file may run meanwhile. After an error the file may be
// longer than before.
func (f *machineFile) Allocate(size int64) error {
	if size <= 0 {
		return nil
	}
	err := f.control(func(fd int) error {
		return retry(func() error { return unix.Fallocate(fd, 0, 0, size) })
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, size)
	}
	return f.pathError("allocate", err)
}

// zeroBlockBytes is the piece in which writeZeros works; no block of a file
// system is smaller than zeroSectorBytes.
const (
	zeroBlockBytes  = 64 << 10
	zeroSectorBytes = 4 << 10
)

// writeZeros reserves blocks for [0, size) by writing: behind the end zeros,
// and before it what reads as zeros again, for it may be a hole.
func writeZeros(f File, size int64) error {
	length, err := f.Size()
	if err != nil {
		return err
	}
	zeros, block := make([]byte, zeroBlockBytes), make([]byte, zeroSectorBytes)
	for pos := int64(0); pos < min(length, size); pos += zeroSectorBytes {
		n, err := f.ReadAt(block, pos)
		if err != nil && err != io.EOF {
			return err
		}
		if string(block[:n]) != string(zeros[:n]) {
			continue
		}
		if _, err := f.WriteAt(zeros[:n], pos); err != nil {
			return err
		}
	}
	for pos := length; pos < size; pos += zeroBlockBytes {
		if _, err := f.WriteAt(zeros[:min(zeroBlockBytes, size-pos)], pos); err != nil {
			return err
		}
	}
	return nil
}

// control runs do with the descriptor. It allocates: for cold calls.
func (f *machineFile) control(do func(fd int) error) error {
	var err error
	if controlErr := f.raw.Control(func(fd uintptr) { err = do(int(fd)) }); controlErr != nil {
		return fs.ErrClosed // the only thing that keeps Control from running
	}
	return err
}

// pathError gives err the deed and the name; nil stays nil.
func (f *machineFile) pathError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.file.Name(), Err: err}
}

// run makes a call on the descriptor without allocating.
func (f *machineFile) run(c *call, do func(*call, int)) error {
	c.do = do
	if err := f.raw.Control(c.control); err != nil {
		return fs.ErrClosed
	}
	return c.err
}

// call is one system call on a descriptor, with the closure that os.File wants
// made once and pooled.
type call struct {
	control func(fd uintptr) // Set by newCall: calls do.

	do      func(*call, int)
	bufs    [][]byte
	pos     int64
	vectors []unix.Iovec
	n       int
	err     error
}

var calls = sync.Pool{New: func() any { return newCall() }}

func newCall() *call {
	c := new(call)
	c.control = func(fd uintptr) { c.do(c, int(fd)) }
	return c
}

// release puts c back into the pool without what it pointed to.
func (c *call) release() {
	clear(c.vectors[:cap(c.vectors)])
	*c = call{control: c.control, vectors: c.vectors[:0]}
	calls.Put(c)
}

func (c *call) datasync(fd int) {
	c.err = retry(func() error { return unix.Fdatasync(fd) })
}

// writeVectors writes bufs from pos on. The kernel may take less than it is
// given (more than 2 GiB at a time, a signal, a disk that is nearly full), so it
// goes on until all is written or an error says why not.
func (c *call) writeVectors(fd int) {
	index, skip := 0, 0 // bufs[index][skip:] comes next
	for {
		for index < len(c.bufs) && skip == len(c.bufs[index]) {
			index, skip = index+1, 0
		}
		if index == len(c.bufs) {
			return
		}
		n, err := c.writeOnce(fd, index, skip)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			c.err = err
			return
		}
		c.n += n
		for n > 0 {
			step := min(n, len(c.bufs[index])-skip)
			n, skip = n-step, skip+step
			if skip == len(c.bufs[index]) {
				index, skip = index+1, 0
			}
		}
	}
}

// writeOnce makes one system call for bufs[index][skip:] and what follows.
func (c *call) writeOnce(fd, index, skip int) (int, error) {
	c.vectors = c.vectors[:0]
	for ; index < len(c.bufs) && len(c.vectors) < vectorsMax; index, skip = index+1, 0 {
		buf := c.bufs[index][skip:]
		if len(buf) == 0 {
			continue
		}
		vector := unix.Iovec{Base: unsafe.SliceData(buf)}
		vector.SetLen(len(buf))
		c.vectors = append(c.vectors, vector)
	}
	// The position goes in two halves of a machine word; on 64 bits the second
	// is zero. unix.Pwritev would allocate its vectors at every call.
	pos := c.pos + int64(c.n)
	n, _, errno := unix.Syscall6(unix.SYS_PWRITEV, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(c.vectors))), uintptr(len(c.vectors)),
		uintptr(pos), uintptr(uint64(pos)>>(unsafe.Sizeof(uintptr(0))*8-1)>>1), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// retry repeats a call that a signal interrupted.
func retry(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}
