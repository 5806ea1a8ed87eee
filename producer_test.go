package oncelog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/txn"
)

func newProducer(t testing.TB, s *oncelog.Store, o oncelog.ProducerOptions) *oncelog.Producer {
	t.Helper()
	p, err := s.NewProducer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}

func message(key, value string) oncelog.Message {
	m := oncelog.Message{Value: []byte(value)}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}

// valuesOf are what a new reader delivers.
func valuesOf(t *testing.T, s *oncelog.Store, i oncelog.Isolation) (all []string) {
	t.Helper()
	for _, v := range readAll(t, newReader(t, s, oncelog.ReaderOptions{Topic: "t", Isolation: i})) {
		_, value, _ := strings.Cut(v, "=")
		all = append(all, value)
	}
	return all
}

// TestProducer sends from many goroutines to many partitions: each record is there
// once, where its Ack says, and those of a key in the order they were sent.
func TestProducer(t *testing.T) {
	for _, o := range []oncelog.ProducerOptions{
		{}, {Linger: -1}, {BatchBytes: 300}, {Compression: batch.CodecZstd, BatchBytes: 4096}, {Durability: oncelog.DurabilityFsync},
	} {
		s := newStore(t, 4, oncelog.Options{})
		p := newProducer(t, s, o)
		const senders, each = 6, 100
		var mu sync.Mutex
		at := map[string]string{}
		var group sync.WaitGroup
		for n := range senders {
			group.Go(func() {
				for i := range each {
					value := fmt.Sprintf("%d-%03d", n, i)
					a, err := p.Send(t.Context(), "t", message(fmt.Sprint("key", n), value))
					if err != nil {
						t.Error(err)
						return
					}
					if i%40 != 0 {
						continue
					}
					offset, err := a.Wait(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					at[value] = fmt.Sprintf("%d:%d", a.Partition().Index, offset)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen, last := 0, map[byte]string{}
		for _, r := range readAll(t, newReader(t, s, oncelog.ReaderOptions{Topic: "t"})) {
			place, value, _ := strings.Cut(r, "=")
			seen++
			if before := last[value[0]]; before >= value {
				t.Errorf("%q follows %q", value, before)
			}
			last[value[0]] = value
			if want, waited := at[value]; waited && want != place {
				t.Errorf("%q is at %s, its ack said %s", value, place, want)
			}
		}
		if seen != senders*each {
			t.Errorf("%d records, want %d", seen, senders*each)
		}
	}
}

// TestLinger: a record is in the log after its linger time, without any other call.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memStore(t, 1)
		p := newProducer(t, s, oncelog.ProducerOptions{Linger: 20 * time.Millisecond})
		if _, err := p.Send(t.Context(), "t", message("", "a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(19 * time.Millisecond)
		synctest.Wait()
		l, err := s.Partition(partition(0))
		if err != nil {
			t.Fatal(err)
		}
		if end := l.Frontiers().LogEnd; end != 0 {
			t.Errorf("the log ends at %d too early", end)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if end := l.Frontiers().LogEnd; end != 1 {
			t.Errorf("the log ends at %d, want 1", end)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestProducerAfterTopicWasMadeAnew: the new log has never heard of the producer's
// sequences; what is sent is neither refused nor stored twice.
func TestProducerAfterTopicWasMadeAnew(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	p := newProducer(t, s, oncelog.ProducerOptions{})
	send := func(value string) error {
		a, err := p.Send(t.Context(), "t", message("", value))
		if err == nil {
			_, err = a.Wait(t.Context())
		}
		return err
	}
	for _, v := range []string{"a", "b"} {
		if err := send(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if err := send("lost"); !errors.Is(err, oncelog.ErrUnknownPartition) {
		t.Errorf("send to a deleted topic: %v", err)
	}
	if err := s.CreateTopic(t.Context(), "t", oncelog.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"c", "d"} {
		if err := send(v); err != nil {
			t.Fatal(err)
		}
	}
	if got := valuesOf(t, s, oncelog.ReadUncommitted); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("the log has %q", got)
	}
}

// TestTooLargeMessage is lost alone, and told of by its ack and by Flush, once.
func TestTooLargeMessage(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	p := newProducer(t, s, oncelog.ProducerOptions{})
	if _, err := p.Send(t.Context(), "t", message("", "before")); err != nil {
		t.Fatal(err)
	}
	a, err := p.Send(t.Context(), "t", message("", strings.Repeat("x", 2<<20)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(t.Context(), "t", message("", "after")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Wait(t.Context()); !errors.Is(err, batch.ErrTooLarge) {
		t.Errorf("wait: %v", err)
	}
	if err := p.Flush(t.Context()); !errors.Is(err, batch.ErrTooLarge) {
		t.Errorf("flush: %v", err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Errorf("second flush: %v", err)
	}
	if got := valuesOf(t, s, oncelog.ReadUncommitted); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("the log has %q", got)
	}
}

// TestTransaction: what is sent in a transaction is shown with its commit, in all
// partitions, and what was aborted never.
func TestTransaction(t *testing.T) {
	s := newStore(t, 3, oncelog.Options{})
	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id", Linger: -1})
	var want []string
	for n := range 12 {
		tx, err := p.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if _, err := tx.SendTo(t.Context(), partition(i%3), message("", fmt.Sprintf("%02d-%d", n, i))); err != nil {
				t.Fatal(err)
			}
		}
		if got := valuesOf(t, s, oncelog.ReadCommitted); len(got) != len(want) {
			t.Errorf("%d records are shown before the end of transaction %d, want %d", len(got), n, len(want))
		}
		if n%3 == 1 {
			err = tx.Abort(t.Context())
		} else {
			err = tx.Commit(t.Context())
			for i := range 5 {
				want = append(want, fmt.Sprintf("%02d-%d", n, i))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		got := valuesOf(t, s, oncelog.ReadCommitted)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("shown are %q, want %q", got, want)
		}
	}
	if got := len(valuesOf(t, s, oncelog.ReadUncommitted)); got != 60 {
		t.Errorf("%d records are in the logs, want 60", got)
	}
}

// TestEmptyTransactions leave no trace in any log.
func TestEmptyTransactions(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"})
	before := p.ID()
	for i := range 4 {
		tx, err := p.Begin(t.Context())
		if err == nil && i%2 == 0 {
			err = tx.Commit(t.Context())
		} else if err == nil {
			err = tx.Abort(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if p.ID() != before {
		t.Errorf("the producer is %v, was %v", p.ID(), before)
	}
}

// TestMisuse: each mistake has its error, and leaves producer and store right.
func TestMisuse(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	ctx := t.Context()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	plain := newProducer(t, s, oncelog.ProducerOptions{})
	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"})
	begin := func() *oncelog.Txn {
		t.Helper()
		tx, err := p.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Send(ctx, "t", message("", "x")); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	expect := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := plain.Begin(ctx)
	expect("begin without an id", err, oncelog.ErrNotTransactional)
	_, err = p.Send(ctx, "t", message("", "x"))
	expect("send without a transaction", err, oncelog.ErrTxnNeeded)
	_, err = plain.Send(ctx, "none", message("", "x"))
	expect("send to an unknown topic", err, oncelog.ErrUnknownPartition)
	_, err = plain.SendTo(ctx, partition(7), message("", "x"))
	expect("send to an unknown partition", err, oncelog.ErrUnknownPartition)
	_, err = plain.Send(ended, "t", message("", "x"))
	expect("send with a context that ended", err, context.Canceled)
	_, err = plain.Send(ctx, "t", oncelog.Message{Timestamp: time.UnixMilli(-5)})
	expect("a time before 1970", err, batch.ErrInvalidTimestamp)
	for _, timeout := range []time.Duration{-1, time.Hour} {
		_, err = s.NewProducer(ctx, oncelog.ProducerOptions{TransactionalID: "other", TransactionTimeout: timeout})
		expect("a timeout out of range", err, txn.ErrInvalidTimeout)
	}
	_, err = s.NewProducer(ctx, oncelog.ProducerOptions{BatchBytes: -1})
	expect("negative BatchBytes", err, oncelog.ErrInvalidOptions)

	tx := begin()
	_, err = p.Begin(ctx)
	expect("begin twice", err, oncelog.ErrTxnOpen)
	expect("commit with a context that ended", tx.Commit(ended), context.Canceled)
	expect("commit after that", tx.Commit(ctx), nil)
	expect("commit twice", tx.Commit(ctx), oncelog.ErrTxnEnded)
	expect("abort after commit", tx.Abort(ctx), oncelog.ErrTxnEnded)
	_, err = tx.Send(ctx, "t", message("", "x"))
	expect("send after commit", err, oncelog.ErrTxnEnded)

	tx = begin()
	expect("abort", tx.Abort(ctx), nil)
	_, err = tx.Send(ctx, "t", message("", "x"))
	expect("send after abort", err, oncelog.ErrTxnEnded)
	expect("commit after abort", tx.Commit(ctx), oncelog.ErrTxnEnded)

	// What is lost in a transaction takes it along.
	tx = begin()
	if _, err = tx.Send(ctx, "t", message("", strings.Repeat("x", 2<<20))); err != nil {
		t.Fatal(err)
	}
	err = tx.Commit(ctx)
	expect("commit without all", err, oncelog.ErrAbortNeeded)
	expect("commit without all", err, batch.ErrTooLarge)
	if c := oncelog.ClassOf(err); c != oncelog.ClassAbortable {
		t.Errorf("it is %v", c)
	}
	expect("abort", tx.Abort(ctx), nil)

	// A newer producer fences.
	tx = begin()
	newer := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"})
	err = tx.Commit(ctx)
	if c := oncelog.ClassOf(err); err == nil || c != oncelog.ClassFatal && c != oncelog.ClassAbortable {
		t.Errorf("a fenced commit: %v, %v", err, c)
	}
	expect("abort of a fenced one", tx.Abort(ctx), txn.ErrProducerFenced)
	_, err = p.Begin(ctx)
	expect("begin of a fenced one", err, txn.ErrProducerFenced)

	p = newer
	tx = begin()
	expect("commit of the newer", tx.Commit(ctx), nil)
	expect("close", p.Close(ctx), nil)
	expect("close again", p.Close(ctx), nil)
	_, err = p.Begin(ctx)
	expect("begin after close", err, oncelog.ErrClosed)
	expect("commit after close", tx.Commit(ctx), oncelog.ErrClosed)
	if _, err := plain.Send(ctx, "t", message("", "plain")); err != nil {
		t.Error(err)
	}
	expect("flush", plain.Flush(ctx), nil)
	if got := valuesOf(t, s, oncelog.ReadCommitted); !slices.Equal(got, []string{"x", "x", "plain"}) {
		t.Errorf("shown are %q", got)
	}
	expect("close of the store", s.Close(ctx), nil)
	_, err = plain.Send(ctx, "t", message("", "x"))
	if err == nil {
		err = plain.Flush(ctx)
	}
	expect("send after the store is closed", err, oncelog.ErrClosed)
}

// TestTransact aborts when the function fails or panics, and commits else.
func TestTransact(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id"})
	send := func(value string, end func() error) error {
		return p.Transact(t.Context(), func(ctx context.Context, tx *oncelog.Txn) error {
			if _, err := tx.Send(ctx, "t", message("", value)); err != nil {
				return err
			}
			return end()
		})
	}
	failed := errors.New("failed")
	if err := send("a", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := send("b", func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_ = send("c", func() error { panic("c") })
	}()
	if err := send("d", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := valuesOf(t, s, oncelog.ReadCommitted); !slices.Equal(got, []string{"a", "d"}) {
		t.Errorf("shown are %q", got)
	}
}

// TestTransactionTimesOut: it is aborted, its producer is fenced, and readers go on.
func TestTransactionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memStore(t, 1)
		p := newProducer(t, s, oncelog.ProducerOptions{TransactionalID: "id", TransactionTimeout: 5 * time.Second})
		tx, err := p.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Send(t.Context(), "t", message("", "late")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		appendValues(t, s, 0, "other")
		if got := valuesOf(t, s, oncelog.ReadCommitted); !slices.Equal(got, []string{"other"}) {
			t.Errorf("shown are %q", got)
		}
		if err := tx.Commit(t.Context()); oncelog.ClassOf(err) != oncelog.ClassFatal {
			t.Errorf("commit: %v", err)
		}
		p.Close(t.Context())
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
