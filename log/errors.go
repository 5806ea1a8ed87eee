package log

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/segment"
)

// What the operations of a log refuse or report. Test with errors.Is.
// Batches are refused with the errors of package batch, producers with those
// that the root package names (fenced epoch, sequence, transaction state).
var (
	// ErrClosed: the log was closed, or its topic deleted.
	ErrClosed = errors.New("log: closed")
	// ErrReadOnly: the log was opened for reading only.
	ErrReadOnly = errors.New("log: opened read-only")
	// ErrOffsetOutOfRange: the offset lies outside the log; see *OffsetError.
	ErrOffsetOutOfRange = errors.New("log: offset out of range")
	// ErrOutcomeUnknown: the wait for durability ended early. The append is in
	// the log and may survive a crash or not.
	ErrOutcomeUnknown = errors.New("log: outcome unknown")
	// ErrTruncated: a truncation took the append before it was safe. It is not in
	// the log.
	ErrTruncated = errors.New("log: truncated before it was safe")
	// ErrBusy: the append would have to wait, and was told not to. Nothing was
	// written.
	ErrBusy = errors.New("log: busy")
	// ErrLatched: an earlier write or flush failed; the log takes no more
	// appends until it is reopened. It wraps that failure.
	ErrLatched = errors.New("log: latched by an earlier I/O error")
	// ErrNoSpace: the device is full. Nothing was written; appends work again
	// once there is room.
	ErrNoSpace = segment.ErrNoSpace
	// ErrBatchTooLarge: the append is larger than a segment may be.
	ErrBatchTooLarge = errors.New("log: append larger than a segment")
	// ErrUnexpectedOffset: a replica's batches do not continue the log.
	ErrUnexpectedOffset = errors.New("log: batch does not start at the log end")
	// ErrStaleLeaderEpoch: the leader epoch is older than one already seen.
	ErrStaleLeaderEpoch = errors.New("log: leader epoch is older than the log's")
	// ErrNotBatchBoundary: a truncation offset lies inside a batch.
	ErrNotBatchBoundary = errors.New("log: offset lies inside a batch")
	// ErrBelowHighWatermark: a truncation would take back what readers saw.
	ErrBelowHighWatermark = errors.New("log: offset lies below the high watermark")
	// ErrNotDeletable: the topic is compacted only, so records are not deleted
	// by offset.
	ErrNotDeletable = errors.New("log: cleanup policy does not allow deleting records")
	// ErrCorrupt: bytes that were durable once are damaged; see *CorruptionError.
	ErrCorrupt = errors.New("log: damaged")
)

// OffsetError tells what the log holds. It unwraps to ErrOffsetOutOfRange.
type OffsetError struct {
	Requested, LogStart, LogEnd int64
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("log: offset %d out of range: the log holds %d to %d (exclusive)", e.Requested, e.LogStart, e.LogEnd)
}
func (e *OffsetError) Unwrap() error { return ErrOffsetOutOfRange }

// CorruptionError reports damage in a file that was durable once. It unwraps
// to ErrCorrupt and to the cause.
type CorruptionError struct {
	File   string
	Pos    int64 // byte position of the damage
	Offset int64 // log offset expected there
	// ReadableFrom is the base offset of the next batch behind the damage that
	// checks out, -1 if none was found.
	ReadableFrom int64
	Err          error
}

func (e *CorruptionError) Error() string {
	after := "nothing readable was found after it"
	if e.ReadableFrom >= 0 {
		after = fmt.Sprintf("readable again from offset %d", e.ReadableFrom)
	}
	return fmt.Sprintf("log: %s is damaged at byte %d (offset %d): %v; %s", e.File, e.Pos, e.Offset, e.Err, after)
}
func (e *CorruptionError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }
