package log

import (
	"math/rand/v2"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// TestAppendsBetween appends, and rolls by it, in the middle of maintenance: at
// file operations of seals, checkpoints, snapshots, deletions and truncations at
// which appends are let in. What a crash leaves then is right all the same: no
// point passes a segment that is not sealed, no snapshot is of another offset.
func TestAppendsBetween(t *testing.T) {
	seeds := uint64(8)
	if raced {
		seeds = 3
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 9))
		c := withOS(small)
		m := newMachine(t, c)
		m.ok(m.appendMany(10))
		inside := false
		m.fs.SetPlan(faultfs.Plan{Hook: func(op faultfs.Op) error {
			const most = 8
			full := m.l.unsealed.Load()+most > sealingMax // they would wait for the work that they come between
			if inside || full || r.IntN(16) > 0 || !m.l.appendMu.TryLock() {
				return nil
			}
			m.l.appendMu.Unlock()
			inside = true
			m.ok(m.appendMany(1 + r.IntN(most)))
			inside = false
			return nil
		}})
		for range 12 {
			switch r.IntN(4) {
			case 0:
				m.ok(m.maintain())
			case 1, 2:
				m.ok(m.checkpoint())
			case 3:
				m.ok(m.deleteRecords(max(m.l.Frontiers().HighWatermark-int64(r.IntN(20)), 0)))
			}
			inside = true
			m.ok(m.appendMany(1))
			m.compare()
			for i, mem := range []*vfs.Mem{m.mem.KillClone(), m.mem.CrashClone(vfs.CrashOptions{}), m.mem.CrashClone(vfs.CrashOptions{Rand: r, KeepUnsynced: 0.5})} {
				n := m.on(mem)
				n.ok(n.open())
				n.follow(i == 0)
				n.compare()
				n.sound(false)
				n.ok(n.l.Abandon())
			}
			inside = false
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}
