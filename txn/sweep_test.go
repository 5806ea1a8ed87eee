package txn

import (
	"errors"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// What the transaction log lost of a transaction that other logs kept: power was
// lost, and some of them are kept in the page cache.

// smuggle writes to a partition behind the coordinator's back.
func (b *bed) smuggle(p batch.Producer, tp topic.Partition, sequence int32) {
	b.t.Helper()
	l := b.logs[tp]
	g, _, err := l.Guard(p, sequence, true)
	if err == nil {
		err = b.write(l, p, sequence, 1, log.AppendOptions{Guard: g})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// An open transaction of which one partition is not listed is aborted as a whole:
// committed, it would be torn.
func TestOrphanOfAnOpenTransaction(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.smuggle(p, part("t", 1), 0)
	b.crash()
	if got, want := b.current("x"), producer(4000, 1); b.state("x") != CompleteAbort || got != want {
		t.Errorf("x is %s with %+v, want it aborted with %+v", b.state("x"), got, want)
	}
	b.wantStable()
	b.wantVisible(part("t", 0))
	b.wantVisible(part("t", 1))
	_, err := b.end("x", p, true)
	b.want(err, ErrInvalidState, "commit")
	next, err := b.end("x", p, false)
	if b.want(err, nil, "abort"); next != producer(4000, 1) {
		t.Errorf("goes on as %+v", next)
	}
	b.mustSend("x", next, part("t", 1), 0, 1)
	b.mustEnd("x", next, true)
	b.wantVisible(part("t", 1), "0")
}

// A transaction that the log does not know, of a producer whose last one was
// committed: the end that its client asks for is not answered like the last one's.
func TestOrphanAfterACommit(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	p = b.mustEnd("x", p, true)
	b.smuggle(p, part("t", 1), 0)
	b.crash()
	b.wantStable()
	b.wantVisible(part("t", 1))
	_, err := b.end("x", p, true)
	b.want(err, ErrProducerFenced, "commit of what was aborted")
	if b.state("x") != Empty || b.current("x") != producer(4000, 2) {
		t.Errorf("x is %s with %+v", b.state("x"), b.current("x"))
	}
}

// The epoch is raised above what any partition knows, or the next producer could
// not write there.
func TestOrphanAndHigherEpochs(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 2), 0, 1)
	p = b.mustEnd("x", p, true)
	higher := producer(p.ID, 9) // bumped by its client alone
	b.smuggle(higher, part("t", 2), 0)
	if _, err := b.logs[part("t", 2)].AppendMarker(ctx, batch.Marker{Producer: higher, Timestamp: at0}, log.MarkerOptions{}); err != nil {
		t.Fatal(err)
	}
	b.smuggle(p, part("t", 1), 0)
	b.crash()
	b.wantStable()
	if got := b.init("x"); got != producer(4000, 11) {
		t.Errorf("the next producer is %+v", got)
	}
	b.mustSend("x", b.current("x"), part("t", 2), 0, 1)
	// And with no epoch above.
	b.mustEnd("x", b.current("x"), true)
	b.smuggle(producer(4000, 32766), part("t", 3), 0)
	b.crash()
	b.wantStable()
	if got := b.current("x"); got.ID == 4000 || got.Epoch != 0 {
		t.Errorf("then it is %+v", got)
	}
}

// An older transaction in a partition that the open one lists is not the open one.
func TestOrphanOfAnOlderEpoch(t *testing.T) {
	b := newBed(t, Options{})
	old := b.init("x")
	b.smuggle(old, part("t", 0), 0)
	p := b.init("x")
	if err := b.c.AddPartitions(ctx, "x", p, []topic.Partition{part("t", 0)}); err != nil {
		t.Fatal(err)
	}
	b.crash()
	b.wantStable()
	if b.state("x") != CompleteAbort {
		t.Errorf("x is %s", b.state("x"))
	}
}

// A decision that cannot be carried out yet keeps what it is.
func TestOrphanBesideADecision(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.broken[part("t", 0)] = errors.New("not now")
	if _, err := b.c.End(ctx, "x", p, EndOptions{Commit: true, TV2: true, Async: true}); err != nil {
		t.Fatal(err)
	}
	b.smuggle(p, part("t", 1), 0)
	b.c.Close()
	b.open() // the partition still does not serve
	if b.state("x") != PrepareCommit {
		t.Errorf("x is %s", b.state("x"))
	}
	b.wantVisible(part("t", 1))
	delete(b.broken, part("t", 0))
	b.c.Work(ctx)
	b.wantVisible(part("t", 0), "0")
	b.wantStable()
	b.mustSend("x", producer(4000, 1), part("t", 1), 0, 1)
}

// Transactions with a partition that may have lost something are aborted when the
// log is opened, and only those.
func TestTorn(t *testing.T) {
	b := newBed(t, Options{})
	x, y, z := b.init("x"), b.init("y"), b.init("z")
	b.mustSend("x", x, part("t", 0), 0, 1)
	b.mustSend("x", x, part("t", 1), 0, 1)
	b.mustSend("y", y, part("t", 0), 0, 1)
	b.mustSend("z", z, part("t", 1), 0, 1)
	b.mustEnd("z", z, true)
	b.o.Torn = func(tp topic.Partition) bool { return tp == part("t", 1) }
	b.crash()
	for id, want := range map[string]State{"x": CompleteAbort, "y": Ongoing, "z": CompleteCommit} {
		if b.state(id) != want {
			t.Errorf("%s is %s, want %s", id, b.state(id), want)
		}
	}
	if got := b.events(EventTorn); len(got) != 1 || got[0].TransactionalID != "x" {
		t.Errorf("told of %+v", got)
	}
	_, err := b.end("x", x, true)
	b.want(err, ErrInvalidState, "commit")
}
