package log

import (
	"bytes"
	"os"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// scenario is one way of writing, which is failed and crashed at every file
// operation.
type scenario struct {
	name       string
	config     Config
	replicated bool
	before     func(*testing.T, *machine) // with nothing failing
	run        func(*machine) error
}

var small = Config{SegmentBytes: 1400, IndexIntervalBytes: 200}

func withOS(c Config) Config {
	c.Durability = DurabilityOS
	return c
}

func grown(n int) func(*testing.T, *machine) {
	return func(t *testing.T, m *machine) {
		m.ok(m.appendMany(n))
		m.ok(m.maintain())
	}
}

// maintain does what the workers do in the background. A log that is latched
// meanwhile has told its caller.
func (m *machine) maintain() error { return m.l.maintain() }

var scenarios = []scenario{
	{name: "append", config: Config{SegmentBytes: 1 << 20}, before: grown(3), run: func(m *machine) error { return m.appendMany(3) }},
	{name: "roll", config: small, before: grown(20), run: func(m *machine) error {
		if err := m.appendMany(9); err != nil {
			return err
		}
		return m.maintain()
	}},
	{name: "roll twice unsealed", config: small, before: grown(4), run: func(m *machine) error { return m.appendMany(22) }},
	{name: "roll at level os", config: withOS(small), before: grown(20), run: func(m *machine) error {
		if err := m.appendMany(12); err != nil {
			return err
		}
		return m.maintain()
	}},
	{name: "checkpoint", config: withOS(small), before: grown(30), run: func(m *machine) error {
		if err := m.append(); err != nil {
			return err
		}
		return m.checkpoint()
	}},
	{name: "replica", config: small, before: func(t *testing.T, m *machine) { m.ok(m.replicate(14)) }, run: func(m *machine) error {
		return m.replicate(6)
	}},
	{name: "delete records", config: small, before: func(t *testing.T, m *machine) {
		m.ok(m.appendMany(40))
		m.ok(m.checkpoint())
	}, run: func(m *machine) error {
		if err := m.deleteRecords(m.batches[3].BaseOffset() + 1); err != nil {
			return err
		}
		if err := m.deleteRecords(m.batches[25].BaseOffset()); err != nil {
			return err
		}
		return m.append()
	}},
	{name: "delete all", config: small, before: grown(33), run: func(m *machine) error {
		if err := m.deleteRecords(m.end()); err != nil {
			return err
		}
		return m.append()
	}},
	{name: "retention", config: Config{SegmentBytes: 1400, IndexIntervalBytes: 200, Delete: true, RetentionBytes: 2000}, before: grown(40), run: func(m *machine) error {
		m.start[1] = m.end()
		_, err := m.l.Retain(m.t.Context())
		if err == nil {
			m.start[0] = m.l.Frontiers().LogStart
		}
		return err
	}},
	{name: "retention of all", config: Config{SegmentBytes: 1400, IndexIntervalBytes: 200, Delete: true, RetentionAge: 1}, before: grown(33), run: func(m *machine) error {
		m.start[1] = m.end()
		_, err := m.l.Retain(m.t.Context())
		if err == nil {
			m.start[0] = m.end()
			err = m.append()
		}
		return err
	}},
	{name: "truncate", config: small, replicated: true, before: func(t *testing.T, m *machine) {
		m.ok(m.replicate(40))
		m.l.AdvanceHighWatermark(m.batches[10].NextOffset())
		m.ok(m.checkpoint())
	}, run: func(m *machine) error {
		if err := m.truncate(31); err != nil {
			return err
		}
		if err := m.truncate(13); err != nil {
			return err
		}
		return m.replicate(3)
	}},
	{name: "truncate after retention", config: small, replicated: true, before: func(t *testing.T, m *machine) {
		m.ok(m.replicate(40))
		m.l.AdvanceHighWatermark(m.batches[20].NextOffset())
		m.ok(m.deleteRecords(m.batches[18].BaseOffset()))
	}, run: func(m *machine) error {
		if err := m.truncate(22); err != nil {
			return err
		}
		return m.replicate(20)
	}},
	{name: "begin an epoch", config: withOS(small), before: grown(20), run: func(m *machine) error {
		if err := m.beginEpoch(5); err != nil {
			return err
		}
		if err := m.append(); err != nil {
			return err
		}
		return m.beginEpoch(6)
	}},
	{name: "close", config: small, before: grown(25), run: func(m *machine) error {
		if err := m.appendMany(7); err != nil {
			return err
		}
		return m.close()
	}},
	{name: "open a closed log", config: small, before: func(t *testing.T, m *machine) {
		m.ok(m.appendMany(25))
		m.ok(m.close())
	}, run: func(m *machine) error {
		if err := m.open(); err != nil {
			return err
		}
		return m.appendMany(3)
	}},
	{name: "recover", config: small, before: func(t *testing.T, m *machine) { m.killed(t, 12, 29, false) }, run: func(m *machine) error {
		if err := m.open(); err != nil {
			return err
		}
		return m.appendMany(2)
	}},
	{name: "recover a torn tail", config: small, before: func(t *testing.T, m *machine) { m.killed(t, 12, 29, true) }, run: func(m *machine) error {
		if err := m.open(); err != nil {
			return err
		}
		m.follow(true)
		return m.appendMany(2)
	}},
}

// beginEpoch starts a leader epoch, for the log and the model.
func (m *machine) beginEpoch(epoch int32) error {
	err := m.l.BeginEpoch(epoch)
	if err == nil {
		m.epoch = epoch
		m.must, m.mustKill = len(m.batches), len(m.batches)
	}
	return err
}

// replicate appends n more batches of the history through the replica's door,
// in one piece each three.
func (m *machine) replicate(n int) error {
	for n > 0 {
		var raw []byte
		for range min(n, 3) {
			b, _ := m.build()
			b.Stamp(m.end(), m.epoch)
			m.batches = append(m.batches, b)
			raw = append(raw, b...)
			n--
		}
		if _, err := m.l.AppendReplica(m.t.Context(), raw, ReplicaOptions{}); err != nil {
			return err
		}
		m.must, m.mustKill = len(m.batches), len(m.batches)
	}
	return m.l.maintain()
}

// killed leaves a log that was killed: so many batches below its recovery
// point, so many above it, in segments that were not all sealed.
func (m *machine) killed(t *testing.T, below, above int, torn bool) {
	m.ok(m.appendMany(below))
	m.ok(m.checkpoint())
	m.ok(m.appendMany(above - 10))
	m.ok(m.maintain())
	m.ok(m.appendMany(10))
	path := m.l.active.Path(0)
	if torn {
		// The last batch is damaged, as if it had not been acknowledged.
		at := m.l.active.Size() - 7
		f, err := m.mem.OpenFile(path, os.O_RDWR, 0)
		m.ok(err)
		_, err = f.WriteAt([]byte("damage"), at)
		m.ok(err)
		m.ok(f.Sync())
		m.ok(f.Close())
		m.must--
		m.mustKill--
	}
	m.ok(m.l.Abandon())
	n := m.on(m.mem.KillClone())
	m.mem, m.fs = n.mem, n.fs
	m.wire()
}

func (s *scenario) machine(t *testing.T) *machine {
	m := newMachine(t, s.config)
	if s.replicated {
		m.ok(m.close())
		m.o.Replicated = true
		m.ok(m.open())
	}
	s.before(t, m)
	return m
}

// TestScenarios runs each with nothing failing, so that a failure of the tests
// that fail and crash them means what it says.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			m := s.machine(t)
			if err := s.run(m); err != nil {
				t.Fatal(err)
			}
			if m.l.closed.Load() {
				m.ok(m.open())
			}
			m.compare()
			m.sound(false)
			m.goOn()
		})
	}
}

// goOn appends to a log that is known, lets a producer repeat its last batch,
// closes it and comes back twice.
func (m *machine) goOn() {
	m.t.Helper()
	if m.o.Replicated {
		m.ok(m.replicate(11))
	} else {
		m.ok(m.appendMany(11))
		m.repeat()
	}
	for range 2 {
		m.ok(m.close())
		m.sound(true)
		m.ok(m.open())
		m.compare()
	}
	if !m.o.Replicated {
		m.repeat()
	}
	m.ok(m.l.Abandon())
}

// repeat sends the last batch of every idempotent producer again.
func (m *machine) repeat() {
	m.t.Helper()
	done := map[int64]bool{}
	for i := len(m.batches) - 1; i >= 0; i-- {
		b := m.batches[i]
		if b.ProducerID() < 0 || b.IsControl() || done[b.ProducerID()] {
			continue
		}
		done[b.ProducerID()] = true
		sent := batch.Batch(bytes.Clone(b))
		sent.Stamp(0, batch.None)
		a, err := m.l.Append(m.t.Context(), sent, AppendOptions{})
		if err != nil || !a.Duplicate || a.BaseOffset != b.BaseOffset() || a.LastOffset != b.LastOffset() {
			m.t.Errorf("repeated batch at %d of producer %d: %+v, %v", b.BaseOffset(), b.ProducerID(), a, err)
		}
	}
}
