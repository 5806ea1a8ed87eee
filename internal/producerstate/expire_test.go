package producerstate

import (
	"testing"

	"github.com/oncelog/oncelog/batch"
)

func TestExpireSomeIsBounded(t *testing.T) {
	p := newPartition()
	for id := range int64(100) {
		p.data(batch.Producer{ID: id}, 0, 1, id >= 90) // ten stay open
	}
	for id := int64(80); id < 90; id++ { // ten have ended a transaction
		p.marker(batch.Producer{ID: id}, true, 0)
	}
	for i, want := range []int{30, 30, 30, 0} {
		if got := p.table.ExpireSome(p.clock+1000, 1000, 30); got != want {
			t.Errorf("step %d: %d expired, want %d", i, got, want)
		}
		mustAudit(t, p.table)
	}
	if p.table.Len() != 10 {
		t.Errorf("%d producers left, want those with an open transaction", p.table.Len())
	}
}

// TestClockThatWasWrong: what was seen in the future is seen now once that
// shows, a bounded number in a step, and holds nobody else up for ever.
func TestClockThatWasWrong(t *testing.T) {
	p := newPartition()
	now := p.clock
	p.clock += 1 << 40
	for id := range int64(100) {
		p.data(batch.Producer{ID: id}, 0, 1, false)
	}
	p.clock = now
	for id := int64(100); id < 200; id++ {
		p.data(batch.Producer{ID: id}, 0, 1, false)
	}
	if gone := p.table.ExpireSome(now+500, 1000, 60); gone != 0 {
		t.Fatalf("%d expired early", gone)
	}
	if gone := p.table.ExpireSome(now+500, 1000, 60); gone != 0 {
		t.Fatalf("%d expired early", gone)
	}
	if gone := p.table.Expire(now+1000, 1000); gone != 100 {
		t.Errorf("%d expired, want the 100 of the right clock", gone)
	}
	if gone := p.table.Expire(now+1500, 1000); gone != 100 {
		t.Errorf("%d expired, want the 100 of the wrong clock", gone)
	}
	mustAudit(t, p.table)
}
