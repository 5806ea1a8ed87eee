package txn

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// The numbers are those of Kafka's scenarios that the reference lists.

func TestCommitAndAbort(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	if p != (batch.Producer{ID: 4000}) { // 1
		t.Fatalf("the first producer is %+v", p)
	}
	b.mustSend("x", p, part("t", 0), 0, 2)
	b.mustSend("x", p, part("t", 1), 0, 1)
	b.mustSend("x", p, part("t", 1), 1, 1)
	b.wantVisible(part("t", 0))
	p = b.mustEnd("x", p, true) // 32
	if p != (batch.Producer{ID: 4000, Epoch: 1}) {
		t.Fatalf("goes on as %+v", p)
	}
	b.wantVisible(part("t", 0), "0", "1")
	b.wantVisible(part("t", 1), "0", "1")
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.mustSend("x", p, part("t", 2), 0, 1)
	p = b.mustEnd("x", p, false) // 33
	b.wantVisible(part("t", 0), "0", "1")
	b.wantVisible(part("t", 2))
	b.wantStable()
	if m := b.c.Metrics(); m != (Metrics{IDs: 1, Committed: 1, Aborted: 1}) {
		t.Errorf("metrics %+v", m)
	}
	// 31: nothing was written; the epoch rises, and there are no markers.
	before := b.logs[part("t", 0)].Frontiers().LogEnd
	next := b.mustEnd("x", p, false)
	if next.Epoch != p.Epoch+1 || b.logs[part("t", 0)].Frontiers().LogEnd != before {
		t.Errorf("an abort of nothing goes on as %+v", next)
	}
	_, err := b.end("x", next, true)
	b.want(err, ErrInvalidState, "commit of nothing")
}

// 2, 28: whoever has the id fences who had it, in partitions too.
func TestFencing(t *testing.T) {
	b := newBed(t, Options{})
	old := b.init("x")
	b.mustSend("x", old, part("t", 0), 0, 1)
	old = b.mustEnd("x", old, true)
	b.mustSend("x", old, part("t", 0), 0, 1)
	// 8: an open transaction is aborted first, and its epoch is nobody's.
	_, err := b.c.InitProducerID(ctx, "x", InitOptions{})
	b.want(err, ErrConcurrent, "init on an open transaction")
	if b.state("x") != CompleteAbort {
		t.Fatalf("then it is %s", b.state("x"))
	}
	fresh := b.init("x")
	if fresh != (batch.Producer{ID: old.ID, Epoch: old.Epoch + 2}) {
		t.Errorf("%+v fences %+v", fresh, old)
	}
	b.wantVisible(part("t", 0), "0")
	if err := b.send("x", old, part("t", 0), 1, 1); err == nil {
		t.Error("the fenced producer writes")
	}
	b.want(b.c.Enlist(ctx, "x", old, []topic.Partition{part("t", 1)}), ErrProducerFenced, "add of the fenced")
	_, err = b.end("x", old, true)
	b.want(err, ErrProducerFenced, "end of the fenced")
	b.mustSend("x", fresh, part("t", 0), 0, 1)
	b.mustEnd("x", fresh, true)
	b.wantStable()
	if got := b.events(EventFenced); len(got) != 1 || got[0].TransactionalID != "x" {
		t.Errorf("told of %+v", got)
	}
}

// 35, 37: an end that is asked for once more is answered like the first, and one
// that comes late does nothing to the next transaction.
func TestEndAgain(t *testing.T) {
	b := newBed(t, Options{})
	first := b.init("x")
	b.mustSend("x", first, part("t", 0), 0, 1)
	second := b.mustEnd("x", first, true)
	again, err := b.end("x", first, true)
	if b.want(err, nil, "once more"); again != second {
		t.Errorf("answered with %+v and %+v", second, again)
	}
	_, err = b.end("x", first, false)
	b.want(err, ErrInvalidState, "once more, the other way")
	b.mustSend("x", second, part("t", 0), 0, 1)
	_, err = b.end("x", first, true)
	b.want(err, ErrProducerFenced, "late, into the next transaction")
	if b.state("x") != Ongoing {
		t.Errorf("the next transaction is %s", b.state("x"))
	}
	b.wantVisible(part("t", 0), "0")
}

// 34: producers whose epoch stays.
func TestEndTV1(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	for i, commit := range []bool{true, false} {
		if err := b.c.AddPartitions(ctx, "x", p, []topic.Partition{part("t", 0)}); err != nil {
			t.Fatal(err)
		}
		l := b.logs[part("t", 0)]
		g, _, err := l.Guard(p, int32(i), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.write(l, p, int32(i), 1, log.AppendOptions{Guard: g}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			next, err := b.c.End(ctx, "x", p, EndOptions{Commit: commit})
			if b.want(err, nil, "end"); next != p {
				t.Errorf("goes on as %+v, was %+v", next, p)
			}
		}
		_, err = b.c.End(ctx, "x", p, EndOptions{Commit: !commit})
		b.want(err, ErrInvalidState, "the other way")
	}
	b.wantVisible(part("t", 0), "0")
	b.wantStable()
}

// 5, 6 and other misuse.
func TestMisuse(t *testing.T) {
	b := newBed(t, Options{})
	for _, c := range []struct {
		name string
		id   string
		o    InitOptions
		kind error
	}{
		{"no id", "", InitOptions{}, ErrInvalidRequest},
		{"id too long", string(make([]byte, 1<<15)), InitOptions{}, ErrInvalidRequest},
		{"half an identity", "x", InitOptions{Expected: &batch.Producer{ID: 1, Epoch: -1}}, ErrInvalidRequest},
		{"other half", "x", InitOptions{Expected: &batch.Producer{ID: -1, Epoch: 1}}, ErrInvalidRequest},
		{"timeout below", "x", InitOptions{Timeout: -1}, ErrInvalidTimeout},
		{"timeout above", "x", InitOptions{Timeout: 15*time.Minute + 1}, ErrInvalidTimeout},
		{"timeout at the limit", "y", InitOptions{Timeout: 15 * time.Minute}, nil},
	} {
		_, err := b.c.InitProducerID(ctx, c.id, c.o)
		b.want(err, c.kind, c.name)
	}
	p := b.init("x")
	// 18: nothing is added if a partition is not there.
	err := b.c.AddPartitions(ctx, "x", p, []topic.Partition{part("t", 0), part("u", 0), part("t", 9)})
	if e, ok := errors.AsType[*UnknownPartitionsError](err); !ok || !reflect.DeepEqual(e.Partitions, []topic.Partition{part("u", 0), part("t", 9)}) {
		t.Errorf("unknown partitions: %v", err)
	}
	if b.state("x") != Empty {
		t.Errorf("then it is %s", b.state("x"))
	}
	b.want(b.c.AddPartitions(ctx, "nobody", p, nil), ErrInvalidIDMapping, "add to an unknown id")
	_, err = b.end("nobody", p, true)
	b.want(err, ErrInvalidIDMapping, "end of an unknown id")
	_, err = b.c.Describe(ctx, "nobody")
	b.want(err, ErrUnknownID, "describe an unknown id")
	b.want(b.c.Abort(ctx, "x"), ErrInvalidState, "abort of nothing")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = b.c.InitProducerID(cancelled, "x", InitOptions{})
	b.want(err, context.Canceled, "with a context that has ended")
	b.c.Close()
	_, err = b.c.InitProducerID(ctx, "x", InitOptions{})
	b.want(err, ErrClosed, "closed")
	_, err = b.end("x", p, true)
	b.want(err, ErrClosed, "closed")
	b.want(err, log.ErrClosed, "closed")
}

// 3, 13, 14: identities over retries, races and restarts.
func TestIdentities(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	expecting := InitOptions{Expected: &p}
	next, err := b.c.InitProducerID(ctx, "x", expecting)
	again, err2 := b.c.InitProducerID(ctx, "x", expecting)
	if err != nil || err2 != nil || next != again || next.Epoch != 1 {
		t.Errorf("asked twice: %+v, %v, then %+v, %v", next, err, again, err2)
	}
	b.crash() // which epoch the client had before is remembered
	if again, err := b.c.InitProducerID(ctx, "x", expecting); err != nil || again != next {
		t.Errorf("asked again after a restart: %+v, %v, want %+v", again, err, next)
	}
	seen := map[batch.Producer]bool{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			p, err := b.c.InitProducerID(ctx, "y", InitOptions{Wait: true})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[p] {
				t.Errorf("%+v, %v, others have %v", p, err, seen)
			}
			seen[p] = true
		})
	}
	group.Wait()
	plain, err := b.c.NewProducerID(ctx)
	if err != nil || plain.Epoch != 0 || plain.ID == p.ID {
		t.Errorf("an idempotent producer is %+v, %v", plain, err)
	}
	b.crash() // 12: what is left of a block is never used
	after, err := b.c.NewProducerID(ctx)
	if err != nil || after.ID <= plain.ID || after.ID%idBlock != 0 {
		t.Errorf("after a restart the next is %+v, %v, before it was %+v", after, err, plain)
	}
}

// 61 to 63.
func TestTimeout(t *testing.T) {
	for _, tv1 := range []bool{false, true} {
		b := newBed(t, Options{TV1: tv1})
		p, err := b.c.InitProducerID(ctx, "x", InitOptions{Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		b.mustSend("x", p, part("t", 0), 0, 1)
		b.sleep(10 * time.Second)
		if b.state("x") != Ongoing {
			t.Fatalf("at its timeout it is %s", b.state("x"))
		}
		b.sleep(time.Millisecond)
		if b.state("x") != CompleteAbort || len(b.events(EventTimedOut)) != 1 {
			t.Fatalf("after its timeout it is %s; told %+v", b.state("x"), b.told)
		}
		b.wantVisible(part("t", 0))
		b.wantStable()
		if err := b.send("x", p, part("t", 0), 1, 1); err == nil {
			t.Error("it writes on")
		}
		_, err = b.end("x", p, true)
		if tv1 {
			// The server did not take the epoch for one that the client asked for; to
			// an end of the newer kind it still looks like a retry.
			b.want(err, ErrInvalidState, "commit")
			_, err = b.c.InitProducerID(ctx, "x", InitOptions{Expected: &p})
			b.want(err, ErrProducerFenced, "init")
			continue
		}
		b.want(err, ErrInvalidState, "commit") // 62
		next, err := b.end("x", p, false)
		if b.want(err, nil, "abort"); next.Epoch != p.Epoch+1 {
			t.Errorf("goes on as %+v", next)
		}
		// It was its own transaction: it may go on.
		again, err := b.c.InitProducerID(ctx, "x", InitOptions{Expected: &p})
		if b.want(err, nil, "init"); again != next {
			t.Errorf("goes on as %+v, was told %+v", again, next)
		}
	}
}

// 65.
func TestExpiration(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	open := b.init("y")
	b.mustSend("y", open, part("t", 0), 0, 1)
	b.sleep(7*24*time.Hour - time.Minute)
	if got := len(b.c.List(Filter{})); got != 2 {
		t.Fatalf("%d ids are known, want 2", got)
	}
	b.sleep(2 * time.Hour) // y was aborted meanwhile, which counts as use
	if got := b.c.List(Filter{}); len(got) != 1 || got[0].TransactionalID != "y" {
		t.Fatalf("known are %+v", got)
	}
	_, err := b.end("x", p, true)
	b.want(err, ErrInvalidIDMapping, "end")
	b.crash()
	if _, err := b.c.Describe(ctx, "x"); !errors.Is(err, ErrUnknownID) {
		t.Errorf("after a restart: %v", err)
	}
	if fresh := b.init("x"); fresh.Epoch != 0 || fresh.ID == p.ID {
		t.Errorf("it begins anew as %+v, was %+v", fresh, p)
	}
}

// 10, 11, 38, 39: all epochs of a producer id are used up.
func TestEpochsUsedUp(t *testing.T) {
	b := newBed(t, Options{})
	old := b.init("x")
	s := b.c.shard("x")
	s.mu.Lock()
	s.entries["x"].t.Producer.Epoch = epochsUsed
	s.mu.Unlock()
	old.Epoch = epochsUsed
	b.mustSend("x", old, part("t", 0), 0, 1)
	fresh := b.mustEnd("x", old, true)
	if fresh.Epoch != 0 || fresh.ID == old.ID {
		t.Fatalf("goes on as %+v", fresh)
	}
	again, err := b.end("x", old, true)
	if b.want(err, nil, "once more"); again != fresh {
		t.Errorf("answered with %+v and %+v", fresh, again)
	}
	b.wantVisible(part("t", 0), "0")
	if err := b.send("x", old, part("t", 0), 1, 1); err == nil {
		t.Error("the old identity writes on")
	}
	b.crash()
	if again, err := b.c.InitProducerID(ctx, "x", InitOptions{Expected: &old}); err != nil || again != fresh {
		t.Errorf("asked with the old identity after a restart: %+v, %v", again, err)
	}
	b.mustSend("x", fresh, part("t", 0), 0, 1)
	b.mustEnd("x", fresh, true)
	b.wantStable()
}

// An open transaction that the log does not know of: what a power loss can leave
// of a topic that promises less.
func TestOrphans(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	open := func(tp topic.Partition, p batch.Producer) {
		t.Helper()
		l := b.logs[tp]
		g, _, err := l.Guard(p, 0, false)
		if err == nil {
			err = b.write(l, p, 0, 1, log.AppendOptions{Guard: g})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	open(part("t", 0), p)                        // known
	open(part("t", 1), batch.Producer{ID: 4500}) // ours, and forgotten
	open(part("t", 2), batch.Producer{ID: 17})   // another program's
	b.crash()
	for i, want := range []bool{true, true, false} {
		f := b.logs[part("t", int32(i))].Frontiers()
		if got := f.LastStable == f.LogEnd; got != want {
			t.Errorf("t-%d has frontiers %+v, ended %t", i, f, want)
		}
	}
	if err := b.send("x", p, part("t", 0), 1, 1); err == nil {
		t.Error("its producer writes on")
	}
	if got := b.init("x"); got.Epoch < 2 {
		t.Errorf("the next identity is %+v", got)
	}
	if got := len(b.events(EventOrphanEnded)); got != 2 {
		t.Errorf("told of %d orphans, want 2", got)
	}
	// 86: the rest is found, and ended by hand.
	hanging, err := b.c.Hanging(ctx, time.Hour)
	if err != nil || len(hanging) != 0 {
		t.Errorf("young ones hang: %+v, %v", hanging, err)
	}
	b.sleep(2 * time.Hour)
	hanging, err = b.c.Hanging(ctx, time.Hour)
	if err != nil || len(hanging) != 1 || hanging[0].Producer.ID != 17 || hanging[0].Partition != part("t", 2) {
		t.Fatalf("hanging are %+v, %v", hanging, err)
	}
	if err := b.c.EndHanging(ctx, hanging[0]); err != nil {
		t.Fatal(err)
	}
	b.wantStable()
	b.want(b.c.EndHanging(ctx, hanging[0]), ErrInvalidState, "once more")
}

// 85.
func TestList(t *testing.T) {
	b := newBed(t, Options{})
	a := b.init("a")
	b.init("b")
	b.mustSend("a", a, part("t", 3), 0, 1)
	b.sleep(30 * time.Second)
	names := func(f Filter) (all []string) {
		for _, d := range b.c.List(f) {
			all = append(all, d.TransactionalID)
		}
		return all
	}
	for _, c := range []struct {
		f    Filter
		want []string
	}{
		{Filter{}, []string{"a", "b"}},
		{Filter{States: []State{Ongoing}}, []string{"a"}},
		{Filter{ProducerIDs: []int64{a.ID, 9}}, []string{"a"}},
		{Filter{Longer: 30 * time.Second}, []string{"b"}},
		{Filter{Longer: 29 * time.Second}, []string{"a", "b"}},
	} {
		if got := names(c.f); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.f, got, c.want)
		}
	}
	d, err := b.c.Describe(ctx, "a")
	want := Description{TransactionalID: "a", Producer: a, State: Ongoing, Timeout: time.Minute,
		Start: time.UnixMilli(at0), Updated: time.UnixMilli(at0), Partitions: []topic.Partition{part("t", 3)}}
	if err != nil || !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, %v, want %+v", d, err, want)
	}
	if err := b.c.Abort(ctx, "a"); err != nil || b.state("a") != CompleteAbort {
		t.Errorf("aborted by hand: %v, %s", err, b.state("a"))
	}
}
