package index

import (
	"errors"
	"fmt"
)

var (
	// ErrUnordered says that an entry does not come after the last one.
	ErrUnordered = errors.New("index: entry out of order")
	// ErrOverflow says that an offset or a position is not in the range of
	// 32 bits that the file has for it: the segment must be rolled first.
	ErrOverflow = errors.New("index: offset or position out of range")
	// ErrReadOnly says that an append was tried on a view.
	ErrReadOnly = errors.New("index: append to a view")
)

// The kinds of a FormatError.
const (
	kindOffset = ".index"
	kindTime   = ".timeindex"
	kindTxn    = ".txnindex"
)

// FormatError says that the bytes of an index file are not those of a sound
// one. The index is then to be rebuilt from the log.
type FormatError struct {
	Kind   string // suffix of the file: .index, .timeindex or .txnindex
	Pos    int64  // of the entry, or of what is too much, in bytes from the start of the file
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("index: bad %s file at byte %d: %s", e.Kind, e.Pos, e.Reason)
}
