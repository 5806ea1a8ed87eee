//go:build !plant

package plant

// Enabled is true in builds with the tag "plant".
const Enabled = false

// Is tells whether this bug is there.
func Is(Bug) bool { return false }
