package log

import (
	"errors"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
)

// TestEpochCache follows Kafka's rules for assigning and truncating epochs.
func TestEpochCache(t *testing.T) {
	type pairs [][2]int64 // epoch and start
	entries := func(p pairs) (all []checkpoint.EpochEntry) {
		for _, e := range p {
			all = append(all, checkpoint.EpochEntry{Epoch: int32(e[0]), Start: e[1]})
		}
		return all
	}
	for _, c := range []struct {
		name   string
		before pairs
		do     func(*epochCache)
		want   pairs
	}{
		{"first", nil, func(c *epochCache) { c.assign(0, 0) }, pairs{{0, 0}}},
		{"same epoch later: nothing", pairs{{2, 10}}, func(c *epochCache) { c.assign(2, 20) }, pairs{{2, 10}}},
		{"same epoch earlier", pairs{{1, 0}, {2, 10}}, func(c *epochCache) { c.assign(2, 5) }, pairs{{1, 0}, {2, 5}}},
		{"higher", pairs{{1, 0}}, func(c *epochCache) { c.assign(4, 10) }, pairs{{1, 0}, {4, 10}}},
		{"higher at the same offset replaces", pairs{{1, 0}, {2, 10}}, func(c *epochCache) { c.assign(4, 10) }, pairs{{1, 0}, {4, 10}}},
		{"lower replaces the tail", pairs{{1, 0}, {3, 10}, {5, 20}}, func(c *epochCache) { c.assign(2, 30) }, pairs{{1, 0}, {2, 30}}},
		{"earlier replaces the tail", pairs{{1, 0}, {3, 10}, {5, 20}}, func(c *epochCache) { c.assign(6, 7) }, pairs{{1, 0}, {6, 7}}},
		{"negative: nothing", pairs{{1, 0}}, func(c *epochCache) { c.assign(-1, 7); c.assign(3, -1) }, pairs{{1, 0}}},
		{"end inside", pairs{{1, 0}, {3, 10}}, func(c *epochCache) { c.truncateEnd(11) }, pairs{{1, 0}, {3, 10}}},
		{"end at a start", pairs{{1, 0}, {3, 10}}, func(c *epochCache) { c.truncateEnd(10) }, pairs{{1, 0}}},
		{"end at all", pairs{{1, 5}, {3, 10}}, func(c *epochCache) { c.truncateEnd(0) }, nil},
		{"start inside", pairs{{1, 0}, {3, 10}}, func(c *epochCache) { c.truncateStart(4) }, pairs{{1, 4}, {3, 10}}},
		{"start at a start", pairs{{1, 0}, {3, 10}}, func(c *epochCache) { c.truncateStart(10) }, pairs{{3, 10}}},
		{"start behind all", pairs{{1, 0}, {3, 10}}, func(c *epochCache) { c.truncateStart(50) }, pairs{{3, 50}}},
		{"start before all", pairs{{1, 5}}, func(c *epochCache) { c.truncateStart(2) }, pairs{{1, 5}}},
	} {
		x := &epochCache{entries: entries(c.before)}
		kept := x.entries
		c.do(x)
		if !slices.Equal(x.entries, entries(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, x.entries, c.want)
		}
		if !slices.Equal(kept, entries(c.before)) {
			t.Errorf("%s: a slice that was handed out changed", c.name)
		}
	}
}

// TestEpochEnd follows Kafka's table for the end offset of an epoch.
func TestEpochEnd(t *testing.T) {
	m := newMachine(t, small)
	if got := m.l.EpochEnd(0); got != (EpochEnd{Epoch: -1, EndOffset: -1}) {
		t.Errorf("of an empty log: %v", got)
	}
	m.epoch = 2
	m.ok(m.replicate(5))
	first := m.end()
	m.epoch = 5
	m.ok(m.replicate(5))
	second := m.end()
	m.ok(m.beginEpoch(9))
	m.ok(m.replicate(5))
	for _, c := range []struct {
		epoch int32
		want  EpochEnd
	}{
		{-1, EpochEnd{Epoch: -1, EndOffset: -1}}, {10, EpochEnd{Epoch: -1, EndOffset: -1}}, {9, EpochEnd{9, m.end()}},
		{0, EpochEnd{0, 0}}, {2, EpochEnd{2, first}}, {3, EpochEnd{2, first}}, {4, EpochEnd{2, first}},
		{5, EpochEnd{5, second}}, {8, EpochEnd{5, second}},
	} {
		if got := m.l.EpochEnd(c.epoch); got != c.want {
			t.Errorf("end of epoch %d: %v, want %v", c.epoch, got, c.want)
		}
	}
}

// TestBeginEpoch: an epoch that began is not forgotten, not by a crash either,
// and fences those before it.
func TestBeginEpoch(t *testing.T) {
	for _, how := range []string{"close", "kill", "power"} {
		m := newMachine(t, withOS(small))
		m.ok(m.appendMany(7))
		m.ok(m.beginEpoch(4))
		n := m.end()
		m.ok(m.beginEpoch(4))
		if err := m.l.BeginEpoch(3); !errors.Is(err, ErrStaleLeaderEpoch) {
			t.Errorf("an older epoch: %v", err)
		}
		if err := m.l.BeginEpoch(-1); !errors.Is(err, ErrStaleLeaderEpoch) {
			t.Errorf("epoch -1: %v", err)
		}
		switch how {
		case "close":
			m.ok(m.close())
		case "power":
			m.mem = m.on(m.mem.CrashClone(vfsNone)).mem
			m.l = nil
		}
		m.kill()
		m.ok(m.open())
		m.compare()
		want := []checkpoint.EpochEntry{{Epoch: 0, Start: 0}, {Epoch: 4, Start: n}}
		if got := m.l.Epochs(); !slices.Equal(got, want) {
			t.Errorf("%s: epochs %v, want %v", how, got, want)
		}
		b, _ := m.build()
		b.Stamp(m.end(), 3)
		if _, err := m.l.AppendReplica(t.Context(), b, ReplicaOptions{}); !errors.Is(err, ErrStaleLeaderEpoch) {
			t.Errorf("%s: a batch of an older leader: %v", how, err)
		}
		m.ok(m.appendMany(3))
		if got := m.l.EpochFor(m.end() - 1); got != 4 {
			t.Errorf("%s: the next batch is of epoch %d", how, got)
		}
		m.ok(m.l.Abandon())
	}
}

// TestEpochsFromLog: without its file, or with an empty or damaged one, the
// epochs are those of the batches.
func TestEpochsFromLog(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, content := range [][]byte{nil, {}, []byte("0\n9\n0 0\n"), []byte("garbage")} {
			m := newMachine(t, small)
			m.ok(m.appendMany(9))
			m.ok(m.beginEpoch(6))
			m.ok(m.appendMany(30))
			m.ok(m.checkpoint())
			m.ok(m.appendMany(2))
			want := slices.Clone(m.l.Epochs())
			if clean {
				m.ok(m.close())
			}
			m.kill()
			if content == nil {
				m.remove(EpochsName)
			} else {
				m.write(EpochsName, content)
			}
			m.ok(m.open())
			if got := m.l.Epochs(); !slices.Equal(got, want) {
				t.Errorf("%q, clean %v: %v, want %v", content, clean, got, want)
			}
			m.compare()
			m.goOn()
		}
	}
}

// TestEpochsBehindTheEnd: entries of the file that lie behind the log end are
// dropped, on disk too, before the log grows past them.
func TestEpochsBehindTheEnd(t *testing.T) {
	for _, clean := range []bool{true, false} {
		m := newMachine(t, small)
		m.ok(m.appendMany(9))
		end := m.end()
		m.ok(m.close())
		if !clean {
			m.ok(m.mem.Remove("/clean"))
		}
		m.kill()
		m.write(EpochsName, checkpoint.AppendEpochs(nil, []checkpoint.EpochEntry{{Epoch: 0, Start: 0}, {Epoch: 8, Start: end + 3}}))
		m.ok(m.open())
		m.ok(m.appendMany(20))
		m.kill()
		m.ok(m.open())
		m.compare()
		if got := m.l.Epochs(); len(got) != 1 {
			t.Errorf("clean %v: epochs %v", clean, got)
		}
		m.ok(m.l.Abandon())
	}
}
