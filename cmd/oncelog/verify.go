package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog"
)

func newVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Read a log directory whole and compare everything in it",
		Long: `Read every batch of every partition and compare it with its checksum, its
neighbours, the indexes, the producer snapshots and the leader epochs. Nothing
is written and no lock is taken: directories in use or left by a crash are fine.

` + exitCodesHelp,
		Example: `  oncelog verify /var/lib/kafka/data`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			s, err := oncelog.Open(args[0], oncelog.Options{ReadOnly: true})
			if err != nil {
				return &exitError{code: exitBlind, err: err}
			}
			partitions, damaged := 0, 0
			for _, t := range s.Topics() {
				for _, index := range t.Partitions {
					partitions++
					tp := oncelog.TopicPartition{Topic: t.Name, Index: index}
					l, err := s.Partition(tp)
					if err == nil {
						err = l.Check(context.Background())
					}
					if err != nil {
						damaged++
						fmt.Fprintf(out, "%s: %v\n", tp, err)
					}
				}
			}
			if err := s.Close(context.Background()); err != nil {
				return &exitError{code: exitBlind, err: err}
			}
			fmt.Fprintf(out, "%d partitions read, %d damaged\n", partitions, damaged)
			if damaged > 0 {
				return &exitError{code: exitDamaged, err: errors.New("damage was found")}
			}
			return nil
		},
	}
}
