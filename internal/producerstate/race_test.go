//go:build race

package producerstate

// raceEnabled: what takes a million steps is left out.
const raceEnabled = true
