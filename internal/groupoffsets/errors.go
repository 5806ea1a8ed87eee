package groupoffsets

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/topic"
)

// What this package refuses or reports. Appends are refused with the errors of
// package log besides: a fenced producer, a full device, an unknown outcome.
var (
	// ErrUnstable: an open transaction holds an offset for the partition. Ask
	// again once it has ended.
	ErrUnstable = errors.New("groupoffsets: an offset of the partition is pending in a transaction")

	// ErrUnknownGroup: nothing is known of the group.
	ErrUnknownGroup = errors.New("groupoffsets: unknown group")

	// ErrInvalidGroup: no record can name the group, or an offset in a transaction
	// names none.
	ErrInvalidGroup = errors.New("groupoffsets: invalid group")

	// ErrInvalidCommit: an offset that cannot be committed; see *CommitError.
	ErrInvalidCommit = errors.New("groupoffsets: invalid offset")

	// ErrMetadataTooLong: the text beside an offset is longer than
	// Options.MetadataBytesMax; see *CommitError.
	ErrMetadataTooLong = errors.New("groupoffsets: metadata too long")

	// ErrNoPartitions: the topic of committed offsets is not there.
	ErrNoPartitions = errors.New("groupoffsets: there is no __consumer_offsets")

	// ErrDamaged: the log of committed offsets holds what cannot be read; see
	// *DamageError.
	ErrDamaged = errors.New("groupoffsets: damaged log of committed offsets")
)

// CommitError tells which offset of a call cannot be committed. None of the
// call's was. It unwraps to ErrInvalidCommit or ErrMetadataTooLong.
type CommitError struct {
	Partition topic.Partition
	Reason    string
	Err       error
}

func (e *CommitError) Error() string {
	return fmt.Sprintf("%v: of %s: %s", e.Err, e.Partition, e.Reason)
}

func (e *CommitError) Unwrap() error { return e.Err }

// DamageError tells where the log of committed offsets cannot be read. Nothing is
// answered for groups of that partition, since what is lost may be the newest
// offset of any. It unwraps to ErrDamaged and to the cause, a
// *log.CorruptionError if it is a batch.
type DamageError struct {
	Partition topic.Partition
	Offset    int64 // of the record; of a batch the offset expected there
	Err       error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%v: %s at offset %d: %v; repair the partition", ErrDamaged, e.Partition, e.Offset, e.Err)
}

func (e *DamageError) Unwrap() []error { return []error{ErrDamaged, e.Err} }
