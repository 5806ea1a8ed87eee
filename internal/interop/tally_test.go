//go:build interop

package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// tally counts what was compared, by what it is.
type tally struct {
	names  []string
	counts map[string]int
}

// add counts n things compared without a difference. Adding 0 makes the name
// known, so that print fails if nothing follows.
func (c *tally) add(name string, n int) {
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	if _, known := c.counts[name]; !known {
		c.names = append(c.names, name)
	}
	c.counts[name] += n
}

// merge adds all of d.
func (c *tally) merge(d *tally) {
	for _, name := range d.names {
		c.add(name, d.counts[name])
	}
}

// print writes the counts as a table and fails the test if there is a 0 among
// them, or nothing at all.
func (c *tally) print(t *testing.T, title string) {
	t.Helper()
	var b strings.Builder
	for _, name := range c.names {
		fmt.Fprintf(&b, "\n  %8d  %s", c.counts[name], name)
	}
	t.Logf("%s:%s", title, b.String())
	if len(c.names) == 0 {
		t.Errorf("%s: nothing was compared", title)
	}
	if i := slices.IndexFunc(c.names, func(n string) bool { return c.counts[n] == 0 }); i >= 0 {
		t.Errorf("%s: no %s were compared", title, c.names[i])
	}
}

// differences collects what is not as it should be, and shows the first few.
type differences struct {
	n     int
	shown []string
}

func (d *differences) addf(format string, args ...any) {
	if d.n++; d.n <= 20 {
		d.shown = append(d.shown, fmt.Sprintf(format, args...))
	}
}

// check fails the test if there is any.
func (d *differences) check(t *testing.T, title string) {
	t.Helper()
	if d.n > 0 {
		t.Errorf("%s: %d differences, the first:\n  %s", title, d.n, strings.Join(d.shown, "\n  "))
	}
}
