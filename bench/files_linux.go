package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// preallocate gives a file its size and blocks.
func preallocate(f *os.File, size int64) error {
	return control(f, func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
}

// datasync makes the content of a file durable.
func datasync(f *os.File) error { return control(f, unix.Fdatasync) }

// canDrop tells whether dropCache works.
const canDrop = true

// dropCache drops what is clean of a file from the page cache.
func dropCache(f *os.File) error {
	return control(f, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
}

// canPopulate tells whether populate works.
const canPopulate = true

// populate has the kernel map pages for writing.
func populate(b []byte) error { return unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
