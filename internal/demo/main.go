// Command demo is what scripts/run.sh ("make run") lets work and kills: it
// appends to a data directory, writes down what was acknowledged, and later
// compares that with what the directory holds.
//
//	demo append -dir DIR -acks FILE   append until killed, on several partitions
//	demo check  -dir DIR -acks FILE   read-only: is every acknowledged record there?
//	demo finish -dir DIR -acks FILE   send last batches again, end open transactions
//
// Two kinds of writers, each with a producer id of its own: idempotent ones,
// in a topic of the demo's and in one that Kafka made; and transactional ones,
// which end their transactions by turns with commit and abort. Until there is
// a coordinator, transactional batches go through the log of their partition,
// with a guard, and the program writes the markers itself.
//
// Exit status 0: all is as promised; 1: it is not; 2: could not look.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// settings come from the command line.
type settings struct {
	dir, acks string
	foreign   string        // topic that Kafka made
	limit     time.Duration // append ends by itself, in case nobody kills it
	ended     bool          // check: every transaction must be ended
}

// errBroken says that something is not as promised; what, was printed.
var errBroken = errors.New("not as promised")

func main() {
	err := run(context.Background(), os.Args[1:])
	switch {
	case err == nil:
		return
	case errors.Is(err, errBroken):
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	modes := map[string]func(context.Context, settings) error{"append": appendUntilKilled, "check": check, "finish": finish}
	if len(args) == 0 || modes[args[0]] == nil {
		return errors.New("say append, check or finish")
	}
	var s settings
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", "", "data directory")
	flags.StringVar(&s.acks, "acks", "", "file of acknowledgements")
	flags.StringVar(&s.foreign, "foreign", "orders", "topic that Kafka made; its partition 0 is appended to")
	flags.DurationVar(&s.limit, "limit", 30*time.Second, "append: end after this time")
	flags.BoolVar(&s.ended, "ended", false, "check: no transaction of the demo may be open")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if s.dir == "" || s.acks == "" {
		return errors.New("-dir and -acks are needed")
	}
	return modes[args[0]](ctx, s)
}
