package oncelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// AppendOptions of Append; the zero value waits for the level of the topic.
type AppendOptions struct {
	// Durability strengthens the acknowledgement of this append beyond the topic's;
	// it does not change when readers see it.
	Durability Durability
	// NoWait returns once the batch is published; the log's Await waits.
	NoWait bool
	// Expect refuses the batch with an *UnexpectedEndError unless it gets this offset:
	// a writer that has read everything before it appends on condition that nobody
	// else did meanwhile. A batch that is in the log already is a duplicate all the
	// same.
	Expect Expectation
	// TransactionalID is whose transaction a transactional batch belongs to. Its
	// first batch in a partition makes that part of the transaction.
	TransactionalID string
	// Verify takes the first batch only if Transactions().AddPartitions made the
	// partition part of the transaction before, as older clients do.
	Verify bool
}

// Expectation is an offset that a batch must get, or none.
type Expectation = log.Expectation

// ExpectOffset expects a partition to end at an offset.
func ExpectOffset(offset int64) Expectation { return log.ExpectOffset(offset) }

// Appended tells where a batch is.
type Appended = log.Appended

// Append gives b, exactly one record batch as a producer built it, the next
// offsets of a partition, and returns when it is safe at the level of the
// topic, or of o if that is stronger. b is not modified and not kept. A batch
// that an idempotent producer sent before is not stored again: the answer is
// that of the original, with Duplicate set.
//
// Errors: ErrUnknownPartition; those of Transactions().Enlist and Verify, and
// ErrNoTransactionalID, for a transactional batch; those of package batch for
// what is wrong with b (control batches are refused, and in a compacted topic
// records without a key); ErrOutOfOrder, ErrDuplicate, ErrFenced, ErrTxnState;
// ErrUnexpectedEnd; ErrNoSpace (nothing was stored, try again later); ErrOutcomeUnknown (ctx
// ended, or the partition was closed, while the batch waited to be durable);
// ErrLatched; ErrReadOnly; ErrClosed.
func (s *Store) Append(ctx context.Context, tp TopicPartition, b batch.Batch, o AppendOptions) (Appended, error) {
	l, err := s.Partition(tp)
	if err != nil {
		return Appended{}, err
	}
	lo := log.AppendOptions{Durability: o.Durability, NoWait: o.NoWait, Expect: o.Expect}
	// Read without a check: what is too short for a header is told by the log.
	if len(b) >= batch.HeaderSize && b.IsTransactional() && !b.IsControl() {
		if lo.Guard, err = s.enlist(ctx, l, tp, b.Producer(), b.BaseSequence(), &o); err != nil {
			return Appended{}, s.gone(tp, err)
		}
	}
	a, err := l.Append(ctx, b, lo)
	if err != nil {
		return a, s.gone(tp, err)
	}
	return a, nil
}

// gone tells of a log that was closed under a call why it was: with its topic
// it becomes unknown.
func (s *Store) gone(tp TopicPartition, err error) error {
	if !errors.Is(err, log.ErrClosed) {
		return err
	}
	if _, e := s.Partition(tp); errors.Is(e, ErrUnknownPartition) {
		return fmt.Errorf("%w: %w", e, err)
	}
	return err
}
