package checkpoint

import (
	"errors"
	"fmt"
)

// ErrFormat is what every *FormatError wraps.
var ErrFormat = errors.New("checkpoint: malformed file")

// FormatError says where a file is not what its name promises. It knows no
// file name: who read the file adds it.
type FormatError struct {
	// Line counts from 1; one past the last line if the file ends too early.
	Line   int
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%v: line %d: %s", ErrFormat, e.Line, e.Reason)
}

func (e *FormatError) Unwrap() error { return ErrFormat }

// excerptBytesMax bounds what of a bad line an error repeats.
const excerptBytesMax = 60

// excerpt quotes the beginning of a line for an error.
func excerpt(line string) string {
	if len(line) > excerptBytesMax {
		return fmt.Sprintf("%q…", line[:excerptBytesMax])
	}
	return fmt.Sprintf("%q", line)
}
