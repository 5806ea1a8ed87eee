//go:build !race

package vfs

// These touch memory that a mapping shares with a program that may write it
// meanwhile. shared_race.go has them for the race detector, and says why.

// copyShared is copy.
func copyShared(dst, src []byte) int { return copy(dst, src) }

// samePage compares two pages.
func samePage(a, b *page) bool { return *a == *b }

// poison fills memory that nobody may look at any more.
func poison(b []byte) {
	for i := range b {
		b[i] = poisonByte
	}
}
