package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes of every subcommand.
const (
	exitSound   = 0 // nothing is wrong; torn and zero tails are not
	exitDamaged = 1 // damage was found
	exitBlind   = 2 // could not look: missing, no permission, wrong usage
)

// exitError ends the program with a code. Its text is printed unless empty.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitCode is the code that an error ends the program with.
func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitBlind
}

// usageError is the error of a command line that cannot be understood.
func usageError(cmd *cobra.Command, err error) error {
	return &exitError{code: exitBlind, err: fmt.Errorf("%w\nSee '%s --help' for examples", err, cmd.CommandPath())}
}

// usage makes the error of an argument check one of usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(cmd, err)
		}
		return nil
	}
}
