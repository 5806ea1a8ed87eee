package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
)

func newConsumeCommand() *cobra.Command {
	var c consumer
	var format, from, isolation string
	cmd := &cobra.Command{
		Use:   "consume DIR --topic T --partition P",
		Short: "Print the records of a partition, without a server",
		Long: `Print the records of a partition as a consumer would get them. Nothing is
written and no lock is taken. With read_committed, records of open and aborted
transactions are left out.

` + exitCodesHelp,
		Example: `  oncelog consume /var/lib/kafka/data --topic orders --partition 0 --isolation read_committed -o json`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if c.out, err = newOutput(cmd.OutOrStdout(), format); err != nil {
				return usageError(cmd, err)
			}
			switch isolation {
			case "read_committed":
				c.isolation = oncelog.ReadCommitted
			case "read_uncommitted":
			default:
				return usageError(cmd, fmt.Errorf("unknown isolation %q: read_committed or read_uncommitted", isolation))
			}
			if err := c.run(args[0], from); err != nil {
				return &exitError{code: exitBlind, err: err}
			}
			return c.out.flush()
		},
	}
	cmd.Flags().StringVar(&c.tp.Topic, "topic", "", "topic")
	cmd.Flags().Int32Var(&c.tp.Index, "partition", 0, "partition")
	cmd.Flags().StringVar(&from, "from", "earliest", "earliest, latest or an offset")
	cmd.Flags().StringVar(&isolation, "isolation", "read_uncommitted", "read_committed or read_uncommitted")
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format: text (tables) or json (one object a line)")
	return cmd
}

// consumer is one run of consume.
type consumer struct {
	tp        oncelog.TopicPartition
	isolation oncelog.Isolation
	out       *output
	records   batch.Records
}

func (c *consumer) run(dir, from string) error {
	s, err := oncelog.Open(dir, oncelog.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close(context.Background())
	l, err := s.Partition(c.tp)
	if err != nil {
		return err
	}
	frontiers := l.Frontiers()
	at := frontiers.LogStart
	switch from {
	case "earliest":
	case "latest":
		at = frontiers.HighWatermark
	default:
		if at, err = strconv.ParseInt(from, 10, 64); err != nil {
			return fmt.Errorf("--from %q: want earliest, latest or an offset", from)
		}
	}
	for {
		f, err := s.Fetch(context.Background(), []oncelog.FetchRequest{{TopicPartition: c.tp, Offset: at}}, oncelog.FetchOptions{Isolation: c.isolation})
		if err != nil {
			return err
		}
		if f[0].Err != nil {
			return f[0].Err
		}
		next := f[0].NextOffset()
		err = c.show(f[0].Fetched, at)
		f[0].Close()
		if err != nil || next == at {
			return err
		}
		at = next
	}
}

// show prints the records of an answer from an offset on.
func (c *consumer) show(f *oncelog.Fetched, from int64) error {
	for b := range f.Batches() {
		if b.IsControl() || c.aborted(f, b) {
			continue
		}
		c.records.Reset(b)
		for c.records.Next() {
			r := c.records.Record()
			if r.Offset < from {
				continue
			}
			c.out.begin("record")
			c.out.int("offset", r.Offset)
			c.out.int("ts", r.Timestamp)
			c.out.string("ts_type", b.Timestamps().String())
			c.out.int("leader_epoch", int64(b.LeaderEpoch()))
			c.out.bytes("key", r.Key)
			c.out.bytes("value", r.Value)
			if headers := headersOf(r); headers != nil {
				c.out.object("headers", headers)
			}
			c.out.end()
		}
		if err := c.records.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (c *consumer) aborted(f *oncelog.Fetched, b batch.Batch) bool {
	if !b.IsTransactional() {
		return false
	}
	for _, t := range f.Aborted {
		if t.ProducerID == b.ProducerID() && t.First <= b.BaseOffset() && b.LastOffset() < t.Last {
			return true
		}
	}
	return false
}
