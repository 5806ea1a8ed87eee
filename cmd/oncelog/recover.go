package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog"
)

func newRecoverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "recover DIR",
		Short: "Bring a log directory in order after a crash",
		Long: `Open a log directory, recover what a crash left, and close it cleanly, so that
Apache Kafka or oncelog can go on with it. What is cut from the end of a log is
kept beside it in a .cut file. A directory in use is refused.

` + exitCodesHelp,
		Example: `  oncelog recover /var/lib/kafka/data`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			s, err := oncelog.Open(args[0], oncelog.Options{Events: func(e oncelog.Event) {
				fmt.Fprintf(out, "%s: %s, offsets %d to %d, %d bytes %s\n", e.Partition, e.Kind, e.From, e.To, e.Bytes, e.File)
			}})
			if err != nil {
				return &exitError{code: exitBlind, err: err}
			}
			partitions, refused := 0, 0
			for _, t := range s.Topics() {
				for _, index := range t.Partitions {
					partitions++
					if _, err := s.Partition(oncelog.TopicPartition{Topic: t.Name, Index: index}); err != nil {
						refused++
						fmt.Fprintf(out, "%s-%d refuses: %v\n", t.Name, index, err)
					}
				}
			}
			if err := s.Close(context.Background()); err != nil {
				return &exitError{code: exitBlind, err: err}
			}
			fmt.Fprintf(out, "%d partitions, %d refused; closed cleanly\n", partitions, refused)
			if refused > 0 {
				return &exitError{code: exitDamaged, err: errors.New("some partitions are damaged: oncelog verify tells where")}
			}
			return nil
		},
	}
}
