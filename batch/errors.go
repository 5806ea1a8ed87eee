package batch

import (
	"errors"
	"fmt"
)

// What can be wrong with a batch. The number in each comment is the error code
// that Kafka answers a producer with.
var (
	// ErrShort: fewer bytes than the batch says it has, or than a header. A
	// torn tail and an answer cut at its limit look like this.
	ErrShort = errors.New("batch: bytes end before the batch does")
	// ErrCorrupt: framing, checksum or compressed data do not hold (2).
	ErrCorrupt = errors.New("batch: corrupt")
	// ErrLegacyMagic: a message of format 0 or 1, written before Kafka 0.11 (87).
	ErrLegacyMagic = errors.New("batch: message format 0 or 1 is not supported, only 2")
	// ErrInvalidRecord: whole and undamaged, but against the rules (87).
	ErrInvalidRecord = errors.New("batch: invalid record")
	// ErrInvalidTimestamp: a timestamp outside of what the topic allows (32).
	ErrInvalidTimestamp = errors.New("batch: invalid timestamp")
	// ErrTooLarge: more bytes than a batch may have (10).
	ErrTooLarge = errors.New("batch: too large")
	// ErrUnsupportedCodec: a codec id that names no codec (76).
	ErrUnsupportedCodec = errors.New("batch: unknown compression codec")
	// ErrDecompressedTooLarge: the records need more memory than the limit (10).
	ErrDecompressedTooLarge = errors.New("batch: decompressed records exceed the limit")
)

// FormatError says where in a batch what was found.
type FormatError struct {
	Pos    int    // of the field, in bytes from the start of the batch
	Reason string // what is wrong with it
	Err    error  // one of the errors of this package
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d", e.Err, e.Reason, e.Pos)
}

func (e *FormatError) Unwrap() error { return e.Err }

// MagicError is the refusal of a message of a legacy format. It is an
// ErrLegacyMagic.
type MagicError struct {
	Magic int8 // 0 or 1
}

func (e *MagicError) Error() string {
	return fmt.Sprintf("%v: this is %d", ErrLegacyMagic, e.Magic)
}

func (e *MagicError) Unwrap() error { return ErrLegacyMagic }

// RecordError says which record of a batch is wrong.
type RecordError struct {
	Index  int    // of the record in the batch, from 0
	Pos    int    // where it begins, in bytes from the start of the decompressed records
	Reason string // what is wrong
	Err    error  // one of the errors of this package
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%v: record %d at byte %d of the records: %s", e.Err, e.Index, e.Pos, e.Reason)
}

func (e *RecordError) Unwrap() error { return e.Err }

func corrupt(pos int, format string, args ...any) error {
	return &FormatError{Pos: pos, Reason: fmt.Sprintf(format, args...), Err: ErrCorrupt}
}

func invalid(pos int, format string, args ...any) error {
	return &FormatError{Pos: pos, Reason: fmt.Sprintf(format, args...), Err: ErrInvalidRecord}
}
