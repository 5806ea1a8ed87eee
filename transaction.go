package oncelog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/oncelog/oncelog/txn"
)

// Txn is one transaction of a producer: what is sent in it, in any partitions, and
// the offsets in it become visible together, or never. It is safe for concurrent use.
//
// Its records are in the logs before it is committed: readers at ReadUncommitted see
// them. Leave nothing open: readers at ReadCommitted wait for its end.
type Txn struct {
	producer *Producer
	state    txnState              // the producer's gate guards it
	lost     atomic.Pointer[error] // why it can only be aborted
}

type txnState uint8

const (
	txnOpen    txnState = iota
	txnUnknown          // a commit was asked for, and no answer came
	txnDone
)

// Begin begins a transaction. Nothing is written before something is sent.
//
// Errors: ErrNotTransactional, ErrTxnOpen; if it is not known how the last one ended,
// what keeps it from being known now: ErrOutcomeUnknown, that of ctx; ErrClosed;
// txn.ErrProducerFenced.
func (p *Producer) Begin(ctx context.Context) (*Txn, error) {
	if !p.transactional() {
		return nil, ErrNotTransactional
	}
	p.gate.Lock()
	defer p.gate.Unlock()
	if err := p.usable(nil); err != nil {
		return nil, err
	}
	if t := p.txn; t != nil && t.state == txnUnknown {
		if err := t.end(ctx, true); err != nil {
			return nil, fmt.Errorf("end the last transaction: %w", err)
		}
	}
	if t := p.txn; t != nil && t.state == txnOpen {
		return nil, ErrTxnOpen
	}
	p.txn = &Txn{producer: p}
	p.touched.Store(false)
	return p.txn, nil
}

// Transact runs f in a transaction, which is committed if f returns no error and
// aborted else. The error is that of f, or of the commit.
func (p *Producer) Transact(ctx context.Context, f func(context.Context, *Txn) error) error {
	t, err := p.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { // f may panic
		if t.open() {
			_ = t.Abort(context.WithoutCancel(ctx))
		}
	}()
	if err := f(ctx, t); err != nil {
		if e := t.Abort(context.WithoutCancel(ctx)); e != nil && !errors.Is(e, ErrTxnEnded) {
			err = errors.Join(err, e)
		}
		return err
	}
	return t.Commit(ctx)
}

func (t *Txn) open() bool {
	t.producer.gate.RLock()
	defer t.producer.gate.RUnlock()
	return t.state == txnOpen && t.producer.txn == t
}

// Send is Producer.Send in the transaction. Errors beside: ErrTxnEnded.
func (t *Txn) Send(ctx context.Context, topic string, m Message) (Ack, error) {
	return t.producer.send(ctx, t, topic, nil, &m)
}

// SendTo is Send to a given partition.
func (t *Txn) SendTo(ctx context.Context, tp TopicPartition, m Message) (Ack, error) {
	return t.producer.send(ctx, t, "", &tp, &m)
}

// SendOffsets makes offsets of a consumer group part of the transaction: they are
// committed with it. The offset of a partition is that of the next record wanted, as
// Reader.Position tells it.
//
// Errors: ErrTxnEnded; those of Groups.CommitTransactional.
func (t *Txn) SendOffsets(ctx context.Context, group string, offsets ...OffsetCommit) error {
	p := t.producer
	p.gate.RLock()
	defer p.gate.RUnlock()
	if err := p.usable(t); err != nil {
		return err
	}
	p.touched.Store(true)
	err := p.store.groups.CommitTransactional(ctx, TransactionalCommit{
		Group: group, TransactionalID: p.o.TransactionalID, Producer: p.identity, Offsets: offsets,
	})
	if ClassOf(err) != ClassRetriable {
		t.lose(err)
	}
	return err
}

// lose notes the first error after which the transaction is not whole any more.
func (t *Txn) lose(err error) {
	if err != nil {
		t.lost.CompareAndSwap(nil, &err)
	}
}

// Commit sends what is left and commits. When it returns without error everything
// that was sent is visible, and safe at the strongest level of all partitions, of the
// producer, and of the committed offsets.
//
// Errors, by what to do (ClassOf): retriable and that of ctx: nothing is decided,
// try again or abort; abortable (a record of it was lost): Abort; ErrOutcomeUnknown:
// it may be committed: Commit again tells, as does the next Begin; fatal
// (txn.ErrProducerFenced): a newer producer has the id; ErrTxnEnded.
func (t *Txn) Commit(ctx context.Context) error {
	p := t.producer
	p.gate.Lock()
	defer p.gate.Unlock()
	if t.state == txnUnknown && p.txn == t && !p.closed && p.failed == nil {
		return t.end(ctx, true)
	}
	if err := p.usable(t); err != nil {
		return err
	}
	for _, l := range p.all() {
		if err := l.flush(ctx); err != nil && !l.idle() {
			return err
		}
		t.lose(l.lost())
	}
	if lost := t.lost.Load(); lost != nil {
		return fmt.Errorf("%w: %w", ErrAbortNeeded, *lost)
	}
	return t.end(ctx, true)
}

// Abort gives the transaction up: what was sent is never shown at ReadCommitted, and
// the offsets are not committed. Errors: as Commit; after a Commit whose outcome is
// not known, ErrOutcomeUnknown: Commit again.
func (t *Txn) Abort(ctx context.Context) error {
	p := t.producer
	p.gate.Lock()
	defer p.gate.Unlock()
	if t.state == txnUnknown && p.txn == t {
		return fmt.Errorf("%w: it may be committed; Commit again", ErrOutcomeUnknown)
	}
	if err := p.usable(t); err != nil {
		return err
	}
	return t.abort(ctx)
}

func (t *Txn) abort(ctx context.Context) error {
	for _, l := range t.producer.all() {
		l.drop()
	}
	return t.end(ctx, false)
}

// end asks the coordinator to end it, if it knows of it.
func (t *Txn) end(ctx context.Context, commit bool) error {
	p := t.producer
	if !p.touched.Load() {
		t.done()
		return nil
	}
	next, err := p.store.Transactions().End(ctx, p.o.TransactionalID, p.identity,
		txn.EndOptions{Commit: commit, TV2: true, Durability: p.o.Durability})
	switch {
	case err == nil:
		p.identity = next
		t.done()
	case errors.Is(err, ErrOutcomeUnknown):
		if commit {
			t.state = txnUnknown
		}
	case txn.ClassOf(err) == txn.ClassFatal:
		p.failed = fmt.Errorf("producer of %q: %w", p.o.TransactionalID, err)
		t.done()
		return p.failed
	}
	return err
}

// done forgets what only concerned this transaction.
func (t *Txn) done() {
	t.state = txnDone
	for _, l := range t.producer.all() {
		l.drop()
	}
}
