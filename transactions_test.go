package oncelog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/txn"
)

// TestOneFlush: at level fsync a transaction over ten partitions, with offsets, costs
// one flush, and is visible when Commit returns.
func TestOneFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no flush falls due by itself
		syncs, counting := 0, false
		fsys := faultfs.New(oncelog.NewMemFS(), faultfs.Plan{Hook: func(op faultfs.Op) error {
			if counting && (op.Kind == faultfs.Sync || op.Kind == faultfs.SyncDir) {
				syncs++
			}
			return nil
		}})
		s := newStore(t, 10, oncelog.Options{FS: fsys})
		p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id", Linger: time.Hour})
		for n := range 3 { // the first one makes the journal and the internal topics
			counting = n > 0
			tx, err := p.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				if _, err := tx.SendTo(t.Context(), partition(i), message("", fmt.Sprint(n))); err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.SendOffsets(t.Context(), "g", oncelog.OffsetOf(partition(0), int64(n))); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			counting = false
			if got := len(valuesOf(t, s, oncelog.ReadCommitted)); got != 10*(n+1) {
				t.Errorf("%d records are visible after commit %d, want %d", got, n, 10*(n+1))
			}
			wantCommitted(t, s, "g", partition(0), int64(n))
		}
		if syncs != 2 {
			t.Errorf("two transactions made %d flushes, want 2", syncs)
		}
		p.Close(t.Context())
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// moment is what a crash at some file operation would leave.
type moment struct {
	what      string
	fs        *oncelog.MemFS
	committed int // transactions whose commit was acknowledged
	asked     int // whose commit was asked for
}

// TestCrashAnywhere ends the process, or the machine, at every file operation of some
// transactions. Whatever is left: what was acknowledged is there, every transaction is
// there whole or not at all, in the order of the commits, with its offset, and once a
// producer of the same id has come nothing holds the last stable offset back.
func TestCrashAnywhere(t *testing.T) {
	for name, o := range map[string]oncelog.Options{
		"journal":         {},
		"journal and OS":  {Durability: oncelog.DurabilityOS}, // topic t is at fsync, see below
		"direct":          {Direct: true},
		"OS, only killed": {Durability: oncelog.DurabilityOS},
	} {
		t.Run(name, func(t *testing.T) {
			killedOnly := strings.Contains(name, "only")
			moments := liveThrough(t, o, !killedOnly, name == "journal and OS")
			if len(moments) < 20 {
				t.Fatalf("%d moments", len(moments))
			}
			for _, m := range moments {
				m.judge(t, o)
				if t.Failed() {
					return
				}
			}
			t.Logf("%d crashes", len(moments))
		})
	}
}

const crashPartitions = 3

// liveThrough runs transactions and collects what crashes would leave.
func liveThrough(t *testing.T, o oncelog.Options, power, mixed bool) (moments []moment) {
	mem := oncelog.NewMemFS()
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	now, watching := moment{}, false
	crash := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if !watching {
			return
		}
		m := now
		m.what = fmt.Sprintf("%s, %d of %d acknowledged", what, m.committed, m.asked)
		m.fs = mem.KillClone()
		if moments = append(moments, m); power {
			m.what, m.fs = m.what+", power lost", mem.CrashClone(vfs.CrashOptions{Rand: random, KeepUnsynced: 0.5, Tear: true})
			moments = append(moments, m)
		}
	}
	o.FS = faultfs.New(mem, faultfs.Plan{Hook: func(op faultfs.Op) error {
		if op.Kind != faultfs.Read && op.Kind != faultfs.Stat {
			crash(fmt.Sprint(op.Kind, " ", op.Name))
		}
		return nil
	}})
	s, err := oncelog.Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	config := oncelog.TopicConfig{Partitions: crashPartitions}
	if mixed {
		config.Durability = oncelog.DurabilityFsync
	}
	if err := s.CreateTopic(t.Context(), "t", config); err != nil {
		t.Fatal(err)
	}
	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id", Linger: -1})
	for n := range 6 {
		mu.Lock()
		watching = n > 0
		mu.Unlock()
		tx, err := p.Begin(t.Context())
		for i := 0; i < crashPartitions && err == nil; i++ {
			_, err = tx.SendTo(t.Context(), partition(i), message("", fmt.Sprint(n)))
			crash("send")
		}
		if err == nil {
			err = tx.SendOffsets(t.Context(), "g", oncelog.OffsetOf(partition(0), int64(n+1)))
			crash("offsets")
		}
		if err != nil {
			t.Fatal(err)
		}
		if n%3 == 2 {
			if err := tx.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		mu.Lock()
		now.asked++
		mu.Unlock()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		now.committed++
		mu.Unlock()
		crash("after a commit")
	}
	mu.Lock()
	watching = false
	mu.Unlock()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return moments
}

// judge opens what is left.
func (m *moment) judge(t *testing.T, o oncelog.Options) {
	t.Helper()
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("crash at %s: %s", m.what, fmt.Sprintf(format, args...))
	}
	o.FS = m.fs
	s, err := oncelog.Open("data", o)
	if err != nil {
		bad("open: %v", err)
		return
	}
	defer s.Close(context.Background())
	p, err := s.NewProducer(t.Context(), oncelog.ProducerOptions{TransactionalID: "id"})
	if err != nil {
		bad("new producer: %v", err)
		return
	}
	if err := s.Sync(t.Context()); err != nil {
		bad("sync: %v", err)
	}
	r, err := s.NewReader(oncelog.ReaderOptions{Topic: "t", Isolation: oncelog.ReadCommitted})
	if err != nil {
		bad("new reader: %v", err)
		return
	}
	defer r.Close()
	seen := map[int32][]string{}
	for record, err := range r.Records(t.Context()) {
		if err != nil {
			bad("read: %v", err)
			return
		}
		seen[record.Index] = append(seen[record.Index], string(record.Value))
	}
	want := []string{"0", "1", "3", "4"} // those that are not aborted
	got := seen[0]
	if len(got) < m.committed || len(got) > m.asked || !slices.Equal(got, want[:len(got)]) {
		bad("partition 0 has %q", got)
	}
	for i := range crashPartitions {
		if !slices.Equal(seen[int32(i)], got) {
			bad("partition %d has %q, partition 0 %q", i, seen[int32(i)], got)
		}
		l, err := s.Partition(partition(i))
		if err != nil {
			bad("%v", err)
			return
		}
		if f := l.Frontiers(); f.LastStable != f.LogEnd {
			bad("partition %d: %+v", i, f)
		}
	}
	offset := int64(-1)
	if len(got) > 0 {
		offset = map[string]int64{"0": 1, "1": 2, "3": 4, "4": 5}[got[len(got)-1]]
	}
	wantCommitted(t, s, "g", partition(0), offset)
	// And it goes on.
	if err := p.Transact(t.Context(), func(ctx context.Context, tx *oncelog.Txn) error {
		_, err := tx.SendTo(ctx, partition(0), message("", "next"))
		return err
	}); err != nil {
		bad("the next transaction: %v", err)
	}
	if t.Failed() {
		bad("seen")
	}
}

// TestFencingOverRestart: whoever had the id before a restart is fenced by who came
// after it, not by the restart.
func TestFencingOverRestart(t *testing.T) {
	mem := oncelog.NewMemFS()
	s := newStore(t, 1, oncelog.Options{FS: mem})
	old := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"}).ID()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := oncelog.Open("data", oncelog.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	tp := []oncelog.TopicPartition{partition(0)}
	if err := s.Transactions().AddPartitions(t.Context(), "id", old, tp); err != nil {
		t.Errorf("after the restart alone: %v", err)
	}
	newer := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"}).ID()
	if newer.ID != old.ID || newer.Epoch <= old.Epoch {
		t.Errorf("the newer one is %v, the older was %v", newer, old)
	}
	if err := s.Transactions().AddPartitions(t.Context(), "id", old, tp); !errors.Is(err, txn.ErrProducerFenced) {
		t.Errorf("add by the older: %v", err)
	}
	b := recordsOf(batch.BuilderOptions{Producer: old, Transactional: true}, "late")
	_, err = s.Append(t.Context(), partition(0), b, oncelog.AppendOptions{TransactionalID: "id"})
	if !errors.Is(err, txn.ErrProducerFenced) && !errors.Is(err, oncelog.ErrFenced) {
		t.Errorf("append by the older: %v", err)
	}
}

// TestProducerIDsNeverRepeat, over clean stops, crashes, and ids that others brought.
func TestProducerIDsNeverRepeat(t *testing.T) {
	mem := oncelog.NewMemFS()
	s := newStore(t, 1, oncelog.Options{FS: mem})
	seen := map[int64]bool{}
	take := func() int64 {
		t.Helper()
		p, err := s.Transactions().NewProducerID(t.Context())
		if err != nil || seen[p.ID] {
			t.Fatalf("got %v, %v", p, err)
		}
		seen[p.ID] = true
		return p.ID
	}
	for range 1500 {
		take()
	}
	for n := range 4 {
		if n == 2 { // somebody else's
			b := recordsOf(batch.BuilderOptions{Producer: batch.Producer{ID: 123_456}}, "x")
			if _, err := s.Append(t.Context(), partition(0), b, oncelog.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if n%2 == 0 {
			mem = mem.CrashClone(vfs.CrashOptions{})
		} else if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = oncelog.Open("data", oncelog.Options{FS: mem}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.Background()) })
		for range 10 {
			if id := take(); n >= 2 && id <= 123_456 {
				t.Fatalf("%d, and 123456 is in a log", id)
			}
		}
	}
	if len(slices.Collect(maps.Keys(seen))) != 1540 {
		t.Errorf("%d ids", len(seen))
	}
}

// TestNoTransactionsNoTopics: a store that never had a transaction has no internal
// topics.
func TestNoTransactionsNoTopics(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	p := newProducer(t, s, oncelog.ProducerOptions{})
	if _, err := p.Send(t.Context(), "t", message("", "x")); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCommitted(t, s, "g", partition(0), -1)
	if _, err := s.Transactions().Describe(t.Context(), "id"); !errors.Is(err, txn.ErrUnknownID) {
		t.Errorf("describe: %v", err)
	}
	if topics := s.Topics(); len(topics) != 1 {
		t.Errorf("topics are %+v", topics)
	}
}

// TestConditionalAppend: of two writers that saw the same end one is told; a retry of
// what is there is a duplicate all the same.
func TestConditionalAppend(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	first := recordsOf(batch.BuilderOptions{Producer: batch.Producer{ID: 7}}, "a", "b")
	expect := func(b batch.Batch, at int64) (oncelog.Appended, error) {
		return s.Append(t.Context(), partition(0), b, oncelog.AppendOptions{Expect: oncelog.ExpectOffset(at)})
	}
	if a, err := expect(first, 0); err != nil || a.BaseOffset != 0 {
		t.Fatalf("got %+v, %v", a, err)
	}
	if a, err := expect(first, 0); err != nil || !a.Duplicate || a.BaseOffset != 0 {
		t.Errorf("the retry: %+v, %v", a, err)
	}
	_, err := expect(recordsOf(batch.Plain, "c"), 0)
	var unexpected *oncelog.UnexpectedEndError
	if !errors.Is(err, oncelog.ErrUnexpectedEnd) || !errors.As(err, &unexpected) || *unexpected != (oncelog.UnexpectedEndError{Expected: 0, End: 2}) {
		t.Errorf("the second writer: %v", err)
	}
	if a, err := expect(recordsOf(batch.Plain, "c"), 2); err != nil || a.BaseOffset != 2 {
		t.Errorf("got %+v, %v", a, err)
	}
	l, err := s.Partition(partition(0))
	if err != nil {
		t.Fatal(err)
	}
	if info, known := l.Producer(7); !known || info.LastSequence != 1 {
		t.Errorf("the last sequence is %+v", info)
	}
}

// TestUndecided: who holds the last stable offset back, since when, and how much lies
// behind.
func TestUndecided(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	s := newStore(t, 2, oncelog.Options{Now: func() time.Time { return now }})
	mustAppend(t, s, partition(0), "before")
	if _, held, err := s.Undecided(partition(0)); held || err != nil {
		t.Errorf("held %t, %v", held, err)
	}
	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "slow", Linger: -1})
	began := now
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.SendTo(t.Context(), partition(0), message("", "x")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	behind := recordsOf(batch.Plain, "behind")
	if _, err := s.Append(t.Context(), partition(0), behind, oncelog.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	u, held, err := s.Undecided(partition(0))
	own := recordsOf(batch.Plain, "x")
	if err != nil || !held || u.TransactionalID != "slow" || u.Producer != p.ID() || !u.Since.Equal(began) || u.Offset != 1 || u.Bytes != int64(len(own)+len(behind)) {
		t.Errorf("got %+v, %t, %v", u, held, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u, held, err := s.Undecided(partition(0)); held || err != nil {
		t.Errorf("after the commit: %+v, %t, %v", u, held, err)
	}
	if _, _, err := s.Undecided(partition(9)); !errors.Is(err, oncelog.ErrUnknownPartition) {
		t.Errorf("unknown partition: %v", err)
	}
}
