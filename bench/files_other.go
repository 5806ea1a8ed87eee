//go:build !linux

package bench

import (
	"errors"
	"os"
)

// errLinuxOnly says what is missing here.
var errLinuxOnly = errors.New("bench: the page cache cannot be told here; run on Linux")

// preallocate gives a file its size.
func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

// datasync makes the content of a file durable.
func datasync(f *os.File) error { return f.Sync() }

// canDrop tells whether dropCache works.
const canDrop = false

// dropCache would drop a file from the page cache.
func dropCache(*os.File) error { return errLinuxOnly }

// canPopulate tells whether populate works.
const canPopulate = false

// populate would have the kernel map pages for writing.
func populate([]byte) error { return errLinuxOnly }
