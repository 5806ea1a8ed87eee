package log

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

var errDead = errors.New("the process is dead")

// dies lets everything fail from operation n on. A write at which it dies is
// done in part.
func dies(n int, r *rand.Rand) faultfs.Plan {
	return faultfs.Plan{
		Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Write}, Effect: faultfs.Torn, Err: errDead, Rand: r, Forever: true,
			Match: func(op faultfs.Op) bool { return op.N == n }}},
		Hook: func(op faultfs.Op) error {
			if op.N > n || op.N == n && op.Kind != faultfs.Write {
				return errDead
			}
			return nil
		},
	}
}

// left is a file system that a crash leaves, and whether by the end of the
// process alone.
type left struct {
	mem  *vfs.Mem
	kill bool
}

// leaves gives what the end of the process leaves, what a power loss leaves at
// least, and some of what lies between.
func leaves(mem *vfs.Mem, r *rand.Rand, between int) []left {
	all := []left{{mem.KillClone(), true}, {mem.CrashClone(vfs.CrashOptions{}), false}}
	for range between {
		all = append(all, left{mem.CrashClone(vfs.CrashOptions{Rand: r, KeepUnsynced: 0.2 + 0.6*r.Float64(), Tear: r.IntN(2) == 0}), false})
	}
	return all
}

// TestCrashes runs every way of writing and ends it at file operation 0, 1, 2 …
// by the end of the process and by power losses. What comes up holds what was
// acknowledged, nothing that was truncated or deleted, and state that is that
// of its batches. Every few times the recovery itself is ended in the same way.
func TestCrashes(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			defer func() {
				if t.Failed() {
					t.Logf("ended at operation %d, seed %d", n, n)
				}
			}()
			for ; ; n += stride(n) {
				r := rand.New(rand.NewPCG(uint64(n), 8))
				m := s.machine(t)
				m.fs.SetPlan(dies(n, r))
				err := s.run(m)
				if !m.fs.Fired() {
					m.ok(err)
					break
				}
				if !errors.Is(err, errDead) {
					t.Errorf("%v, want that the process died", err)
				}
				for i, l := range leaves(m.mem, r, 1) {
					m.comesUp(l, r, n%30 == 10*i)
					if t.Failed() {
						t.Fatalf("what crash %d leaves", i)
					}
				}
			}
		})
	}
}

// comesUp opens what a crash left and looks at all of it; with again, it first
// ends that opening at every file operation.
func (m *machine) comesUp(l left, r *rand.Rand, again bool) {
	m.t.Helper()
	for n := r.IntN(4); again; n += 1 + r.IntN(16) {
		p := m.on(l.mem.KillClone())
		p.fs.SetPlan(dies(n, r))
		err := p.open()
		if !p.fs.Fired() {
			p.ok(err)
			break
		}
		if err == nil {
			m.t.Error("opened by a dead process")
		}
		for _, second := range leaves(p.mem, r, 1) {
			q := m.on(second.mem)
			if err := q.open(); err != nil {
				m.t.Errorf("recovery ended at operation %d: %v", n, err)
				return
			}
			q.follow(l.kill && second.kill)
			q.compare()
			q.ok(q.l.Abandon())
		}
		if m.t.Failed() {
			m.t.Errorf("recovery ended at operation %d", n)
			return
		}
	}
	n := m.on(l.mem)
	if err := n.open(); err != nil {
		m.t.Error(err)
		return
	}
	n.follow(l.kill)
	n.compare()
	if r.IntN(2) == 0 {
		n.sound(false)
	}
	if r.IntN(4) == 0 {
		n.goOn()
	} else {
		n.ok(n.l.Abandon())
	}
}
