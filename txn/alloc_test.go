//go:build !race

package txn

import "testing"

// TestNoAllocations: a transaction in steady state. (Two partitions, since the file
// system in memory allocates pages.)
func TestNoAllocations(t *testing.T) {
	b, list := wide(t, 2)
	p := b.init("x")
	if got := testing.AllocsPerRun(200, func() { p = b.transact("x", p, list) }); got > 0 {
		t.Errorf("%v allocations a transaction", got)
	}
}
