package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible gives a context that ends when the program is told to stop, by
// Ctrl-C or SIGTERM. It is for commands that have something to tell or to put
// in order before they end; all others are ended by the signal, as any program
// is. A second signal ends the program at once.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
