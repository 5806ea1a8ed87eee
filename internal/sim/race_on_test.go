//go:build race

package sim

// raceDetector is on: what runs on one goroutine has little to show it, and is
// many times slower.
const raceDetector = true
