package oncelog

import (
	"errors"

	"github.com/oncelog/oncelog/txn"
)

// Class says what the caller can do about an error of producers and transactions.
type Class = txn.Class

// The classes.
const (
	ClassFatal     = txn.ClassFatal     // make a new producer, or change the program
	ClassRetriable = txn.ClassRetriable // try the same again
	ClassAbortable = txn.ClassAbortable // abort the transaction, then go on
	ClassUnknown   = txn.ClassUnknown   // it may have happened: ask again, or make a new producer
)

// What a producer refuses with.
var (
	// ErrTxnNeeded: a producer with a transactional id sends in transactions: Begin
	// one. Fatal.
	ErrTxnNeeded = errors.New("oncelog: this producer is transactional: begin a transaction and send in it")
	// ErrNotTransactional: the producer has no transactional id. Fatal.
	ErrNotTransactional = errors.New("oncelog: transactions need a producer with a TransactionalID")
	// ErrTxnOpen: the last transaction of the producer was neither committed nor
	// aborted. Fatal.
	ErrTxnOpen = errors.New("oncelog: the producer has an open transaction: commit or abort it first")
	// ErrTxnEnded: the transaction was committed or aborted already. Fatal.
	ErrTxnEnded = errors.New("oncelog: the transaction has ended")
	// ErrAbortNeeded: something that was sent in the transaction is lost, so it
	// cannot be committed. Abortable; it wraps why.
	ErrAbortNeeded = errors.New("oncelog: not all of the transaction is there: abort it")
	// ErrAborted: the record was sent in a transaction that was aborted.
	ErrAborted = errors.New("oncelog: the transaction was aborted")
)

// ClassOf gives the class of an error of a producer, a transaction, or an append.
func ClassOf(err error) Class {
	if errors.Is(err, ErrAbortNeeded) {
		return ClassAbortable
	}
	return txn.ClassOf(err)
}
