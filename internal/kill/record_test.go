package kill

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A record of what the child did. Writing it is one call, to the page cache,
// which outlives the child; its place among the others is when it happened. All
// are of one size that divides that of a page, so that a kill cannot tear one.
//
//	KIND WRITER N BASE
//
// What a deletion writes has a place as WRITER, and an offset as N.
const recordBytes = 32

const (
	sends     = 'i' // the n-th batch of a writer goes to the store now
	published = 'p' // and is in the log at an offset; no answer yet that it is safe
	acked     = 'a' // and is safe there
	knownGone = 'k' // it was stored by an earlier child, and its records are deleted
	deletes   = 'd' // records below N are deleted now
	deleted   = 'D' // and the log start is there
)

type record struct {
	kind      byte
	writer, n int
	base      int64
}

// recorder writes records, for any number of goroutines.
type recorder struct{ f *os.File }

func (r recorder) write(kind byte, writer, n int, base int64) error {
	line := fmt.Appendf(nil, "%c %3d %11d %13d\n", kind, writer, n, base)
	if len(line) != recordBytes {
		return fmt.Errorf("record %q has %d bytes, want %d", line, len(line), recordBytes)
	}
	_, err := r.f.Write(line)
	return err
}

// readRecords reads what a child wrote.
func readRecords(name string) ([]record, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []record
	for ; len(b) > 0; b = b[recordBytes:] {
		if len(b) < recordBytes {
			return nil, fmt.Errorf("%s ends with %q, which is no whole record", name, b)
		}
		fields := strings.Fields(string(b[:recordBytes]))
		if len(fields) != 4 || len(fields[0]) != 1 {
			return nil, fmt.Errorf("%s: record %q has not four fields", name, b[:recordBytes])
		}
		r := record{kind: fields[0][0]}
		if r.writer, err = strconv.Atoi(fields[1]); err != nil {
			return nil, err
		}
		if r.n, err = strconv.Atoi(fields[2]); err != nil {
			return nil, err
		}
		if r.base, err = strconv.ParseInt(fields[3], 10, 64); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
