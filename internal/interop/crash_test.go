//go:build interop

package interop

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// killAfter is how many acknowledgements the child lives for.
const killAfter = 2500

// aftermath is what is known of a killed child.
type aftermath struct {
	acknowledged int
	// pending are the intents that were not acknowledged, at most one a writer:
	// in the log, or not.
	pending []childLine
	// last are the last acknowledged batches of idempotent writers that have no
	// intent pending.
	last []sentBatch
}

type sentBatch struct {
	tp    topic.Partition
	batch batch.Batch
	base  int64
}

// killWhileAppending has a child append to a directory, kills it with SIGKILL
// in the middle, and enters all that it had acknowledged into the model.
func killWhileAppending(t *testing.T, data string, m *model) aftermath {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), childEnv+"="+data)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()

	var a aftermath
	intents := make(map[int]childLine)
	last := make(map[int]sentBatch)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l childLine
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			break // the kill cut it off
		}
		if l.Partition != "" {
			intents[l.Writer] = l
			delete(last, l.Writer)
			continue
		}
		intent := intents[l.Writer]
		delete(intents, l.Writer)
		if s := acknowledge(t, m, intent, l.Base); s.batch != nil && s.batch.ProducerID() >= 0 && !s.batch.IsTransactional() {
			last[l.Writer] = s
		}
		if a.acknowledged++; a.acknowledged == killAfter {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if a.acknowledged < killAfter {
		t.Fatalf("the child ended after %d acknowledgements: %v", a.acknowledged, cmd.ProcessState)
	}
	for _, l := range intents {
		a.pending = append(a.pending, l)
	}
	for _, s := range last {
		a.last = append(a.last, s)
	}
	return a
}

// acknowledge enters one intent into the model, as written at an offset.
func acknowledge(t *testing.T, m *model, l childLine, base int64) sentBatch {
	t.Helper()
	tp, b := parseIntent(t, l)
	p := m.partitions[tp]
	if b == nil {
		p.marked(l.ID, l.Commit, base)
		return sentBatch{}
	}
	if err := p.appended(b, base); err != nil {
		t.Fatal(err)
	}
	return sentBatch{tp: tp, batch: b, base: base}
}

func parseIntent(t *testing.T, l childLine) (topic.Partition, batch.Batch) {
	t.Helper()
	tp, err := topic.ParseDir(l.Partition)
	if err != nil {
		t.Fatal(err)
	}
	if l.Batch == "" {
		return tp, nil
	}
	b, err := hex.DecodeString(l.Batch)
	if err != nil {
		t.Fatal(err)
	}
	return tp, b
}

// settle finds out what became of the pending intents in the recovered
// directory, sends idempotent ones again, as their producer would, and ends the
// transactions that are open with ABORT.
func (a *aftermath) settle(t *testing.T, s *oncelog.Store, m *model) *tally {
	t.Helper()
	w := &writer{t: t, store: s, model: m, c: new(tally)}
	w.c.add("appends acknowledged before the kill", a.acknowledged)
	for _, x := range a.last {
		w.duplicate(x.tp, x.batch, x.base)
	}
	for tp, p := range m.partitions {
		l, err := s.Partition(tp)
		if err != nil {
			t.Fatal(err)
		}
		if f := l.Frontiers(); f.HighWatermark < p.end {
			t.Errorf("%v: high watermark %d after the recovery, %d was acknowledged", tp, f.HighWatermark, p.end)
		} else {
			p.end = f.HighWatermark
		}
	}
	for _, x := range a.pending {
		w.resolve(x)
	}
	w.abortOpen()
	return w.c
}

// resolve finds out whether a pending intent is in the log.
func (w *writer) resolve(x childLine) {
	w.t.Helper()
	tp, b := parseIntent(w.t, x)
	p := w.model.partitions[tp]
	l, err := w.store.Partition(tp)
	if err != nil {
		w.t.Fatal(err)
	}
	w.c.add("appends pending at the kill", 1)
	if b == nil {
		if !slices.ContainsFunc(l.Ongoing(), func(o producerstate.OngoingTxn) bool { return o.Producer.ID == x.ID }) {
			p.marked(x.ID, x.Commit, -1)
		}
		return
	}
	base := findBatch(w.t, l, p, b)
	if base >= 0 {
		if err := p.appended(b, base); err != nil {
			w.t.Fatal(err)
		}
	}
	switch {
	case b.IsTransactional() || b.ProducerID() < 0:
	case base >= 0:
		w.duplicate(tp, b, base)
	default:
		w.append(tp, b)
	}
}

// findBatch gives the offset of a batch of the child, -1 if it is not there.
func findBatch(t *testing.T, l *log.Log, p *partitionModel, b batch.Batch) int64 {
	t.Helper()
	probe := &partitionModel{leaderEpoch: p.leaderEpoch, open: make(map[batch.Producer]*openTxn)}
	if err := probe.appended(b, 0); err != nil {
		t.Fatal(err)
	}
	want := probe.records[0]
	all, _, err := consume(l, l.Frontiers().LogStart, log.ReadUncommitted)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		want.Offset = r.Offset
		if sameRecord(r, want) {
			return r.Offset
		}
	}
	return -1
}

// abortOpen ends every transaction of ours that is open, which must be those
// that the model has.
func (w *writer) abortOpen() {
	w.t.Helper()
	w.c.add("ABORT markers for what was open at the kill", 0)
	for tp, p := range w.model.partitions {
		l, err := w.store.Partition(tp)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range l.Ongoing() {
			if o.Producer.ID < firstProducerID {
				continue
			}
			if x := p.open[o.Producer]; x == nil || x.first != o.First {
				w.t.Errorf("%v: open transaction %+v, want %+v", tp, o, x)
			}
			x := transactor{w: w, producer: o.Producer, involved: map[topic.Partition]bool{tp: true}}
			x.end(false)
			w.c.add("ABORT markers for what was open at the kill", 1)
		}
		if len(p.open) > 0 {
			w.t.Errorf("%v: the engine lost open transactions %+v", tp, p.open)
		}
	}
}

// command is the built command oncelog.
type command string

func buildCommand(t *testing.T, work string) command {
	t.Helper()
	name := filepath.Join(work, "oncelog")
	if out, err := exec.Command("go", "build", "-o", name, "github.com/oncelog/oncelog/cmd/oncelog").CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	return command(name)
}

// run runs a subcommand, which must end with status 0.
func (c command) run(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), string(c), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("oncelog %v: %v\n%s", args, err, tail(out))
	}
	t.Logf("oncelog %v:\n%s", args, tail(out))
}
