//go:build !race

package groupoffsets

// raced: the race detector makes sync.Pool drop what it is given, so counts of
// allocations mean nothing.
const raced = false
