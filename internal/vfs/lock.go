package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// lockFileBytesMax bounds what is read of a lock file to find the holder.
const lockFileBytesMax = 64

// holder is what is known of whoever holds a lock. The zero value is a holder
// of whom nothing is known.
type holder struct {
	pid     int  // 0: unknown
	foreign bool // it holds the lock in another way than we do, as Apache Kafka does
}

// pidLine is what a holder writes into its lock file. Its length does not
// depend on the pid, so that a random choice of Mem over the bytes of a file
// is the same in every process.
func pidLine(pid int) []byte {
	return fmt.Appendf(nil, "%-10d\n", pid)
}

// parsePID reads a line of pidLine; 0 if there is none. Kafka leaves its lock
// file empty.
func parsePID(b []byte) int {
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// lockedError is the error of a lock that is taken: it wraps ErrLocked and
// tells a person whom to stop.
func lockedError(name string, h holder) error {
	var who string
	switch {
	case h.pid == os.Getpid() && !h.foreign:
		who = fmt.Sprintf("by this process (%d), which has it open already", h.pid)
	case h.pid > 0 && h.foreign:
		who = fmt.Sprintf("by process %d, another program such as Apache Kafka; stop it first", h.pid)
	case h.pid > 0:
		who = fmt.Sprintf("by process %d; stop it first", h.pid)
	default:
		who = "by another program such as Apache Kafka; stop it first"
	}
	return &fs.PathError{Op: "lock", Path: name, Err: fmt.Errorf("%w %s", ErrLocked, who)}
}

// noteHolder writes the pid into a lock file. The lock is what counts and the
// pid a courtesy: a full disk must not keep anybody from opening a store in
// order to free space.
func noteHolder(f File) error {
	line := pidLine(os.Getpid())
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(line, 0)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return err
}

// errNegativePos says that a position before the start of the file was asked
// for.
var errNegativePos = errors.New("negative position")
