package oncelog

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/groupoffsets"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/log"
	"github.com/oncelog/oncelog/txn"
)

// TransactionOptions of a store's coordinator. The zero value takes every default.
type TransactionOptions = txn.Options

// Transactions is the coordinator of transactions: identities of producers, what a
// transaction is in, how it ends. What was decided before the store was opened is
// carried on, and what is open for too long is aborted, without anybody asking.
//
// On a store that is only read, or with Options.Transactions.ReadOnly, it tells what
// is there, and everything else answers ErrReadOnly.
func (s *Store) Transactions() *txn.Coordinator { return s.transactions }

// openTransactions opens the coordinator.
func (s *Store) openTransactions(o Options) error {
	s.participants = &participants{catalog: s.catalog, level: cmp.Or(o.Durability, DurabilityFsync)}
	t := o.Transactions
	t.ReadOnly = o.ReadOnly || t.ReadOnly
	t.Torn = s.participants.torn
	if t.Now == nil {
		t.Now = o.Now
	}
	var err error
	if s.transactions, err = txn.Open(context.Background(), t, s.participants); err != nil {
		return err
	}
	s.groups = &Groups{s, groupoffsets.New(groupoffsets.Options{Retention: o.OffsetsRetention, Now: s.now}, offsetLogs{s})}
	return nil
}

// ErrNoTransactionalID: a transactional batch came without AppendOptions.TransactionalID.
var ErrNoTransactionalID = errors.New("oncelog: a transactional batch needs AppendOptions.TransactionalID: whose transaction it is")

// enlist sees to it that a partition is part of the transaction that a batch belongs
// to, before the first batch of it goes into the log.
func (s *Store) enlist(ctx context.Context, l *log.Log, tp TopicPartition, producer batch.Producer, sequence int32, o *AppendOptions) (g producerstate.Guard, err error) {
	g, needed, err := l.Guard(producer, sequence, !o.Verify)
	if err != nil || !needed {
		return g, err
	}
	if o.TransactionalID == "" {
		return 0, ErrNoTransactionalID
	}
	list := enlisted.Get().(*[1]TopicPartition)
	defer enlisted.Put(list)
	list[0] = tp
	if o.Verify {
		return g, s.transactions.Verify(ctx, o.TransactionalID, producer, list[:])
	}
	return g, s.transactions.Enlist(ctx, o.TransactionalID, producer, list[:])
}

var enlisted = sync.Pool{New: func() any { return new([1]TopicPartition) }}
