package main

import (
	"bufio"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of what a table holds back to find the width of its columns.
const (
	tableRowsMax  = 200
	columnWidth   = 60 // a wider cell is not waited for: it shifts the rest of its row
	childIndent   = "    "
	columnGap     = "  "
	tableBytesMax = 1 << 20
)

// table prints rows as aligned columns. It holds back some rows, finds the
// widths, and keeps the widths it has found for those that follow, so that a
// long file needs little memory.
type table struct {
	w       *bufio.Writer
	kinds   []*tableKind // of the current file, few
	rows    []tableRow
	size    int // bytes in rows
	current tableRow
	titled  bool // something was printed before: a title starts with a blank line
}

// tableKind is what the rows of one kind share.
type tableKind struct {
	name    string
	child   bool
	columns []column
	headed  bool // the line with the names is printed
}

type column struct {
	name  string
	width int // in characters, of the widest cell seen
	right bool
}

type tableRow struct {
	kind  *tableKind
	cells []string
}

// title starts the tables of another file.
func (t *table) title(name string) {
	t.flush()
	t.kinds = nil
	if name == "" {
		return
	}
	if t.titled {
		t.w.WriteByte('\n')
	}
	t.titled = true
	t.w.WriteString(name)
	t.w.WriteByte('\n')
}

func (t *table) begin(kind string, child bool) {
	t.current = tableRow{kind: t.kind(kind, child)}
}

// kind finds the kind of that name, or makes it.
func (t *table) kind(name string, child bool) *tableKind {
	for _, k := range t.kinds {
		if k.name == name {
			return k
		}
	}
	k := &tableKind{name: name, child: child}
	t.kinds = append(t.kinds, k)
	return k
}

func (t *table) number(name string, v int64) { t.cell(name, strconv.FormatInt(v, 10), true) }

// cell adds the next cell of the row.
func (t *table) cell(name, text string, right bool) {
	k, i := t.current.kind, len(t.current.cells)
	if i == len(k.columns) {
		k.columns = append(k.columns, column{name: name, width: utf8.RuneCountInString(name)})
	}
	c := &k.columns[i]
	c.right = c.right || right
	if width := utf8.RuneCountInString(text); width <= columnWidth {
		c.width = max(c.width, width)
	}
	t.current.cells = append(t.current.cells, text)
	t.size += len(text)
}

func (t *table) end() {
	t.rows = append(t.rows, t.current)
	t.current = tableRow{}
	if len(t.rows) >= tableRowsMax || t.size >= tableBytesMax {
		t.flush()
	}
}

// flush prints the rows held back.
func (t *table) flush() {
	for _, r := range t.rows {
		k := r.kind
		if !k.headed {
			k.headed = true
			names := make([]string, len(k.columns))
			for i, c := range k.columns {
				names[i] = strings.ToUpper(c.name)
			}
			t.print(k, names)
		}
		t.print(k, r.cells)
	}
	t.rows, t.size = t.rows[:0], 0
}

// print writes one line, without spaces at its end.
func (t *table) print(k *tableKind, cells []string) {
	if k.child {
		t.w.WriteString(childIndent)
	}
	for i, text := range cells {
		c := k.columns[i]
		pad := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(text)))
		if i > 0 {
			t.w.WriteString(columnGap)
		}
		if c.right {
			t.w.WriteString(pad)
		}
		t.w.WriteString(text)
		if !c.right && i < len(cells)-1 {
			t.w.WriteString(pad)
		}
	}
	t.w.WriteByte('\n')
}
