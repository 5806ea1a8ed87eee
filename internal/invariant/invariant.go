// Package invariant states what must be true in the program itself: a broken
// invariant is a programmer's mistake, never a failing world or bad bytes, and
// panics. Checks that cost something stand behind Enabled, which the build tag
// "invariants" turns on; every test target of the Makefile sets it.
package invariant

import "fmt"

// Check panics unless ok. The arguments are only formatted when it does.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("oncelog: invariant broken: " + fmt.Sprintf(format, args...))
	}
}
