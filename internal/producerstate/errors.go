package producerstate

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
)

// What Check refuses an append with, and LoadSnapshot a file. Test with
// errors.Is; *SequenceError, *EpochError and *SnapshotError carry the facts.
var (
	// ErrOutOfOrderSequence: a batch is missing before this one, or the
	// producer must begin at 0.
	ErrOutOfOrderSequence = errors.New("producerstate: sequence out of order")

	// ErrDuplicateSequence: all sequences of the batch lie at or below the
	// last accepted one of its epoch, but its place is no longer remembered.
	// It was stored; it is not stored again. It wraps ErrOutOfOrderSequence.
	ErrDuplicateSequence = fmt.Errorf("producerstate: already stored, further back than is remembered: %w", ErrOutOfOrderSequence)

	// ErrInvalidProducerEpoch: the producer, or the marker of its
	// transaction, is older than what the partition has seen.
	ErrInvalidProducerEpoch = errors.New("producerstate: producer epoch is fenced")

	// ErrInvalidTxnState: a transactional batch that the coordinator was not
	// asked about, or a plain one inside an open transaction.
	ErrInvalidTxnState = errors.New("producerstate: batch does not fit the state of the transaction")

	// ErrCoordinatorFenced: the marker comes from a coordinator that has
	// been replaced.
	ErrCoordinatorFenced = errors.New("producerstate: transaction coordinator is fenced")

	// ErrSnapshot: the bytes are no producer snapshot that can be used.
	ErrSnapshot = errors.New("producerstate: damaged snapshot")
)

// SequenceError tells which sequence was due. It unwraps to
// ErrOutOfOrderSequence or ErrDuplicateSequence.
type SequenceError struct {
	Producer batch.Producer
	Want     int32 // the sequence that would have been accepted
	Got      int32 // the first sequence of the batch
	Err      error
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("%v: producer %d epoch %d: want %d, got %d", e.Err, e.Producer.ID, e.Producer.Epoch, e.Want, e.Got)
}

func (e *SequenceError) Unwrap() error { return e.Err }

// EpochError tells which epoch the partition knows. It unwraps to
// ErrInvalidProducerEpoch.
type EpochError struct {
	Producer batch.Producer
	Current  int16 // of the producer id in this partition
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("%v: producer %d epoch %d, partition has %d", ErrInvalidProducerEpoch, e.Producer.ID, e.Producer.Epoch, e.Current)
}

func (e *EpochError) Unwrap() error { return ErrInvalidProducerEpoch }

// SnapshotError tells what is wrong with the bytes of a snapshot. It unwraps
// to ErrSnapshot.
type SnapshotError struct {
	Pos    int64 // byte at which it shows
	Reason string
}

func (e *SnapshotError) Error() string {
	return fmt.Sprintf("%v: at byte %d: %s", ErrSnapshot, e.Pos, e.Reason)
}

func (e *SnapshotError) Unwrap() error { return ErrSnapshot }
