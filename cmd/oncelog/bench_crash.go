package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/bench"
	"github.com/oncelog/oncelog/internal/vfs"
)

// benchFilled is what the process to be killed says when all is appended.
const benchFilled = "filled"

// newBenchCrashCommand is the process that crashChild starts.
func newBenchCrashCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "crash DIR CONFIG",
		Short:  "Fill a store and wait to be killed",
		Hidden: true,
		Args:   usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var c bench.Config
			if err := json.Unmarshal([]byte(args[1]), &c); err != nil {
				return usageError(cmd, err)
			}
			if _, err := bench.Fill(cmd.Context(), args[0], c); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), benchFilled); err != nil {
				return err
			}
			// Until it is killed, or nobody is there any more to do it.
			_, err := io.Copy(io.Discard, cmd.InOrStdin())
			return err
		},
	}
}

// crashChild fills a store in another process and kills it with kill -9.
func crashChild(ctx context.Context, dir string, c bench.Config) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, program, "bench", "crash", dir, string(config))
	var complaints strings.Builder
	child.Stderr = &complaints
	stdin, err := child.StdinPipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	killErr := child.Process.Kill()
	_ = child.Wait() // killed is what it should be
	if strings.TrimSpace(line) != benchFilled {
		return errors.Join(fmt.Errorf("fill a store to be killed: %s", strings.TrimSpace(complaints.String())), readErr, ctx.Err())
	}
	return killErr
}

// anotherBoot is the machine's file system after the machine started again.
type anotherBoot struct{ vfs.FS }

func (anotherBoot) Place(dir string) (vfs.Place, error) {
	p, err := vfs.Machine().Place(dir)
	for i := range p.Boot {
		p.Boot[i] ^= 0xff
	}
	return p, err
}
