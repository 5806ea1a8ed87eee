package producerstate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/oncelog/oncelog/batch"
)

// script is one story: a partition, and guards by name.
type script struct {
	*partition
	guards map[string]Guard
}

// TestScripts runs the stories in testdata/scripts:
//
//	data pid=1 [epoch=0] [seq=0] [n=1] [txn] [origin=coordinator|replica] [guard=NAME] [first-ever]
//	marker pid=1 [epoch=0] commit|abort [coordinator=0] [v2] [origin=replica]
//	plain n=3                    batches without a producer
//	verify pid=1 [epoch=0] [seq=0] [v2] as=NAME
//	clock ms=N                   time goes by
//	expire ms=N                  forget what is as old
//	reload                       a snapshot, and a table of it
//	producers | ongoing | undecided
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{partition: newPartition(), guards: make(map[string]Guard)}
		s.clock = 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			mustAudit(t, s.table)
			return out
		})
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "data":
		return s.data(d)
	case "marker":
		return s.marker(d)
	case "plain":
		n := int32(number(d, "n", 1))
		s.table.Apply(dataBatch(s.end, batch.NoProducer, batch.None, n, false), nil, s.clock)
		s.end += int64(n)
		return fmt.Sprintf("ok, next offset %d\n", s.end)
	case "verify":
		g, needed := s.table.Verify(producer(d), int32(number(d, "seq", 0)), d.HasArg("v2"), s.clock)
		var name string
		d.ScanArgs(t, "as", &name)
		s.guards[name] = g
		if !needed {
			return "not needed\n"
		}
		if g == 0 {
			return "needed, no guard\n"
		}
		return "needed\n"
	case "clock":
		s.clock += number(d, "ms", 0)
		return ""
	case "expire":
		return fmt.Sprintf("%d forgotten\n", s.table.Expire(s.clock, number(d, "ms", 0)))
	case "reload":
		b := s.table.AppendSnapshot(nil)
		var err error
		if s.table, err = LoadSnapshot(Options{}, b, s.clock, 0); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d bytes\n", len(b))
	case "producers":
		return s.producers()
	case "undecided":
		if first, ok := s.table.FirstUndecided(); ok {
			return fmt.Sprintf("%d\n", first)
		}
		return "none\n"
	case "ongoing":
		var out strings.Builder
		for txn := range s.table.Ongoing() {
			fmt.Fprintf(&out, "producer %d epoch %d since %d\n", txn.Producer.ID, txn.Producer.Epoch, txn.First)
		}
		return out.String()
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func number(d *datadriven.TestData, name string, absent int64) int64 {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			if _, err := fmt.Sscan(a.Vals[0], &absent); err != nil {
				panic(err)
			}
		}
	}
	return absent
}

func producer(d *datadriven.TestData) batch.Producer {
	return batch.Producer{ID: number(d, "pid", -1), Epoch: int16(number(d, "epoch", 0))}
}

func (s *script) request(d *datadriven.TestData, origin Origin) Request {
	r := Request{Origin: origin, FirstEver: d.HasArg("first-ever"), TV2: d.HasArg("v2")}
	for _, a := range d.CmdArgs {
		switch {
		case a.Key == "guard":
			r.Guard = s.guards[a.Vals[0]]
		case a.Key == "origin" && a.Vals[0] == "coordinator":
			r.Origin = OriginCoordinator
		case a.Key == "origin" && a.Vals[0] == "replica":
			r.Origin = OriginReplica
		}
	}
	return r
}

func (s *script) data(d *datadriven.TestData) string {
	r := s.request(d, OriginClient)
	r.Header = dataBatch(s.end, producer(d), int32(number(d, "seq", 0)), int32(number(d, "n", 1)), d.HasArg("txn"))
	v, err := s.table.Check(r)
	switch {
	case err != nil:
		return refusal(err)
	case v.Kind == Duplicate:
		return fmt.Sprintf("duplicate of %d..%d\n", v.FirstOffset, v.LastOffset)
	}
	s.table.Apply(r.Header, nil, s.clock)
	s.end = r.Header.NextOffset()
	return fmt.Sprintf("ok, next offset %d\n", s.end)
}

func (s *script) marker(d *datadriven.TestData) string {
	r := s.request(d, OriginCoordinator)
	r.Header, r.Marker = markerBatch(s.end, producer(d), d.HasArg("commit"), int32(number(d, "coordinator", 0)))
	v, err := s.table.Check(r)
	switch {
	case err != nil:
		return refusal(err)
	case v.Kind == DoneMarker:
		return "done before\n"
	}
	c, ok := s.table.Apply(r.Header, r.Marker, s.clock)
	s.end = r.Header.NextOffset()
	if !ok {
		return fmt.Sprintf("nothing was open, next offset %d\n", s.end)
	}
	return fmt.Sprintf("ended %d..%d, last stable %d\n", c.First, c.Last, c.LastStable)
}

func refusal(err error) string {
	sequence, _ := errors.AsType[*SequenceError](err)
	switch {
	case errors.Is(err, ErrDuplicateSequence):
		return "refused: stored before, place not remembered\n"
	case sequence != nil:
		return fmt.Sprintf("refused: out of order, want %d\n", sequence.Want)
	case errors.Is(err, ErrInvalidProducerEpoch):
		return "refused: fenced\n"
	case errors.Is(err, ErrInvalidTxnState):
		return "refused: transaction state\n"
	case errors.Is(err, ErrCoordinatorFenced):
		return "refused: coordinator fenced\n"
	}
	return err.Error() + "\n"
}

func (s *script) producers() string {
	var lines []string
	for i := range s.table.All() {
		line := fmt.Sprintf("%d: epoch %d", i.Producer.ID, i.Producer.Epoch)
		if i.Batches > 0 {
			line += fmt.Sprintf(", sequence %d at %d, %d batches", i.LastSequence, i.LastOffset, i.Batches)
		}
		if i.CoordinatorEpoch != batch.None {
			line += fmt.Sprintf(", coordinator %d", i.CoordinatorEpoch)
		}
		if i.TxnFirst != batch.None {
			line += fmt.Sprintf(", open since %d", i.TxnFirst)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(append(lines, ""), "\n")
}
