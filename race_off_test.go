//go:build !race

package oncelog_test

const raceEnabled = false
