package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Formats of output.
const (
	formatText = "text"
	formatJSON = "json"
)

// output writes rows: facts with names, in a fixed order for each kind of
// row. As JSON each row is one object on a line, its kind and the file it
// comes from first. As text the rows of a file are aligned tables, one for
// each kind, under the name of the file. Not safe for concurrent use.
//
//	out.file("orders-0/00000000000000000000.index")
//	out.begin("offset_index")
//	out.int("offset", 8)
//	out.int("pos", 356)
//	out.end()
//
// An error of the writer is kept, and given by flush.
type output struct {
	w     *bufio.Writer
	json  bool
	label string // of the file, for JSON
	line  []byte // JSON: the row so far
	table table  // text
	err   error  // of w
}

// newOutput gives an output of one of the two formats.
func newOutput(w io.Writer, format string) (*output, error) {
	if format != formatText && format != formatJSON {
		return nil, fmt.Errorf("output format %q is unknown: want %s or %s", format, formatText, formatJSON)
	}
	o := &output{w: bufio.NewWriterSize(w, 1<<16), json: format == formatJSON}
	o.table.w = o.w
	return o, nil
}

// file tells which file the rows that follow are about; "" for none.
func (o *output) file(path string) {
	o.label = path
	if !o.json {
		o.table.title(path)
	}
}

// begin starts a row. The rows of a kind have the same names in the same
// order.
func (o *output) begin(kind string) { o.start(kind, false) }

// beginChild starts a row that belongs to the row of another kind before it.
func (o *output) beginChild(kind string) { o.start(kind, true) }

func (o *output) start(kind string, child bool) {
	if !o.json {
		o.table.begin(kind, child)
		return
	}
	o.line = append(o.line[:0], `{"kind":`...)
	o.line = appendJSONString(o.line, kind)
	if o.label != "" {
		o.string("file", o.label)
	}
}

// name begins a member of the JSON object.
func (o *output) name(name string) {
	o.line = append(o.line, ',', '"')
	o.line = append(o.line, name...)
	o.line = append(o.line, '"', ':')
}

func (o *output) int(name string, v int64) {
	if !o.json {
		o.table.number(name, v)
		return
	}
	o.name(name)
	o.line = strconv.AppendInt(o.line, v, 10)
}

// optionalInt is an int that is null unless there is one.
func (o *output) optionalInt(name string, v int64, ok bool) {
	switch {
	case ok:
		o.int(name, v)
	case o.json:
		o.name(name)
		o.line = append(o.line, "null"...)
	default:
		o.table.cell(name, "-", false)
	}
}

// optionalBool is a bool that JSON leaves out unless it is known.
func (o *output) optionalBool(name string, v, known bool) {
	switch {
	case known:
		o.bool(name, v)
	case !o.json:
		o.table.cell(name, "-", false)
	}
}

func (o *output) bool(name string, v bool) {
	if !o.json {
		o.table.cell(name, strconv.FormatBool(v), false)
		return
	}
	o.name(name)
	o.line = strconv.AppendBool(o.line, v)
}

func (o *output) string(name, v string) {
	if !o.json {
		o.table.cell(name, printable(v), false)
		return
	}
	o.name(name)
	o.line = appendJSONString(o.line, v)
}

// bytes is a key or a value: hex in JSON, quoted text where it is text, nil
// is null.
func (o *output) bytes(name string, v []byte) {
	switch {
	case !o.json:
		o.table.cell(name, bytesText(v), false)
	case v == nil:
		o.name(name)
		o.line = append(o.line, "null"...)
	default:
		o.name(name)
		o.line = append(o.line, '"')
		o.line = hex.AppendEncode(o.line, v)
		o.line = append(o.line, '"')
	}
}

// decoded is a key or value of which the meaning may be known too. JSON has
// both, the meaning under the name with "_decoded"; text has the better one.
func (o *output) decoded(name string, v []byte, meaning any) {
	switch {
	case meaning == nil:
		o.bytes(name, v)
	case o.json:
		o.bytes(name, v)
		o.object(name+"_decoded", meaning)
	default:
		o.object(name, meaning)
	}
}

// object is anything that encoding/json takes. Left out of JSON if it is nil.
func (o *output) object(name string, v any) {
	text := []byte("-")
	if v != nil {
		b, err := json.Marshal(v)
		if err != nil { // only types of this program come here
			b, _ = json.Marshal(err.Error())
		}
		text = b
	}
	switch {
	case !o.json:
		o.table.cell(name, string(text), false)
	case v != nil:
		o.name(name)
		o.line = append(o.line, text...)
	}
}

// end completes the row.
func (o *output) end() {
	if !o.json {
		o.table.end()
		return
	}
	o.line = append(o.line, '}', '\n')
	o.write(o.line)
}

// write passes bytes on; the writer's error is kept.
func (o *output) write(b []byte) {
	if _, err := o.w.Write(b); err != nil {
		o.err = err
	}
}

// failed tells whether the writer has taken an error: nothing more needs to
// be made.
func (o *output) failed() bool {
	if !o.json {
		// The table writes in between; an empty write asks for its error.
		o.write(nil)
	}
	return o.err != nil
}

// flush writes what is held back and gives the first error of the writer.
func (o *output) flush() error {
	if !o.json {
		o.table.flush()
	}
	return o.w.Flush()
}

// appendJSONString appends s as a JSON string.
func appendJSONString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b, err := json.Marshal(s)
			if err != nil {
				return append(dst, `""`...) // a string always marshals
			}
			return append(dst, b...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// textBytesMax is how much of a key or value a table shows. JSON shows all.
const textBytesMax = 120

// bytesText shows a key or value in a table: quoted if it is printable text,
// otherwise as 0x and hex; cut, with its size, if it is long.
func bytesText(v []byte) string {
	if v == nil {
		return "null"
	}
	head := v[:min(len(v), textBytesMax)]
	for cut := 0; len(head) < len(v) && cut < utf8.UTFMax-1 && !utf8.Valid(head); cut++ {
		head = head[:len(head)-1] // not in the middle of a character
	}
	text := "0x" + hex.EncodeToString(head)
	if isText(head) {
		text = strconv.Quote(string(head))
	}
	if len(head) < len(v) {
		text += fmt.Sprintf("… (%d bytes)", len(v))
	}
	return text
}

func isText(b []byte) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return false
		}
		b = b[size:]
	}
	return true
}

// printable is s if it prints as it is, else quoted.
func printable(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}
