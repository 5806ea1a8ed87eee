package oncelog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/internal/vfs"
)

func committed(t *testing.T, s *oncelog.Store, group string, stable bool, tp oncelog.TopicPartition) (int64, error) {
	t.Helper()
	found, err := s.Groups().Fetch(t.Context(), nil, group, []oncelog.TopicPartition{tp}, stable)
	if err != nil {
		t.Fatal(err)
	}
	return found[0].Offset, found[0].Err
}

func wantCommitted(t *testing.T, s *oncelog.Store, group string, tp oncelog.TopicPartition, want int64) {
	t.Helper()
	if got, err := committed(t, s, group, true, tp); err != nil || got != want {
		t.Errorf("%s of %s: %d, %v, want %d", tp, group, got, err, want)
	}
}

// TestOffsetsInTransactions: they count with the commit, never with an abort, and are
// unstable in between; over a restart and a crash too.
func TestOffsetsInTransactions(t *testing.T) {
	mem := oncelog.NewMemFS()
	s := newStore(t, 2, oncelog.Options{FS: mem})
	ctx, tp := t.Context(), partition(0)
	if err := s.Groups().Commit(ctx, "g", []oncelog.OffsetCommit{oncelog.OffsetOf(tp, 5)}, oncelog.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	wantCommitted(t, s, "g", tp, 5)
	wantCommitted(t, s, "g", partition(1), -1)
	wantCommitted(t, s, "other", tp, -1)

	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"})
	begin := func(offset int64) *oncelog.Txn {
		t.Helper()
		tx, err := p.Begin(ctx)
		if err == nil {
			_, err = tx.Send(ctx, "t", message("", "x"))
		}
		if err == nil {
			err = tx.SendOffsets(ctx, "g", oncelog.OffsetOf(tp, offset))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := committed(t, s, "g", true, tp); !errors.Is(err, oncelog.ErrUnstable) {
			t.Errorf("while it is open: %v", err)
		}
		if _, err := s.NewReader(oncelog.ReaderOptions{Topic: "t", Group: "g"}); !errors.Is(err, oncelog.ErrUnstable) {
			t.Errorf("a reader of the group: %v", err)
		}
		return tx
	}
	tx := begin(7)
	if got, err := committed(t, s, "g", false, tp); got != 5 || err != nil {
		t.Errorf("not stable: %d, %v", got, err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantCommitted(t, s, "g", tp, 7)
	if err := begin(9).Abort(ctx); err != nil {
		t.Fatal(err)
	}
	wantCommitted(t, s, "g", tp, 7)

	// A plain commit behind one of a transaction that commits later counts.
	tx = begin(11)
	if err := s.Groups().Commit(ctx, "g", []oncelog.OffsetCommit{oncelog.OffsetOf(tp, 20)}, oncelog.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantCommitted(t, s, "g", tp, 20)

	// A crash while it is open: the next producer of the id aborts it.
	begin(30)
	if err := s.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	for name, left := range map[string]*oncelog.MemFS{"killed": mem.KillClone(), "power lost": mem.CrashClone(vfs.CrashOptions{})} {
		again, err := oncelog.Open("data", oncelog.Options{FS: left})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := committed(t, again, "g", true, tp); !errors.Is(err, oncelog.ErrUnstable) {
			t.Errorf("%s: %v", name, err)
		}
		newProducer(t, again, oncelog.ProducerOptions{TransactionalID: "id"})
		wantCommitted(t, again, "g", tp, 20)
		if err := again.Close(ctx); err != nil {
			t.Fatal(err)
		}
		again, err = oncelog.Open("data", oncelog.Options{FS: left})
		if err != nil {
			t.Fatal(err)
		}
		wantCommitted(t, again, "g", tp, 20)
		if err := again.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCommitRefused: nothing is committed with what cannot be.
func TestCommitRefused(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	tp, none := partition(0), oncelog.TopicPartition{Topic: "none"}
	long := oncelog.OffsetOf(tp, 1)
	long.Metadata = strings.Repeat("m", 4097)
	for _, c := range []struct {
		group string
		bad   oncelog.OffsetCommit
		want  error
	}{
		{"g", oncelog.OffsetOf(none, 1), oncelog.ErrUnknownPartition},
		{"g", long, oncelog.ErrMetadataTooLong},
		{"g", oncelog.OffsetOf(tp, -1), oncelog.ErrInvalidCommit},
		{strings.Repeat("g", 1<<15), oncelog.OffsetOf(tp, 1), oncelog.ErrInvalidGroup},
	} {
		err := s.Groups().Commit(t.Context(), c.group, []oncelog.OffsetCommit{oncelog.OffsetOf(tp, 3), c.bad}, oncelog.CommitOptions{})
		if !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
		wantCommitted(t, s, "g", tp, -1)
	}
}

// TestGroups: listed, described, deleted; what is pending goes too.
func TestGroups(t *testing.T) {
	s := newStore(t, 2, oncelog.Options{})
	ctx := t.Context()
	for _, g := range []string{"b", "a"} {
		if err := s.Groups().Commit(ctx, g, []oncelog.OffsetCommit{oncelog.OffsetOf(partition(1), 4), oncelog.OffsetOf(partition(0), 3)}, oncelog.CommitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"})
	tx, err := p.Begin(ctx)
	if err == nil {
		err = errors.Join(tx.SendOffsets(ctx, "c", oncelog.OffsetOf(partition(0), 8)), s.Sync(ctx))
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	list, err := s.Groups().List(ctx)
	for _, g := range list {
		names = append(names, g.Name)
	}
	if err != nil || !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("groups are %v, %v", names, err)
	}
	d, err := s.Groups().Describe(ctx, "a")
	if err != nil || len(d.Committed) != 2 || d.Committed[1].Offset != 4 {
		t.Errorf("a is %+v, %v", d, err)
	}
	d, err = s.Groups().Describe(ctx, "c")
	if err != nil || len(d.Committed) != 0 || len(d.Pending) != 1 || d.Pending[0].Offset != 8 {
		t.Errorf("c is %+v, %v", d, err)
	}
	if n, err := s.Groups().DeleteOffsets(ctx, "a", []oncelog.TopicPartition{partition(1)}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	wantCommitted(t, s, "a", partition(1), -1)
	wantCommitted(t, s, "a", partition(0), 3)
	for _, g := range []string{"a", "c"} {
		if err := s.Groups().Delete(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Groups().Delete(ctx, "a"); !errors.Is(err, oncelog.ErrUnknownGroup) {
		t.Errorf("delete it again: %v", err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantCommitted(t, s, "c", partition(0), -1)
	if err := s.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Groups().Describe(ctx, "b"); !errors.Is(err, oncelog.ErrUnknownGroup) {
		t.Errorf("b is %+v, %v", d, err)
	}
}

// TestOffsetsExpire: those that nobody uses, but none that is pending.
func TestOffsetsExpire(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	s := newStore(t, 2, oncelog.Options{Now: func() time.Time { return now }, OffsetsRetention: time.Hour})
	ctx := context.Background()
	commit := func(group string, index int, offset int64) {
		t.Helper()
		if err := s.Groups().Commit(ctx, group, []oncelog.OffsetCommit{oncelog.OffsetOf(partition(index), offset)}, oncelog.CommitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	commit("g", 0, 1)
	commit("g", 1, 1)
	now = now.Add(59 * time.Minute)
	commit("g", 1, 2)
	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"})
	tx, err := p.Begin(ctx)
	if err == nil {
		err = tx.SendOffsets(ctx, "g", oncelog.OffsetOf(partition(0), 9))
	}
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	if n, err := s.Groups().Expire(ctx); n != 0 || err != nil {
		t.Errorf("%d expired, %v, while a transaction commits there", n, err)
	}
	if err := tx.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Groups().Expire(ctx); n != 1 || err != nil {
		t.Errorf("%d expired, %v, want 1", n, err)
	}
	wantCommitted(t, s, "g", partition(0), -1)
	wantCommitted(t, s, "g", partition(1), 2)
}
