package checkpoint

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// version is the only one that Kafka has for files of entries.
const version = 0

// lines hands out the lines of a file one by one. Like Java's reader it takes
// "\n" and "\r\n" as the end of a line, and a last line without one.
type lines struct {
	rest []byte
	n    int // of the line given last, from 1
}

// next gives the next line, without its end.
func (s *lines) next() (string, bool) {
	s.n++
	if len(s.rest) == 0 {
		return "", false
	}
	line, rest, _ := bytes.Cut(s.rest, []byte{'\n'})
	s.rest = rest
	return strings.TrimSuffix(string(line), "\r"), true
}

// errorf is an error at the line given last.
func (s *lines) errorf(format string, args ...any) error {
	return &FormatError{Line: s.n, Reason: fmt.Sprintf(format, args...)}
}

// readEntries reads the two head lines, calls entry with the fields of every
// line after them, and compares their number with what the head says. An entry
// is fieldsWanted fields, described by shape.
func readEntries(b []byte, shape string, fieldsWanted int, entry func(s *lines, fields []string) error) error {
	if len(b) == 0 {
		return nil
	}
	s := &lines{rest: b}
	line, _ := s.next()
	v, err := strconv.ParseInt(strings.TrimSpace(line), 10, 32)
	if err != nil {
		return s.errorf("want the version, got %s", excerpt(line))
	}
	if v != version {
		return s.errorf("version %d is unknown; this program reads version %d", v, version)
	}
	line, ok := s.next()
	if !ok {
		return s.errorf("the file ends before the number of entries")
	}
	want, err := strconv.ParseInt(strings.TrimSpace(line), 10, 32)
	if err != nil || want < 0 {
		return s.errorf("want the number of entries, got %s", excerpt(line))
	}
	var n int64
	for line, ok = s.next(); ok; line, ok = s.next() {
		fields := strings.Fields(line)
		if len(fields) != fieldsWanted {
			return s.errorf("want %q, got %s", shape, excerpt(line))
		}
		if err := entry(s, fields); err != nil {
			return err
		}
		if n++; n > want {
			return s.errorf("more entries than the %d that line 2 says", want)
		}
	}
	if n != want {
		return s.errorf("the file ends after %d of the %d entries that line 2 says", n, want)
	}
	return nil
}

// number reads one field that is a whole number of at most bits bits and not
// negative.
func (s *lines) number(name, field string, bits int) (int64, error) {
	n, err := strconv.ParseInt(field, 10, bits)
	if err != nil || n < 0 {
		return 0, s.errorf("%s is %s, want a number from 0 of at most %d bits", name, excerpt(field), bits)
	}
	return n, nil
}

// appendHead appends the two head lines of a file with n entries.
func appendHead(dst []byte, n int) []byte {
	dst = strconv.AppendInt(dst, version, 10)
	dst = append(dst, '\n')
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\n')
}
