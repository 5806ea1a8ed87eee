package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// machineMapping is a shared mapping of a file of the machine. It does not
// need the file to stay open.
type machineMapping struct {
	// Set by Map. Close, which must not run beside another method, clears it.
	b    []byte
	name string
}

func (f *machineFile) Map(size int64, writable bool) (Mapping, error) {
	length, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size < 0 || size > length || int64(int(size)) != size {
		return nil, f.pathError("map", fmt.Errorf("%d bytes of a file of %d: %w", size, length, syscall.EINVAL))
	}
	if size == 0 {
		return &machineMapping{name: f.Name()}, nil
	}
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	m := &machineMapping{name: f.Name()}
	err = f.control(func(fd int) (err error) {
		m.b, err = unix.Mmap(fd, 0, int(size), protection, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, f.pathError("map", err)
	}
	return m, nil
}

func (m *machineMapping) Bytes() []byte { return m.b }

func (m *machineMapping) Populate() error {
	if len(m.b) == 0 {
		return nil
	}
	err := retry(func() error { return unix.Madvise(m.b, unix.MADV_POPULATE_READ) })
	if errors.Is(err, unix.EINVAL) {
		err = touch(m.b) // a kernel before 5.14
	}
	return m.pathError("populate", err)
}

func (m *machineMapping) Sync(pos, n int64) error {
	if pos < 0 || n < 0 || pos+n < pos || pos+n > int64(len(m.b)) {
		return m.pathError("sync", syscall.EINVAL)
	}
	if n == 0 {
		return nil
	}
	// msync wants the start of a page of the machine, whatever its size.
	start := pos &^ int64(os.Getpagesize()-1)
	return m.pathError("sync", unix.Msync(m.b[start:pos+n], unix.MS_SYNC))
}

func (m *machineMapping) Close() error {
	b := m.b
	if len(b) == 0 {
		return nil
	}
	m.b = nil
	return m.pathError("unmap", unix.Munmap(b))
}

func (m *machineMapping) pathError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: m.name, Err: err}
}

// touch reads one byte of every page. A page that cannot be read (the file
// became shorter, the disk failed) is an error instead of the end of the
// process.
func touch(b []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = syscall.EFAULT
		}
	}()
	var sum byte
	for pos := 0; pos < len(b); pos += zeroSectorBytes {
		sum += b[pos]
	}
	touched(sum)
	return nil
}

// touched keeps the compiler from dropping the reads.
//
//go:noinline
func touched(byte) {}
