package bench

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// makeFile makes a new file of that size with blocks of its own, none of them
// written yet.
func makeFile(name string, size int64) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	if err := preallocate(f, size); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writtenFile makes a new file of that size, written through and durable, so
// that writing it again changes nothing but its content.
func writtenFile(name string, size int64) (*os.File, error) {
	f, err := makeFile(name, size)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for pos := int64(0); pos < size && err == nil; pos += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-pos)], pos)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// control calls a function with the descriptor of a file. It is os.ErrClosed
// if the file is closed.
func control(f *os.File, call func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := c.Control(func(fd uintptr) {
		for {
			if inner = call(int(fd)); inner != unix.EINTR {
				return
			}
		}
	}); err != nil {
		return err
	}
	return inner
}

// mapped is a file mapped shared, for writing.
type mapped struct {
	file  *os.File
	bytes []byte
}

// mapFile makes a new file of that size and maps it. No page is touched.
func mapFile(name string, size int64) (*mapped, error) {
	f, err := makeFile(name, size)
	if err != nil {
		return nil, err
	}
	return mapOpen(f, size)
}

// mapOpen maps the head of a file, which the mapping then owns.
func mapOpen(f *os.File, size int64) (*mapped, error) {
	m := &mapped{file: f}
	err := control(f, func(fd int) (err error) {
		m.bytes, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// sync makes [pos, pos+size) durable by msync.
func (m *mapped) sync(pos, size int64) error {
	const page = 4096 // a multiple of it is one of larger pages too, or msync tells
	from := pos / page * page
	return unix.Msync(m.bytes[from:pos+size], unix.MS_SYNC)
}

// unmap ends the mapping; the file stays.
func (m *mapped) unmap() error { return errors.Join(unix.Munmap(m.bytes), m.file.Close()) }

// close unmaps and removes the file. A nil mapping is closed.
func (m *mapped) close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.unmap(), os.Remove(m.file.Name()))
}

// copyFile copies a file, and makes the copy durable if asked.
func copyFile(to, from string, durable bool) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, source); err != nil {
		return err
	}
	if durable {
		return f.Sync()
	}
	return nil
}
