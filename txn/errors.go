package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// What the coordinator refuses with, by what the caller can do about it.
var (
	// ErrConcurrent: the last transaction of this id is still being completed, or
	// another request for it is under way. Try again soon.
	ErrConcurrent = errors.New("txn: a change of this transactional id is under way")

	// ErrUnavailable: the transaction log cannot be written now, or a partition
	// does not serve. Try again once it does.
	ErrUnavailable = errors.New("txn: not available")

	// ErrNotInTransaction: the partition was not added to the transaction. Abort
	// it.
	ErrNotInTransaction = errors.New("txn: partition is not part of the transaction")

	// ErrTooManyPartitions: a record of the transaction log could not list them
	// all. Abort the transaction, and make smaller ones.
	ErrTooManyPartitions = errors.New("txn: too many partitions in a transaction")

	// ErrProducerFenced: a newer producer with the same transactional id was
	// initialised, or its transaction was aborted for it. Fatal.
	ErrProducerFenced = errors.New("txn: producer is fenced: its epoch is not the current one")

	// ErrInvalidState: there is no transaction that could be ended like this.
	// Fatal.
	ErrInvalidState = errors.New("txn: not possible in this state of the transaction")

	// ErrInvalidIDMapping: the transactional id is not known, or has another
	// producer id. Fatal: initialise the producer again.
	ErrInvalidIDMapping = errors.New("txn: producer id is not that of the transactional id")

	// ErrInvalidTimeout: the transaction timeout is not above 0 and at most
	// Options.TimeoutMax. Fatal.
	ErrInvalidTimeout = errors.New("txn: transaction timeout out of range")

	// ErrInvalidRequest: something in the call cannot be; the text says what.
	// Fatal.
	ErrInvalidRequest = errors.New("txn: invalid request")

	// ErrUnknownID: nothing is known of the transactional id.
	ErrUnknownID = errors.New("txn: unknown transactional id")

	// ErrOutcomeUnknown: the call ended before it was known how the transaction
	// ended: it may be committed, and goes on to its end if so. It wraps
	// log.ErrOutcomeUnknown.
	ErrOutcomeUnknown = fmt.Errorf("txn: it is not known how the transaction ended: %w", log.ErrOutcomeUnknown)

	// ErrCorrupt: the transaction log holds what cannot be read; see *RecordError.
	ErrCorrupt = errors.New("txn: damaged transaction log")

	// ErrClosed: the coordinator is closed.
	ErrClosed = fmt.Errorf("txn: coordinator: %w", log.ErrClosed)
)

// ErrPartitionGone is what Participants answer for a partition whose topic was
// deleted: there is nothing left that a marker could end.
var ErrPartitionGone = errors.New("txn: the partition is gone")

// PartitionsError tells which partitions are not part of a transaction. It
// unwraps to ErrNotInTransaction.
type PartitionsError struct {
	TransactionalID string
	Partitions      []topic.Partition
}

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("%v: %v of %q", ErrNotInTransaction, e.Partitions, e.TransactionalID)
}

func (e *PartitionsError) Unwrap() error { return ErrNotInTransaction }

// UnknownPartitionsError tells which partitions of a call are not there. None of
// the call's were added. It unwraps to ErrInvalidRequest.
type UnknownPartitionsError struct{ Partitions []topic.Partition }

func (e *UnknownPartitionsError) Error() string {
	return fmt.Sprintf("%v: there are no partitions %v; none was added", ErrInvalidRequest, e.Partitions)
}

func (e *UnknownPartitionsError) Unwrap() error { return ErrInvalidRequest }

// RecordError tells what is wrong with a record of the transaction log. It
// unwraps to ErrCorrupt.
type RecordError struct {
	Partition topic.Partition
	Offset    int64
	Reason    string
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%v: %s at offset %d: %s", ErrCorrupt, e.Partition, e.Offset, e.Reason)
}

func (e *RecordError) Unwrap() error { return ErrCorrupt }

// Class says what a caller can do about an error.
type Class uint8

// The classes.
const (
	ClassFatal     Class = iota // make a new producer, or change the program
	ClassRetriable              // try the same again
	ClassAbortable              // abort the transaction, then go on
	ClassUnknown                // it may have happened: ask again, or make a new producer
)

// String is for errors and logs.
func (c Class) String() string {
	return [...]string{"fatal", "retriable", "abortable", "outcome unknown"}[c]
}

// ClassOf gives the class of an error of this package, and of what a log refuses
// a batch of a transaction with.
func ClassOf(err error) Class {
	switch {
	case errors.Is(err, log.ErrOutcomeUnknown):
		return ClassUnknown
	case errors.Is(err, ErrConcurrent), errors.Is(err, ErrUnavailable), errors.Is(err, log.ErrNoSpace), errors.Is(err, log.ErrBusy),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ClassRetriable
	case errors.Is(err, ErrNotInTransaction), errors.Is(err, ErrTooManyPartitions):
		return ClassAbortable
	}
	return ClassFatal
}
