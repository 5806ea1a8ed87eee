//go:build plant

package plant

import "sync/atomic"

// Enabled is true in builds with the tag "plant".
const Enabled = true

var chosen atomic.Value

// Set chooses the bug that is there from now on; None: none is.
func Set(b Bug) { chosen.Store(b) }

// Is tells whether this bug is there.
func Is(b Bug) bool { return chosen.Load() == b }
