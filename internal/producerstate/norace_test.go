//go:build !race

package producerstate

const raceEnabled = false
