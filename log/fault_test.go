package log

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// faults are the ways in which the n-th operation fails.
var faults = []struct {
	name   string
	stride int
	plan   func(n int, r *rand.Rand) faultfs.Plan
}{
	{"EIO", 1, func(n int, _ *rand.Rand) faultfs.Plan { return faultfs.FailNth(n, syscall.EIO) }},
	{"ENOSPC", 2, func(n int, _ *rand.Rand) faultfs.Plan { return faultfs.FailNth(n, syscall.ENOSPC) }},
	{"short write", 1, func(n int, _ *rand.Rand) faultfs.Plan { return faultfs.ShortWriteNth(n) }},
	{"torn write", 1, faultfs.TornWriteNth},
	{"lost sync", 1, func(n int, r *rand.Rand) faultfs.Plan {
		return faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Sync}, N: n, Effect: faultfs.Lose, Rand: r}}}
	}},
	{"disk gone", 5, func(n int, _ *rand.Rand) faultfs.Plan { return faultfs.FailFrom(n, syscall.EIO) }},
}

// TestFaults runs every way of writing with the n-th file operation failing, n
// = 0, 1, 2 … until nothing fails. Whatever fails tells so with an error that
// has a type; what readers saw stays readable; and what was acknowledged is
// there after the end of the process, and after a power loss.
func TestFaults(t *testing.T) {
	for _, s := range scenarios {
		for _, fault := range faults {
			t.Run(s.name+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				n := 0
				defer func() {
					if t.Failed() {
						t.Logf("operation %d failed, seed %d", n, n)
					}
				}()
				for ; ; n += fault.stride * stride(n) {
					r := rand.New(rand.NewPCG(uint64(n), 7))
					m := s.machine(t)
					m.fs.SetPlan(fault.plan(n, r))
					err := s.run(m)
					fired := m.fs.Fired()
					m.fs.SetPlan(faultfs.Plan{})
					if !fired {
						m.ok(err)
						break
					}
					m.failed(err)
					m.survives(r)
					if t.Failed() {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// stride is the step from one operation to the next in tests that fail and
// crash them: under the race detector, which makes all of this slow and finds
// nothing in it, some are left out.
func stride(n int) int {
	if raced {
		return 11 + n%7
	}
	return 1
}

// failed checks a log after a failure, while the process lives on.
func (m *machine) failed(err error) {
	t := m.t
	t.Helper()
	path := (*fs.PathError)(nil)
	if err != nil && !errors.As(err, &path) && !errors.Is(err, ErrLatched) && !errors.Is(err, ErrNoSpace) {
		t.Errorf("error without a type: %v", err)
	}
	if m.l == nil || m.l.closed.Load() {
		return
	}
	m.readable(m.l.Frontiers())
	if latched := m.l.Failed(); latched != nil {
		if !errors.Is(latched, ErrLatched) {
			t.Errorf("latched with %v", latched)
		}
		before := m.l.Frontiers()
		if _, err := m.l.Append(t.Context(), plain(1, "late"), AppendOptions{}); !errors.Is(err, ErrLatched) {
			t.Errorf("append to a latched log: %v", err)
		}
		if after := m.l.Frontiers(); after != before {
			t.Errorf("frontiers of a latched log move from %+v to %+v", before, after)
		}
		return
	}
	// Not latched: nothing is in doubt, and all goes on.
	m.follow(true)
	m.compare()
	if m.o.Replicated {
		m.ok(m.replicate(5))
	} else {
		m.ok(m.appendMany(5))
	}
	m.ok(m.checkpoint())
	m.compare()
}

// survives ends the process, and the power, in what state the files are.
func (m *machine) survives(r *rand.Rand) {
	t := m.t
	t.Helper()
	if m.l != nil {
		_ = m.l.Abandon()
	}
	killed := m.mem.KillClone()
	for i, mem := range []*vfs.Mem{killed,
		m.mem.CrashClone(vfs.CrashOptions{}),
		m.mem.CrashClone(vfs.CrashOptions{Rand: r, KeepUnsynced: 0.5, Tear: true}),
	} {
		n := m.on(mem)
		if err := n.open(); err != nil {
			t.Errorf("clone %d: open: %v", i, err)
			continue
		}
		n.follow(i == 0)
		n.compare()
		if r.IntN(3) == 0 {
			n.sound(false)
		}
		if i == 0 {
			// What recovery published survives a power loss, whatever the
			// page cache showed.
			p := n.on(n.mem.CrashClone(vfs.CrashOptions{}))
			n.ok(p.open())
			p.follow(false)
			p.compare()
			n.ok(p.l.Abandon())
		}
		if r.IntN(5) == 0 {
			n.goOn()
		}
		if t.Failed() {
			t.Errorf("clone %d", i)
		}
	}
}
