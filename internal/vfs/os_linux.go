package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// machine is the file system of the machine. It has no state.
type machine struct{}

// Machine returns the file system of the machine. Names are those of the
// operating system.
func Machine() FS { return machine{} }

func (m machine) Open(name string) (File, error) {
	return m.OpenFile(name, os.O_RDONLY, 0)
}

// ErrNotRegular says that a pipe, a device or the like is where a file should
// be.
var ErrNotRegular = errors.New("vfs: not a regular file")

func (machine) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	// O_NONBLOCK: a pipe would wait for its other end. It says nothing to files.
	f, err := os.OpenFile(name, flag|unix.O_NONBLOCK, perm)
	if errors.Is(err, unix.ENXIO) { // nobody at the other end, or a socket
		err = errors.Join(err, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular})
	}
	if err != nil {
		return nil, err
	}
	// A directory opens for reading and fails only later, at the first read:
	// tell it here.
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	} else if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &machineFile{file: f, raw: raw}, nil
}

func (machine) Remove(name string) error { return os.Remove(name) }

func (machine) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

func (machine) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }

func (machine) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

func (machine) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (machine) SyncDir(name string) error {
	// O_DIRECTORY: a file in place of a directory is an error, not a synced file.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Lock takes an open-file-description lock on the whole file. A POSIX fcntl
// lock, which Kafka takes through Java, conflicts with it in both directions;
// a flock would not. Unlike a POSIX lock it also excludes a second opener in
// this process, and is not lost when some other descriptor of the file closes.
//
// A holder may remove the file before it gives the lock back. Whoever opened it
// before that then gets a lock on a file without a name, which excludes nobody:
// so what counts is that the name still leads to the file that is locked, and
// only the holder of that may remove it.
func (m machine) Lock(name string) (io.Closer, error) {
	for range lockTries {
		l, err := m.lockOnce(name)
		if l != nil || err != nil {
			return l, err
		}
	}
	return nil, lockedError(name, holder{})
}

// lockTries bounds how often a lock is tried whose file is removed meanwhile.
// Each time another opener had it.
const lockTries = 100

// lockOnce takes the lock; nil without an error if that is on a file which the
// name does not lead to any more.
func (m machine) lockOnce(name string) (io.Closer, error) {
	opened, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	f := opened.(*machineFile)
	taken, err := f.tryLock()
	current := false
	switch {
	case err != nil:
		err = &fs.PathError{Op: "lock", Path: name, Err: err}
	case !taken:
		err = lockedError(name, f.lockHolder())
	default:
		if current, err = f.current(); current {
			err = noteHolder(f)
		}
	}
	if err != nil || !current {
		return nil, errors.Join(err, f.Close())
	}
	return &machineLock{f: f}, nil
}

// current tells whether the name of an open file still leads to it.
func (f *machineFile) current() (bool, error) {
	open, err := f.file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, named), err
}

// machineLock is a lock held; the descriptor is the lock.
type machineLock struct{ f *machineFile }

// Close empties the file, as Kafka leaves it, so that no later holder that
// writes no pid is taken for us; then it gives the lock back.
func (l *machineLock) Close() error {
	return errors.Join(l.f.Truncate(0), l.f.Close())
}

// tryLock takes the lock if it is free. A file system without such locks gives
// an error.
func (f *machineFile) tryLock() (taken bool, err error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = f.control(func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock)
	})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// lockHolder finds out who holds the lock that tryLock did not get. The kernel
// knows the process of a POSIX lock (0 if it lives in another pid namespace),
// and says −1 of an open-file-description lock: then the file has the pid, or
// is still empty if the holder is just about to write it.
func (f *machineFile) lockHolder() holder {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := f.control(func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lock)
	})
	if err == nil && lock.Type != unix.F_UNLCK && lock.Pid >= 0 {
		return holder{pid: int(lock.Pid), foreign: true}
	}
	b := make([]byte, lockFileBytesMax)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return holder{}
	}
	return holder{pid: parsePID(b[:n])}
}
