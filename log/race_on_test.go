//go:build race

package log

// raced: the race detector makes sync.Pool drop what it is given, so counts of
// allocations mean nothing.
const raced = true
