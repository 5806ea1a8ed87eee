package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary holds a lock for another one if these are set.
const (
	lockNameVariable = "VFS_TEST_LOCK_NAME"
	lockHowVariable  = "VFS_TEST_LOCK_HOW" // "ours", or "posix" as Java does
)

// TestLockHolder is no test: it is the other process of the tests below.
func TestLockHolder(t *testing.T) {
	name := os.Getenv(lockNameVariable)
	if name == "" {
		t.Skip("runs as another process of other tests")
	}
	if os.Getenv(lockHowVariable) == "ours" {
		held, err := Machine().Lock(name)
		must(t, err)
		defer held.Close()
	} else {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		must(t, err)
		defer f.Close()
		must(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}))
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin) // until the parent closes it, or is dead
}

// holdElsewhere has another process hold the lock, and gives its pid and what
// ends it: kill as kill -9 does, otherwise it unlocks.
func holdElsewhere(t *testing.T, name, how string) (pid int, end func(kill bool)) {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestLockHolder$")
	command.Env = append(os.Environ(), lockNameVariable+"="+name, lockHowVariable+"="+how)
	stdin, err := command.StdinPipe()
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return command.Process.Pid, func(kill bool) {
		if kill {
			must(t, command.Process.Kill())
		}
		stdin.Close()
		err := command.Wait()
		var exit *exec.ExitError
		if err != nil && !(kill && errors.As(err, &exit)) {
			t.Errorf("the other process: %v", err)
		}
	}
}

func TestLockOfAnotherProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	pid, end := holdElsewhere(t, name, "ours")
	_, err := Machine().Lock(name)
	wantErr(t, err, ErrLocked)
	wantText(t, err, name, "by process "+strconv.Itoa(pid)+";")
	end(false)
	held, err := Machine().Lock(name)
	must(t, err)
	must(t, held.Close())
}

func TestLockOfKafka(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	// A pid that a killed process of ours left must not be taken for Kafka's.
	must(t, os.WriteFile(name, pidLine(1234567), 0o644))
	pid, end := holdElsewhere(t, name, "posix")
	_, err := Machine().Lock(name)
	wantErr(t, err, ErrLocked)
	wantText(t, err, name, "Apache Kafka", "process "+strconv.Itoa(pid))
	end(false)
}

func TestLockExcludesKafka(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	held, err := Machine().Lock(name)
	must(t, err)
	defer held.Close()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
		t.Errorf("a POSIX lock beside ours: %v", err)
	}
}

func TestLockOfKilledProcessIsFree(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	_, end := holdElsewhere(t, name, "ours")
	end(true)
	held, err := Machine().Lock(name)
	must(t, err)
	must(t, held.Close())
}

// A lock on a file that was removed after it was opened is no lock.
func TestLockOfRemovedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	first, err := Machine().Lock(name)
	must(t, err)
	late, err := Machine().OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer late.Close()
	must(t, errors.Join(os.Remove(name), first.Close()))
	for _, again := range []bool{false, true} {
		if again {
			second, err := Machine().Lock(name)
			must(t, err)
			defer second.Close()
		}
		taken, err := late.(*machineFile).tryLock()
		current, e := late.(*machineFile).current()
		if must(t, errors.Join(err, e)); !taken || current {
			t.Errorf("taken %v, current %v; want the lock, and that it counts for nothing", taken, current)
		}
	}
}

// A holder that is about to write its pid, or whose file nobody can make sense
// of, is still a holder.
func TestLockHolderWithoutPID(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	held, err := Machine().Lock(name)
	must(t, err)
	defer held.Close()
	must(t, os.WriteFile(name, nil, 0o644))
	_, err = Machine().Lock(name)
	wantErr(t, err, ErrLocked)
	wantText(t, err, "another program")
}
