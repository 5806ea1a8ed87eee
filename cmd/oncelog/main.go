// Command oncelog looks into Kafka log directories.
//
// Each subcommand lives in a file of its name; what they share: output.go
// (JSON lines or tables), exit.go (exit codes), progress.go, logfile.go (the
// batches of a segment file), internaltopics.go (the records of Kafka's own
// topics), interrupt.go (what ends on Ctrl-C). Output goes to standard output,
// errors and progress to standard error. No subcommand writes to a data
// directory but recover, whose help says so.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and gives the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return exitSound
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(stderr, "oncelog: %s\n", text)
	}
	return exitCode(err)
}
