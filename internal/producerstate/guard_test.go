package producerstate

import (
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// TestGuardsAreUniqueOverTables: after a truncation the partition has a new
// table, in which a guard of the old one does not hold.
func TestGuardsAreUniqueOverTables(t *testing.T) {
	seen := make(map[Guard]bool)
	before := Guard(0)
	for range 10 {
		table := New(Options{})
		for id := range int64(10) {
			g, needed := table.Verify(batch.Producer{ID: id}, 0, false, 0)
			if !needed || g <= before || seen[g] {
				t.Fatalf("guard %d after %d", g, before)
			}
			seen[g], before = true, g
		}
	}
	old, rebuilt := New(Options{}), New(Options{})
	p := batch.Producer{ID: 1}
	g, _ := old.Verify(p, 0, false, 0)
	rebuilt.Verify(p, 0, false, 0)
	if _, err := rebuilt.Check(Request{Header: dataBatch(0, p, 0, 1, true), Guard: g}); err == nil {
		t.Error("a guard of another table holds")
	}
}

func TestGuardIsReused(t *testing.T) {
	table := New(Options{})
	p := batch.Producer{ID: 1, Epoch: 3}
	first, _ := table.Verify(p, 4, false, 0)
	for _, again := range []batch.Producer{p, {ID: 1, Epoch: 4}, {ID: 1, Epoch: 2}} {
		if g, needed := table.Verify(again, 4, false, 0); g != first || !needed {
			t.Errorf("epoch %d: guard %d, want %d", again.Epoch, g, first)
		}
	}
}

func TestVerificationsAreBounded(t *testing.T) {
	table := New(Options{})
	var first, last Guard
	for id := range int64(verificationsMax + 1) {
		g, _ := table.Verify(batch.Producer{ID: id}, 0, false, id)
		if id == 1 {
			first = g
		}
		last = g
	}
	if n := table.guards.all.n; n != verificationsMax {
		t.Fatalf("%d verifications", n)
	}
	for id, want := range map[int64]bool{0: false, 1: true, verificationsMax: true} {
		guard := first
		if id == verificationsMax {
			guard = last
		}
		if got := table.guards.holds(id, guard); got != want {
			t.Errorf("producer %d: holds %v", id, got)
		}
	}
	// By age, and only by age.
	if n := table.guards.expire(verificationsMax+1000, verificationsMax+999-10, 1<<30); n != 11 {
		t.Errorf("%d expired", n)
	}
	for id := int64(verificationsMax); id > 12; id-- {
		table.guards.remove(id)
	}
	if n := table.guards.all.n; n != 1 || table.guards.oldest != 1 || table.guards.newest != 1 {
		t.Errorf("%d left, from %d to %d", n, table.guards.oldest, table.guards.newest)
	}
}
