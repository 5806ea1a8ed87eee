package oncelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// AppendOptions of Append; the zero value waits for the level of the topic.
type AppendOptions = log.AppendOptions

// Appended tells where a batch is.
type Appended = log.Appended

// Append gives b, exactly one record batch as a producer built it, the next
// offsets of a partition, and returns when it is safe at the level of the
// topic, or of o if that is stronger. b is not modified and not kept. A batch
// that an idempotent producer sent before is not stored again: the answer is
// that of the original, with Duplicate set.
//
// Errors: ErrUnknownPartition; ErrTransactional; those of package batch for
// what is wrong with b (control batches are refused, and in a compacted topic
// records without a key); ErrOutOfOrder, ErrDuplicate, ErrFenced, ErrTxnState;
// ErrNoSpace (nothing was stored, try again later); ErrOutcomeUnknown (ctx
// ended, or the partition was closed, while the batch waited to be durable);
// ErrLatched; ErrReadOnly; ErrClosed.
func (s *Store) Append(ctx context.Context, tp TopicPartition, b batch.Batch, o AppendOptions) (Appended, error) {
	l, err := s.Partition(tp)
	if err != nil {
		return Appended{}, err
	}
	// Read without a check: what is too short for a header is told by the log.
	if len(b) >= batch.HeaderSize && b.IsTransactional() {
		return Appended{}, ErrTransactional
	}
	a, err := l.Append(ctx, b, o)
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
