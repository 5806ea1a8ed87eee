package txn

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// shorten puts another log in the place of the transaction log, that has only the
// first n batches of it: as it may be after it was opened again.
func (b *bed) shorten(n int) {
	b.t.Helper()
	old := b.logs[stateLog]
	var raw []byte
	f, err := old.Read(0, log.ReadOptions{Replica: true})
	if err != nil {
		b.t.Fatal(err)
	}
	for v := range f.Batches() {
		if n--; n < 0 {
			break
		}
		raw = append(raw, v...)
	}
	f.Close()
	if err := old.Abandon(); err != nil {
		b.t.Fatal(err)
	}
	b.fs = vfs.NewMem()
	b.openLog(stateLog)
	if _, err := b.logs[stateLog].AppendReplica(ctx, raw, log.ReplicaOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// What the transaction log holds after it was opened again counts, not what was
// known before.
func TestLogReopened(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")                       // record 0
	b.mustSend("x", p, part("t", 0), 0, 1) // 1
	next := b.mustEnd("x", p, true)        // 2, 3
	b.init("y")                            // 4
	b.shorten(4)
	if _, err := b.c.Describe(ctx, "y"); !errors.Is(err, ErrUnknownID) {
		t.Errorf("y was lost: %v", err)
	}
	if b.state("x") != CompleteCommit {
		t.Errorf("x is %s", b.state("x"))
	}
	// The record of completion lost: it is completed anew, without second markers.
	b.shorten(3)
	if b.state("x") != CompleteCommit || b.logs[part("t", 0)].Frontiers().LogEnd != 2 {
		t.Errorf("x is %s, t-0 ends at %d", b.state("x"), b.logs[part("t", 0)].Frontiers().LogEnd)
	}
	b.mustSend("x", next, part("t", 0), 0, 1)
	b.mustEnd("x", next, false)
	b.wantStable()
}

// A decision on its way when the log is opened again fails, and nothing comes of
// it: neither here nor in the log that is there now.
func TestLogReopenedUnderWay(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.barrier = func(set []topic.Partition) error {
		b.barrier = nil
		b.shorten(2)
		return nil
	}
	_, err := b.end("x", p, true)
	b.want(err, ErrUnavailable, "end")
	b.want(err, log.ErrClosed, "end")
	if ClassOf(err) != ClassRetriable || b.state("x") != Ongoing {
		t.Errorf("class %s, x is %s", ClassOf(err), b.state("x"))
	}
	if end := b.logs[stateLog].Frontiers().LogEnd; end != 2 {
		t.Errorf("the log ends at %d", end)
	}
	b.mustEnd("x", p, true)
	b.wantVisible(part("t", 0), "0")
}

// One that is being carried out when the log is opened again is said to be
// complete in the log that is there now, once.
func TestLogReopenedWhileCarriedOut(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	calls := 0
	b.barrier = func(set []topic.Partition) error {
		if calls++; calls == 3 { // after the markers
			b.shorten(3)
		}
		return nil
	}
	_, err := b.c.End(ctx, "x", p, EndOptions{Commit: true, TV2: true, Async: true})
	b.want(err, nil, "end")
	b.c.Work(ctx)
	if b.state("x") != CompleteCommit {
		t.Errorf("x is %s", b.state("x"))
	}
	if end := b.logs[stateLog].Frontiers().LogEnd; end != 4 {
		t.Errorf("the transaction log ends at %d", end)
	}
	if end := b.logs[part("t", 0)].Frontiers().LogEnd; end != 2 {
		t.Errorf("t-0 ends at %d", end)
	}
	next, err := b.end("x", p, true)
	if b.want(err, nil, "end again"); next.Epoch != 1 {
		t.Errorf("answered with %+v", next)
	}
}

// A decision whose markers are all there, and whose completion was lost: no marker
// is written again, and what the producer wrote since is not taken for it.
func TestMarkersAreThere(t *testing.T) {
	for _, tv2 := range []bool{false, true} {
		b := newBed(t, Options{})
		p := b.init("x")
		l := b.logs[part("t", 0)]
		if err := b.c.AddPartitions(ctx, "x", p, []topic.Partition{part("t", 0)}); err != nil {
			t.Fatal(err)
		}
		b.smuggle(p, part("t", 0), 0)
		next, err := b.c.End(ctx, "x", p, EndOptions{Commit: true, TV2: tv2})
		if err != nil {
			t.Fatal(err)
		}
		if tv2 {
			b.smuggle(next, part("t", 0), 0)
		}
		b.c.Close()
		b.shorten(3)
		b.open()
		b.wantStable()
		b.wantVisible(part("t", 0), "0")
		if end := l.Frontiers().LogEnd; !tv2 && end != 2 || tv2 && end != 4 {
			t.Errorf("version 2 %t: t-0 ends at %d", tv2, end)
		}
	}
}

// A decision is carried out by one at a time: the second to say that it is complete
// might say it of the next transaction.
func TestCarriedOutOnce(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.barrier = func([]topic.Partition) error {
		b.c.abandon("x", true)
		return nil
	}
	b.mustEnd("x", p, true)
	if end := b.logs[stateLog].Frontiers().LogEnd; end != 4 {
		t.Errorf("the transaction log ends at %d", end)
	}
}

// A write that failed may be in the log or not: nothing is decided before it was
// opened again, and then it says.
func TestWriteFails(t *testing.T) {
	broken := errors.New("I/O error")
	for _, written := range []bool{false, true} {
		b := newBed(t, Options{})
		p := b.init("x")
		b.mustSend("x", p, part("t", 0), 0, 1)
		armed := false
		mem := b.fs
		effect := faultfs.Fail
		if written {
			effect = faultfs.Torn // and all sectors are drawn
		}
		faulty := faultfs.New(mem, faultfs.Plan{Faults: []faultfs.Fault{{
			Kinds: []faultfs.Kind{faultfs.Write}, Match: func(faultfs.Op) bool { return armed }, Effect: effect, Err: broken, Rand: rand.New(ones{}),
		}}})
		b.reopenState(faulty)
		if b.state("x") != Ongoing {
			t.Fatalf("x is %s", b.state("x"))
		}
		armed = true
		_, err := b.end("x", p, true)
		b.want(err, ErrOutcomeUnknown, "end")
		b.want(err, broken, "end")
		_, err = b.end("x", p, true)
		b.want(err, ErrUnavailable, "end before it is open again")
		if errors.Is(err, log.ErrOutcomeUnknown) {
			t.Errorf("it is not known whether it is refused: %v", err)
		}
		_, err = b.c.InitProducerID(ctx, "x", InitOptions{})
		b.want(err, ErrUnavailable, "init before it is open again")
		b.reopenState(mem)
		want := Ongoing
		if written {
			want = CompleteCommit
		}
		if b.state("x") != want {
			t.Errorf("written %t: x is %s", written, b.state("x"))
		}
		if next, err := b.end("x", p, true); err != nil || next.Epoch != 1 {
			t.Errorf("written %t: end answers %+v, %v", written, next, err)
		}
		b.wantVisible(part("t", 0), "0")
		b.wantStable()
	}
}

// ones draws what is greatest.
type ones struct{}

func (ones) Uint64() uint64 { return 1<<64 - 1 }

// reopenState opens the transaction log again, over another file system.
func (b *bed) reopenState(over vfs.FS) {
	b.t.Helper()
	_ = b.logs[stateLog].Abandon()
	l, err := log.Load(log.Options{FS: over, Dir: stateLog.String(), Partition: stateLog, Now: b.o.Now, Config: log.Config{Durability: log.DurabilityOS}})
	if err == nil {
		_, err = l.Recover(context.Background())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.logs[stateLog] = l
	b.t.Cleanup(func() { l.Abandon() })
}

// What has to be safe before a record is published is asked for before, and if it
// is not to be had there is no record.
func TestBarriers(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	var asked [][]topic.Partition
	var ends []int64
	var fail error
	b.barrier = func(set []topic.Partition) error {
		asked = append(asked, slices.Clone(set))
		ends = append(ends, b.logs[stateLog].Frontiers().LogEnd)
		return fail
	}
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.mustSend("x", p, part("t", 1), 0, 1)
	b.mustEnd("x", p, true)
	for i, want := range []struct {
		set []topic.Partition
		end int64 // of the transaction log then
	}{
		{[]topic.Partition{stateLog}, 2},                             // Ongoing, before data of t-0
		{[]topic.Partition{stateLog}, 3},                             // Ongoing, before data of t-1
		{[]topic.Partition{part("t", 0), part("t", 1)}, 3},           // data, before the decision
		{[]topic.Partition{stateLog}, 4},                             // the decision, before markers
		{[]topic.Partition{part("t", 0), part("t", 1), stateLog}, 4}, // markers, before the completion
	} {
		if i >= len(asked) || !slices.Equal(asked[i], want.set) || ends[i] != want.end {
			t.Errorf("barrier %d: of %v at %v, want %v at %d", i, asked, ends, want.set, want.end)
		}
	}
	p = b.current("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	fail = errors.New("no flush")
	before := b.logs[stateLog].Frontiers().LogEnd
	_, err := b.end("x", p, true)
	b.want(err, ErrUnavailable, "commit")
	b.want(err, fail, "commit")
	if end := b.logs[stateLog].Frontiers().LogEnd; end != before || b.state("x") != Ongoing {
		t.Errorf("the transaction log grew from %d to %d, x is %s", before, end, b.state("x"))
	}
	// An addition whose record is not safe is not an addition, the second time too.
	for range 2 {
		b.want(b.c.Enlist(ctx, "x", p, []topic.Partition{part("t", 3)}), ErrUnavailable, "add")
	}
	fail = nil
	b.mustEnd("x", p, true)
}

// An addition to a partition that does not serve now is refused for now; nothing
// is known of a partition that is gone.
func TestAddToPartitionsThatDoNotServe(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.serve(part("t", 1), log.ErrLatched)
	err := b.c.AddPartitions(ctx, "x", p, []topic.Partition{part("t", 0), part("t", 1)})
	b.want(err, ErrUnavailable, "add")
	if ClassOf(err) != ClassRetriable || b.state("x") != Empty {
		t.Errorf("class %s, x is %s", ClassOf(err), b.state("x"))
	}
}
