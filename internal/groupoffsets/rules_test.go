package groupoffsets

import (
	"errors"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// What was never committed is none, never 0; and 0 is an offset.
func TestNone(t *testing.T) {
	b := newBed(t, 3, log.Options{})
	b.want("g", 0, -1, -1)
	b.commit("g", at(0, 0))
	b.want("g", 0, 0, 0)
	b.want("g", 1, -1, -1)
	b.want("other", 0, -1, -1)
	all := must(b.s.Fetch(ctx, nil, "g", []topic.Partition{part(7), part(0)}, FetchOptions{}))
	if none := (Committed{Partition: part(7), Offset: -1, LeaderEpoch: -1, CommitMs: -1}); all[0] != none {
		t.Errorf("got %+v, want %+v", all[0], none)
	}
	if want := (Committed{Partition: part(0), Offset: 0, LeaderEpoch: -1, CommitMs: at0}); all[1] != want {
		t.Errorf("got %+v, want %+v", all[1], want)
	}
	b.reopen(0)
	b.reopen(1)
	b.reopen(2)
	b.want("g", 0, 0, 0)
	b.want("g", 1, -1, -1)
}

// There is no topic of offsets yet: nothing is committed, and nothing can be.
func TestNoPartitions(t *testing.T) {
	b := newBed(t, 0, log.Options{})
	b.want("g", 0, -1, -1)
	if _, err := b.s.Commit(ctx, "g", []Commit{at(0, 1)}, log.AppendOptions{}); !errors.Is(err, ErrNoPartitions) {
		t.Errorf("got %v, want ErrNoPartitions", err)
	}
	if all, err := b.s.FetchAll(ctx, nil, "g", FetchOptions{}); len(all) != 0 || err != nil {
		t.Errorf("got %v, %v", all, err)
	}
	if err := b.s.DeleteGroup(ctx, "g"); !errors.Is(err, ErrUnknownGroup) {
		t.Errorf("got %v, want ErrUnknownGroup", err)
	}
}

// Test 67: pending is not committed, and whoever wants it stable is told so; after
// a commit it is the new one, after an abort the old.
func TestOffsets67PendingIsUnstable(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.commit("g", at(0, 10))
	b.stage("g", 1, at(0, 20))
	b.want("g", 0, 10, unstableNumber)
	b.want("g", 1, -1, -1) // pending is of a partition, not of the group
	b.want("h", 0, -1, -1) // nor of another group
	b.end("g", 1, true)
	b.want("g", 0, 20, 20)
	b.stage("g", 1, at(0, 30), at(1, 31))
	b.want("g", 0, 20, unstableNumber)
	b.want("g", 1, -1, unstableNumber)
	b.end("g", 1, false)
	b.want("g", 0, 20, 20)
	b.want("g", 1, -1, -1)
}

// Test 68: what is pending is so after a reopening, and a marker of then ends it.
func TestOffsets68PendingSurvivesReload(t *testing.T) {
	for _, commit := range []bool{true, false} {
		b := newBed(t, 1, log.Options{})
		b.commit("g", at(0, 10))
		b.stage("g", 1, at(0, 42))
		b.reopen(0)
		b.want("g", 0, 10, unstableNumber)
		b.s = b.store()
		b.want("g", 0, 10, unstableNumber)
		b.end("g", 1, commit)
		want := int64(10)
		if commit {
			want = 42
		}
		b.want("g", 0, want, want)
		b.reopen(0)
		b.want("g", 0, want, want)
	}
}

// Test 69: a plain commit after a pending one wins when that commits. The record
// that is later in the log wins, whatever the order of the markers.
func TestOffsets69LaterRecordWins(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(b *bed)
		want int64
	}{
		"plain after pending, commit": {func(b *bed) { b.stage("g", 1, at(0, 100)); b.commit("g", at(0, 50)); b.end("g", 1, true) }, 50},
		"plain after pending, abort":  {func(b *bed) { b.stage("g", 1, at(0, 100)); b.commit("g", at(0, 50)); b.end("g", 1, false) }, 50},
		"pending after plain, commit": {func(b *bed) { b.commit("g", at(0, 50)); b.stage("g", 1, at(0, 100)); b.end("g", 1, true) }, 100},
		"pending after plain, abort":  {func(b *bed) { b.commit("g", at(0, 50)); b.stage("g", 1, at(0, 100)); b.end("g", 1, false) }, 50},
		"two, in order": {func(b *bed) {
			b.stage("g", 1, at(0, 1))
			b.stage("g", 2, at(0, 2))
			b.end("g", 1, true)
			b.end("g", 2, true)
		}, 2},
		"two, the later ends first": {func(b *bed) {
			b.stage("g", 1, at(0, 1))
			b.stage("g", 2, at(0, 2))
			b.end("g", 2, true)
			b.end("g", 1, true)
		}, 2},
		"two, the later aborts": {func(b *bed) {
			b.stage("g", 1, at(0, 1))
			b.stage("g", 2, at(0, 2))
			b.end("g", 2, false)
			b.end("g", 1, true)
		}, 1},
		"twice in one":      {func(b *bed) { b.stage("g", 1, at(0, 1)); b.stage("g", 1, at(0, 2)); b.end("g", 1, true) }, 2},
		"twice in one call": {func(b *bed) { b.commit("g", at(0, 1), at(0, 2)) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 1, log.Options{})
			c.do(b)
			b.want("g", 0, c.want, c.want)
			b.reopen(0)
			b.want("g", 0, c.want, c.want)
		})
	}
}

// Test 70, as far as it is about no membership: without any metadata of a group a
// commit is accepted, known or not, and makes the group.
func TestOffsets70NoMetadata(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.stage("new", 1, at(0, 5))
	if d := must(b.s.Describe(ctx, "new")); d.Kind != KindSimple || d.Members != 0 || d.Generation != -1 || d.Group.Pending != 1 || d.Transactions != 1 {
		t.Errorf("got %+v", d)
	}
	b.end("new", 1, true)
	b.want("new", 0, 5, 5)
	b.commit("", at(0, 7)) // the group without a name is one, but not in transactions
	b.want("", 0, 7, 7)
	if _, err := b.s.CommitTransactional(ctx, "", producer(1), []Commit{at(0, 1)}, log.AppendOptions{}); !errors.Is(err, ErrInvalidGroup) {
		t.Errorf("got %v, want ErrInvalidGroup", err)
	}
}

// Test 71: a deletion takes what is pending with it, and a marker does not bring it
// back.
func TestOffsets71DeleteTakesPending(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.commit("g", at(0, 1), at(1, 2))
	b.stage("g", 1, at(0, 10), at(1, 11), at(2, 12))
	n, err := b.s.Delete(ctx, "g", []topic.Partition{part(0), part(2), part(9)})
	if n != 2 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	b.want("g", 0, -1, -1)
	b.want("g", 1, 2, unstableNumber)
	b.want("g", 2, -1, -1)
	b.end("g", 1, true)
	b.want("g", 0, -1, -1)
	b.want("g", 1, 11, 11)
	b.want("g", 2, -1, -1)
	b.reopen(0)
	b.want("g", 0, -1, -1)
}

// Staged again after the deletion it counts again.
func TestDeletedAndStagedAgain(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.stage("g", 1, at(0, 1))
	if _, err := b.s.Delete(ctx, "g", []topic.Partition{part(0)}); err != nil {
		t.Fatal(err)
	}
	b.stage("g", 1, at(0, 2))
	b.want("g", 0, -1, unstableNumber)
	b.end("g", 1, true)
	b.want("g", 0, 2, 2)
}

// Test 72: what is pending does not expire, nor does its partition's committed
// offset; a group with an open transaction stays.
func TestOffsets72PendingDoesNotExpire(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.commit("g", at(0, 10), at(1, 11))
	b.stage("g", 1, at(0, 20))
	b.pass(DefaultRetention + time.Hour)
	if n := must(b.s.Expire(ctx, ExpireOptions{})); n != 1 {
		t.Errorf("%d expired, want the one of partition 1", n)
	}
	b.want("g", 0, 10, unstableNumber)
	b.want("g", 1, -1, -1)
	b.end("g", 1, true)
	b.want("g", 0, 20, 20)

	// A group whose records go with its last offset stays while a transaction is
	// open, even if that has nothing pending there any more.
	b.group("h", "consumer", 0)
	b.commit("h", at(0, 1))
	b.stage("h", 2, at(1, 1))
	must(b.s.Delete(ctx, "h", []topic.Partition{part(1)}))
	b.pass(DefaultRetention + time.Hour)
	must(b.s.Expire(ctx, ExpireOptions{}))
	if d := must(b.s.Describe(ctx, "h")); d.Kind != KindClassic || d.Offsets != 0 || d.Transactions != 1 {
		t.Errorf("got %+v, want the group without offsets", d)
	}
	b.end("h", 2, true)
	must(b.s.Expire(ctx, ExpireOptions{}))
	if _, err := b.s.Describe(ctx, "h"); !errors.Is(err, ErrUnknownGroup) {
		t.Errorf("got %v, want the group gone", err)
	}
	b.same()
}

// A transactional commit that the log refuses leaves no trace.
func TestRefusedLeavesNoTrace(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.commit("g", at(0, 1))
	end := b.of("g").Frontiers().LogEnd
	p, err := b.s.CommitTransactional(ctx, "g", producer(1), []Commit{at(0, 2)}, log.AppendOptions{}) // no guard
	if err == nil || p.End != -1 {
		t.Fatalf("got %+v, %v, want it refused", p, err)
	}
	b.end("g", 1, true)
	b.want("g", 0, 1, 1)
	if got := b.of("g").Frontiers().LogEnd; got != end+1 {
		t.Errorf("the log ends at %d, want the marker alone behind %d", got, end)
	}
}

// What cannot be committed is refused whole.
func TestCheck(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	long := func(n int) string { return string(make([]byte, n)) }
	for name, c := range map[string]struct {
		c    Commit
		want error
	}{
		"negative":           {at(0, -1), ErrInvalidCommit},
		"leader epoch":       {Commit{Partition: part(0), LeaderEpoch: -2}, ErrInvalidCommit},
		"no topic":           {Commit{}, ErrInvalidCommit},
		"long topic":         {Commit{Partition: topic.Partition{Topic: long(250)}}, ErrInvalidCommit},
		"negative partition": {at(-1, 1), ErrInvalidCommit},
		"expires before":     {Commit{Partition: part(0), ExpireMs: -5}, ErrInvalidCommit},
		"metadata":           {Commit{Partition: part(0), Metadata: long(4097)}, ErrMetadataTooLong},
	} {
		_, err := b.s.Commit(ctx, "g", []Commit{at(1, 1), c.c}, log.AppendOptions{})
		if bad, ok := errors.AsType[*CommitError](err); !ok || !errors.Is(err, c.want) || bad.Partition != c.c.Partition {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if _, err := b.s.Commit(ctx, long(1<<15), []Commit{at(0, 1)}, log.AppendOptions{}); !errors.Is(err, ErrInvalidGroup) {
		t.Errorf("got %v, want ErrInvalidGroup", err)
	}
	if p := b.commit("g"); p.End != -1 || p.Partition != (topic.Partition{Topic: topic.ConsumerOffsets}) {
		t.Errorf("nothing to commit: got %+v", p)
	}
	if end := b.of("g").Frontiers().LogEnd; end != 0 {
		t.Errorf("the log ends at %d, want nothing in it", end)
	}
	b.commit("g", Commit{Partition: part(0), Offset: 3, LeaderEpoch: 2, Metadata: long(4096)})
	got := must(b.s.FetchAll(ctx, nil, "g", FetchOptions{}))
	if len(got) != 1 || got[0].Offset != 3 || got[0].LeaderEpoch != 2 || got[0].Metadata != long(4096) {
		t.Errorf("got %+v", got)
	}
}

// What is published and not below the high watermark is not answered, but makes
// unstable what is staged there; its end too is only seen below the high watermark.
func TestAboveHighWatermark(t *testing.T) {
	b := newBed(t, 1, log.Options{Replicated: true})
	l := b.of("g")
	seen := func() { l.AdvanceHighWatermark(l.Frontiers().LogEnd) }
	noWait := log.AppendOptions{NoWait: true}
	publish := func(c Commit, p batch.Producer) Published {
		t.Helper()
		if p.ID == 0 {
			return must(b.s.Commit(ctx, "g", []Commit{c}, noWait))
		}
		o := noWait
		o.Guard, _, _ = l.Guard(p, batch.None, false)
		return must(b.s.CommitTransactional(ctx, "g", p, []Commit{c}, o))
	}
	if p := publish(at(0, 1), batch.Producer{}); p.End != 1 {
		t.Fatalf("got %+v", p)
	}
	b.want("g", 0, -1, -1)
	seen()
	b.want("g", 0, 1, 1)
	publish(at(0, 2), producer(1))
	publish(at(1, 2), batch.Producer{})
	b.want("g", 0, 1, unstableNumber)
	b.want("g", 1, -1, -1)
	if got := must(b.s.FetchAll(ctx, nil, "g", FetchOptions{RequireStable: true})); len(got) != 1 || got[0].Err != ErrUnstable {
		t.Errorf("got %+v, want partition 0 unstable", got)
	}
	seen()
	b.want("g", 0, 1, unstableNumber)
	b.want("g", 1, 2, 2)
	if _, err := l.AppendMarker(ctx, batch.Marker{Producer: producer(1), Commit: true}, log.MarkerOptions{NoWait: true}); err != nil {
		t.Fatal(err)
	}
	b.want("g", 0, 1, unstableNumber)
	seen()
	b.want("g", 0, 2, 2)

	// Just committed is not expired, though what is below the high watermark is old.
	b.pass(DefaultRetention)
	publish(at(0, 3), batch.Producer{})
	b.advanced(func() {
		if n := must(b.s.Expire(ctx, ExpireOptions{})); n != 1 {
			t.Errorf("%d expired, want the one of partition 1", n)
		}
	})
	b.want("g", 0, 3, 3)
	b.want("g", 1, -1, -1)

	// A deletion is about all that was published before.
	publish(at(5, 1), batch.Producer{})
	b.advanced(func() {
		if n, err := b.s.Delete(ctx, "g", []topic.Partition{part(5)}); n != 1 || err != nil {
			t.Errorf("deleted %d, %v, want 1", n, err)
		}
	})
	b.want("g", 5, -1, -1)

	// Nothing of it is left if it is cut.
	publish(at(0, 4), producer(1))
	if err := l.Truncate(ctx, l.Frontiers().HighWatermark); err != nil {
		t.Fatal(err)
	}
	b.want("g", 0, 3, 3)
}

// advanced moves the high watermark to the log end all the time while do runs.
func (b *bed) advanced(do func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, l := range b.logs {
				l.AdvanceHighWatermark(l.Frontiers().LogEnd)
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	<-done
}
