package txn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// script is one story: a coordinator over partitions t-0 to t-3, the logs of the
// two internal topics, and a clock that starts at 0 s.
type script struct {
	*bed
	told int   // offset up to which the transaction log was shown
	seen int   // events that were shown
	zero int64 // ms
}

// TestScripts runs the stories in testdata/scripts. An identity is written id/epoch.
//
//	init ID [expect=P] [timeout=10s]
//	producer                        one without transactions
//	add ID P PARTITION...           a client that says what it writes to
//	offsets ID P GROUP
//	verify ID P PARTITION...
//	send ID P PARTITION [seq=0] [n=1] [v1]   v1: added and verified, not just written
//	end ID P commit|abort [v1] [async]
//	state ID | list [state=S] | events
//	log                             what came into the transaction log since
//	partition PARTITION             its batches, and whether anything is open
//	break|mend|delete PARTITION     it does not serve, serves again, is gone
//	pass 10s                        time goes by, and what is due is done
//	crash                           the process is killed and starts again
//	epoch ID N                      the id has used N epochs
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{bed: newBed(t, Options{TV1: strings.Contains(path, "server_v1")}), zero: at0}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var words []string
			for _, a := range d.CmdArgs {
				if len(a.Vals) == 0 {
					words = append(words, a.Key)
				}
			}
			return s.run(t, d, words)
		})
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData, words []string) string {
	switch d.Cmd {
	case "init":
		return s.initialise(d, words[0])
	case "producer":
		p, err := s.c.NewProducerID(ctx)
		return answer(p, err)
	case "add":
		return refusal(s.c.AddPartitions(ctx, words[0], identity(words[1]), partitions(words[2:])))
	case "offsets":
		return refusal(s.c.AddOffsets(ctx, words[0], identity(words[1]), words[2]))
	case "verify":
		return refusal(s.c.Verify(ctx, words[0], identity(words[1]), partitions(words[2:])))
	case "send":
		return s.data(d, words[0], identity(words[1]), partitions(words[2:3])[0])
	case "end":
		o := EndOptions{Commit: words[2] == "commit", TV2: !d.HasArg("v1"), Async: d.HasArg("async")}
		p, err := s.c.End(ctx, words[0], identity(words[1]), o)
		return answer(p, err)
	case "state":
		got, err := s.c.Describe(ctx, words[0])
		if err != nil {
			return refusal(err)
		}
		return s.describe(got) + "\n"
	case "list":
		return s.list(d)
	case "events":
		return s.tell()
	case "log":
		return s.records(t)
	case "partition":
		return s.show(t, partitions(words)[0])
	case "break", "mend", "delete":
		return s.change(d.Cmd, partitions(words)[0])
	case "pass":
		s.sleep(must(time.ParseDuration(words[0])))
		return ""
	case "crash":
		s.crash()
		return ""
	case "epoch":
		shard := s.c.shard(words[0])
		shard.mu.Lock()
		defer shard.mu.Unlock()
		shard.entries[words[0]].t.Producer.Epoch = int16(must(strconv.Atoi(words[1])))
		return ""
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func identity(s string) (p batch.Producer) {
	id, epoch, _ := strings.Cut(s, "/")
	return batch.Producer{ID: must(strconv.ParseInt(id, 10, 64)), Epoch: int16(must(strconv.Atoi(epoch)))}
}

func partitions(words []string) (list []topic.Partition) {
	for _, w := range words {
		if tp := must(topic.ParseDir(strings.TrimSuffix(w, ","))); tp.Topic != "" {
			list = append(list, tp)
		}
	}
	return list
}

func answer(p batch.Producer, err error) string {
	if err != nil {
		return refusal(err)
	}
	return fmt.Sprintf("%d/%d\n", p.ID, p.Epoch)
}

// refusal is a word for an error, with Kafka's number.
func refusal(err error) string {
	var absent *PartitionsError
	var unknown *UnknownPartitionsError
	switch {
	case err == nil:
		return "ok\n"
	case errors.As(err, &absent):
		return fmt.Sprintf("not in the transaction (120): %v\n", absent.Partitions)
	case errors.As(err, &unknown):
		return fmt.Sprintf("unknown (3): %v\n", unknown.Partitions)
	}
	for kind, word := range map[error]string{
		ErrConcurrent: "concurrent (51)", ErrProducerFenced: "fenced (90)", ErrInvalidState: "invalid state (48)",
		ErrInvalidIDMapping: "invalid mapping (49)", ErrInvalidTimeout: "invalid timeout (50)", ErrInvalidRequest: "invalid request (42)",
		ErrUnknownID: "unknown id (105)", producerstate.ErrInvalidProducerEpoch: "stale epoch (47)",
		producerstate.ErrInvalidTxnState: "invalid state (48)", producerstate.ErrOutOfOrderSequence: "out of order (45)",
	} {
		if errors.Is(err, kind) {
			return word + "\n"
		}
	}
	return err.Error() + "\n"
}

func (s *script) initialise(d *datadriven.TestData, id string) string {
	var o InitOptions
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "expect":
			p := identity(a.Vals[0])
			o.Expected = &p
		case "timeout":
			o.Timeout = must(time.ParseDuration(a.Vals[0]))
		}
	}
	p, err := s.c.InitProducerID(ctx, id, o)
	return answer(p, err)
}

// data appends a batch the way a store does.
func (s *script) data(d *datadriven.TestData, id string, p batch.Producer, tp topic.Partition) string {
	sequence, n := 0, 1
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "seq":
			sequence = must(strconv.Atoi(a.Vals[0]))
		case "n":
			n = must(strconv.Atoi(a.Vals[0]))
		}
	}
	if !d.HasArg("v1") {
		return refusal(s.send(id, p, tp, int32(sequence), n))
	}
	l := s.logs[tp]
	g, needed, err := l.Guard(p, int32(sequence), false)
	if err == nil && needed {
		err = s.c.Verify(ctx, id, p, []topic.Partition{tp})
	}
	if err == nil {
		err = s.write(l, p, int32(sequence), n, log.AppendOptions{Guard: g})
	}
	return refusal(err)
}

func (s *script) seconds(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return fmt.Sprintf("%gs", float64(ms-s.zero)/1000)
}

func (s *script) describe(d Description) string {
	start := int64(-1)
	if !d.Start.IsZero() {
		start = d.Start.UnixMilli()
	}
	return fmt.Sprintf("%s %d/%d %v, since %s", d.State, d.Producer.ID, d.Producer.Epoch, d.Partitions, s.seconds(start))
}

func (s *script) list(d *datadriven.TestData) string {
	var f Filter
	for _, a := range d.CmdArgs {
		if a.Key == "state" {
			state, _ := ParseState(a.Vals[0])
			f.States = append(f.States, state)
		}
	}
	var out strings.Builder
	for _, found := range s.c.List(f) {
		fmt.Fprintf(&out, "%s: %s\n", found.TransactionalID, s.describe(found))
	}
	return out.String()
}

func (s *script) tell() string {
	var out strings.Builder
	for _, e := range s.bed.told[s.seen:] {
		s.seen++
		fmt.Fprintf(&out, "%s: %s", e.Kind, e.TransactionalID)
		if e.Partition.Topic != "" {
			fmt.Fprintf(&out, " in %s", e.Partition)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// records shows the transaction log from where it was last shown.
func (s *script) records(t *testing.T) string {
	var out strings.Builder
	s.batches(t, s.logs[stateLog], int64(s.told), func(b batch.Batch) {
		var records batch.Records
		defer records.Close()
		for records.Reset(b); records.Next(); {
			r := records.Record()
			s.told = int(r.Offset) + 1
			id := must(ReadKey(r.Key))
			if r.Value == nil {
				fmt.Fprintf(&out, "%s: forgotten\n", id)
				continue
			}
			v := must(ReadValue(r.Value))
			fmt.Fprintf(&out, "%s: %s %d/%d last %d %v since %s", id, v.State, v.Producer.ID, v.Producer.Epoch, v.LastEpoch, v.Partitions, s.seconds(v.StartMs))
			if v.NextID >= 0 {
				fmt.Fprintf(&out, " then %d", v.NextID)
			}
			if v.ClientVersion > 0 {
				fmt.Fprintf(&out, " v%d", v.ClientVersion)
			}
			out.WriteString("\n")
		}
	})
	return out.String()
}

// show shows the batches of a partition.
func (s *script) show(t *testing.T, tp topic.Partition) string {
	var out strings.Builder
	l := s.logs[tp]
	s.batches(t, l, 0, func(b batch.Batch) {
		p := b.Producer()
		fmt.Fprintf(&out, "%d: %d/%d ", b.BaseOffset(), p.ID, p.Epoch)
		if m, ok, err := batch.ReadMarker(b); err == nil && ok {
			what := map[bool]string{true: "COMMIT", false: "ABORT"}[m.Commit]
			fmt.Fprintf(&out, "%s\n", what)
			return
		}
		fmt.Fprintf(&out, "sequence %d, %d records\n", b.BaseSequence(), b.RecordCount())
	})
	if f := l.Frontiers(); f.LastStable < f.LogEnd {
		fmt.Fprintf(&out, "open from %d\n", f.LastStable)
	}
	return out.String()
}

func (s *script) batches(t testing.TB, l *log.Log, from int64, do func(batch.Batch)) {
	for from < l.Frontiers().LogEnd {
		f, err := l.Read(from, log.ReadOptions{Replica: true})
		if err != nil {
			t.Fatal(err)
		}
		for b := range f.Batches() {
			do(b)
		}
		from = f.NextOffset()
		f.Close()
	}
}

func (s *script) change(how string, tp topic.Partition) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch how {
	case "break":
		s.broken[tp] = errors.New("does not serve")
	case "mend":
		delete(s.broken, tp)
	case "delete":
		s.gone[tp] = true
	}
	return ""
}
