package journal

import (
	"errors"
	"fmt"
)

// Errors of this package; test with errors.Is.
var (
	// ErrDamaged is what every *DamageError wraps.
	ErrDamaged = errors.New("journal: damaged")
	// ErrNewerFormat says that a later version of the program wrote the file.
	ErrNewerFormat = errors.New("journal: written by a newer version")
	// ErrFailed says that a write or a sync of the journal failed: nothing
	// becomes durable any more until the store is opened again.
	ErrFailed = errors.New("journal: failed")
	// ErrClosed says that the journal was closed.
	ErrClosed = errors.New("journal: closed")
	// ErrSize says that Options.Bytes cannot work.
	ErrSize = errors.New("journal: size")
	// ErrBusy says that the journal was overwritten by a running store while it
	// was read, again and again.
	ErrBusy = errors.New("journal: overwritten while read")
)

// DamageError says where a journal or rescue file is not what was written, in
// a place that was durable: what it held cannot be served.
type DamageError struct {
	File   string
	Pos    int64  // byte position in the file
	Run    uint64 // sequence of the run; 0: the header
	Reason string
}

func (e *DamageError) Error() string {
	if e.Run == 0 {
		return fmt.Sprintf("%v: %s at byte %d: %s", ErrDamaged, e.File, e.Pos, e.Reason)
	}
	return fmt.Sprintf("%v: %s at byte %d, run %d: %s", ErrDamaged, e.File, e.Pos, e.Run, e.Reason)
}

func (e *DamageError) Unwrap() error { return ErrDamaged }
