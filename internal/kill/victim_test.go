package kill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// victim is a child, as its parent sees it.
type victim struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	lines  chan string // what it says; closed when it has ended
	said   []string
	opened time.Duration // how long it took to open the directory; 0: it did not get so far
}

// sayLimit is how long a child may take for the next step.
const sayLimit = time.Minute

// start starts a child.
func start(ctx context.Context, o orders) (*victim, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	told, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	v := &victim{cmd: exec.CommandContext(ctx, executable), lines: make(chan string, 1000)}
	v.cmd.Env = append(os.Environ(), childEnv+"=1")
	v.cmd.Stderr = &v.stderr
	in, err := v.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the child
		defer close(v.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			v.lines <- s.Text()
		}
	}()
	if _, err := in.Write(append(told, '\n')); err != nil { // stays open until Wait
		return nil, v.end(fmt.Errorf("tell the child its orders: %w", err))
	}
	return v, nil
}

// await reads what the child says until it says what is waited for.
func (v *victim) await(what string) error {
	timer := time.NewTimer(sayLimit)
	defer timer.Stop()
	begin := time.Now()
	for {
		select {
		case line, ok := <-v.lines:
			if !ok {
				return v.end(fmt.Errorf("the child ended before %q", what))
			}
			v.said = append(v.said, line)
			if line == what {
				return nil
			}
			if strings.HasPrefix(line, saysHolds) && v.opened == 0 {
				v.opened = time.Since(begin)
			}
		case <-timer.C:
			return v.end(fmt.Errorf("the child did not get to %q in %v", what, sayLimit))
		}
	}
}

// kill kills the child and reads what it said before. It is an error if the
// child had ended by itself.
func (v *victim) kill() error {
	if err := v.cmd.Process.Kill(); err != nil {
		return v.end(err)
	}
	for line := range v.lines {
		v.said = append(v.said, line)
	}
	err := v.cmd.Wait()
	if status, ok := v.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the child ended by itself: %v\n%s", err, v.stderr.Bytes())
	}
	return nil
}

// end ends a child that does not do what it should: err with what it said.
func (v *victim) end(err error) error {
	_ = v.cmd.Process.Kill() // it may have ended
	for range v.lines {
	}
	return fmt.Errorf("%w: %v\n%s", err, v.cmd.Wait(), v.stderr.Bytes())
}
