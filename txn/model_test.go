package txn

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

var (
	modelSeed = flag.Uint64("txn.seed", 0, "the one history to run; 0: many, by random seeds")
	modelRuns = flag.Int("txn.histories", 60, "how many histories to run")
)

// transaction is what a client knows of one of its own.
type transaction struct {
	values map[topic.Partition][]string // that were taken
	end    string                       // "commit" or "abort", once that was answered; "?": asked for, and not known
}

// client is a producer: its identity, and where its sequences are. Several may
// have the same transactional id.
type client struct {
	id        string
	tv2       bool
	p         batch.Producer
	sequences map[topic.Partition]int32
	current   *transaction
	ended     bool // the current one is over, whatever came of it
}

// model is a history: clients that do anything in any order, partitions that fail,
// time, and a process that is killed. What is wrong with it is found at its end.
type model struct {
	*bed
	r       *rand.Rand
	clients []*client
	all     []*transaction
	serial  int
	steps   []string
}

// 88: whatever happens, each transaction is decided once, visible as a whole or not
// at all, as its client was told, and nothing stays open.
func TestModel(t *testing.T) {
	if *modelSeed != 0 {
		runModel(t, *modelSeed)
		return
	}
	for range *modelRuns {
		if seed := rand.Uint64(); !runModel(t, seed) {
			return
		}
	}
}

func runModel(t *testing.T, seed uint64) bool {
	return t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		m := &model{bed: newBed(t, Options{}), r: rand.New(rand.NewPCG(seed, 1))}
		m.o.TV1 = m.r.IntN(4) == 0
		for i := range 8 {
			m.clients = append(m.clients, &client{id: fmt.Sprint("id-", i%4), tv2: i%4 > 0, p: none, ended: true})
		}
		for range 300 {
			m.step()
		}
		m.finish()
		if t.Failed() {
			for _, s := range m.steps {
				t.Log(s)
			}
			t.Logf("again: go test ./txn -run TestModel -txn.seed=%d", seed)
		}
	})
}

func (m *model) note(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

func (m *model) step() {
	c := m.clients[m.r.IntN(len(m.clients))]
	tp := part("t", int32(m.r.IntN(4)))
	switch n := m.r.IntN(100); {
	case n < 8:
		m.begin(c)
	case n < 55:
		m.sendTo(c, tp)
	case n < 80:
		m.finishOne(c, m.r.IntN(3) > 0)
	case n < 84:
		m.endAgain(c)
	case n < 87:
		m.serve(tp, errors.New("not now"))
		m.note("break %s", tp)
	case n < 92:
		m.serve(tp, nil)
		m.sleep(0)
		m.note("mend %s", tp)
	case n < 96:
		d := time.Duration(m.r.IntN(40)) * time.Second
		m.sleep(d)
		m.note("pass %s", d)
	case n < 98:
		_, err := m.c.InitProducerID(ctx, c.id, InitOptions{}) // an operator's fence
		m.note("fence %s: %v", c.id, err)
	default:
		m.note("crash")
		m.crash()
	}
}

func (m *model) begin(c *client) {
	o := InitOptions{}
	if c.p != none && m.r.IntN(2) == 0 {
		o.Expected = &c.p
	}
	p, err := m.c.InitProducerID(ctx, c.id, o)
	m.note("init %s %+v: %+v, %v", c.id, c.p, p, err)
	if err == nil {
		c.p, c.sequences, c.ended = p, map[topic.Partition]int32{}, true
	}
}

func (m *model) sendTo(c *client, tp topic.Partition) {
	if c.p == none {
		return
	}
	if c.ended {
		c.current, c.ended = &transaction{values: map[topic.Partition][]string{}}, false
		m.all = append(m.all, c.current)
	}
	m.serial++
	value := fmt.Sprint(c.id, "#", m.serial)
	err := m.sendValue(c, tp, value)
	m.note("send %s %+v %s to %s: %v", c.id, c.p, value, tp, err)
	if err == nil {
		c.current.values[tp] = append(c.current.values[tp], value)
	}
}

func (m *model) sendValue(c *client, tp topic.Partition, value string) error {
	l, err := m.Partition(tp)
	if err != nil {
		return err
	}
	sequence := c.sequences[tp]
	if !c.tv2 {
		if err := m.c.AddPartitions(ctx, c.id, c.p, []topic.Partition{tp}); err != nil {
			return err
		}
	}
	g, needed, err := l.Guard(c.p, sequence, c.tv2)
	if err == nil && needed && g != 0 {
		if c.tv2 {
			err = m.c.Enlist(ctx, c.id, c.p, []topic.Partition{tp})
		} else {
			err = m.c.Verify(ctx, c.id, c.p, []topic.Partition{tp})
		}
	}
	if err != nil {
		return err
	}
	if m.r.IntN(20) == 0 {
		m.sleep(61 * time.Second) // between what the coordinator said and the append
	}
	var w batch.Builder
	w.Reset(nil, batch.BuilderOptions{Producer: c.p, BaseSequence: sequence, Transactional: true})
	w.Add(m.o.Now().UnixMilli(), nil, []byte(value))
	raw, err := w.Finish()
	if err == nil {
		_, err = l.Append(ctx, raw, log.AppendOptions{Guard: g})
	}
	if err == nil {
		c.sequences[tp] = sequence + 1
	}
	return err
}

// finishOne asks for the end of the client's transaction.
func (m *model) finishOne(c *client, commit bool) {
	if c.p == none || c.ended {
		return
	}
	next, err := m.c.End(ctx, c.id, c.p, EndOptions{Commit: commit, TV2: c.tv2, Async: true})
	m.note("end %s %+v %t: %+v, %v", c.id, c.p, commit, next, err)
	how := map[bool]string{true: "commit", false: "abort"}[commit]
	switch {
	case err == nil:
		if c.current.end = how; c.tv2 && next != c.p {
			c.sequences = map[topic.Partition]int32{}
		}
		c.p, c.ended = next, true
	case errors.Is(err, ErrConcurrent):
	case ClassOf(err) == ClassFatal: // fenced, timed out, or nothing was begun
		c.ended, c.p = true, none
	default:
		m.t.Errorf("end of %s: %v", c.id, err)
	}
}

// endAgain sends an end that is long over once more: it is answered alike, or
// refused, and changes nothing; with the epoch that stays that cannot be told.
func (m *model) endAgain(c *client) {
	if !c.tv2 || c.p.Epoch < 1 {
		return
	}
	old := batch.Producer{ID: c.p.ID, Epoch: c.p.Epoch - 1}
	_, err := m.c.End(ctx, c.id, old, EndOptions{Commit: m.r.IntN(2) == 0, TV2: true, Async: true})
	m.note("end again %s %+v: %v", c.id, old, err)
}

// finish lets everything come to rest, and judges.
func (m *model) finish() {
	clear(m.broken)
	for range 5 {
		m.sleep(16 * time.Minute)
	}
	m.wantStable()
	for _, d := range m.c.List(Filter{}) {
		if !d.State.expirable() {
			m.t.Errorf("%s is left %s", d.TransactionalID, d.State)
		}
	}
	visible := map[string]topic.Partition{}
	for i := range int32(4) {
		for _, v := range m.visible(part("t", i)) {
			if _, twice := visible[v]; twice {
				m.t.Errorf("%s is there twice", v)
			}
			visible[v] = part("t", i)
		}
	}
	for _, txn := range m.all {
		m.judge(txn, visible)
	}
	for v := range visible {
		m.t.Errorf("%s is visible, and nobody was told that it was taken", v)
	}
	m.judgeLog()
	m.judgeMarkers()
}

// judge finds all of a transaction or nothing, and takes it out of what is visible.
func (m *model) judge(txn *transaction, visible map[string]topic.Partition) {
	var seen, all []string
	for _, tp := range slices.SortedFunc(maps.Keys(txn.values), topic.Partition.Compare) {
		for _, v := range txn.values[tp] {
			all = append(all, v)
			if visible[v] == tp {
				seen = append(seen, v)
				delete(visible, v)
			}
		}
	}
	switch {
	case len(seen) > 0 && len(seen) < len(all):
		m.t.Errorf("torn: of %v there are %v", all, seen)
	case txn.end == "commit" && len(seen) < len(all):
		m.t.Errorf("lost: %v was committed", all)
	case txn.end != "commit" && len(seen) > 0:
		m.t.Errorf("%v is visible, its end was answered with %q", seen, txn.end)
	}
}

// judgeLog looks for two decisions on one identity whose epoch rises.
func (m *model) judgeLog() {
	s := script{bed: m.bed}
	decided := map[batch.Producer]State{}
	s.batches(m.t, m.logs[stateLog], 0, func(b batch.Batch) {
		var records batch.Records
		defer records.Close()
		for records.Reset(b); records.Next(); {
			r := records.Record()
			if r.Value == nil {
				continue
			}
			v := must(ReadValue(r.Value))
			if !v.State.prepared() || v.ClientVersion != 2 {
				continue
			}
			if was, there := decided[v.Producer]; there {
				m.t.Errorf("%+v is decided twice: %s and %s", v.Producer, was, v.State)
			}
			decided[v.Producer] = v.State
		}
	})
}

// judgeMarkers looks for epochs that go back: data that came behind the marker that
// ended it.
func (m *model) judgeMarkers() {
	s := script{bed: m.bed}
	for i := range int32(4) {
		epochs := map[int64]int16{}
		s.batches(m.t, m.logs[part("t", i)], 0, func(b batch.Batch) {
			if p := b.Producer(); p.Epoch < epochs[p.ID] {
				m.t.Errorf("t-%d: offset %d of %+v comes after epoch %d", i, b.BaseOffset(), p, epochs[p.ID])
			} else {
				epochs[p.ID] = p.Epoch
			}
		})
	}
}
