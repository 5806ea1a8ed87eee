package sim

import (
	"math/rand/v2"

	"github.com/oncelog/oncelog/internal/journal"
)

// scene is what a history plays on.
type scene struct {
	bare       bool // replicated logs alone, without a store
	direct     bool // appends go straight into the segments
	replicated bool // the high watermark comes from outside

	memory, journal, tail int64 // bytes
}

// journaled tells whether appends at level fsync go through the commit journal.
func (s *scene) journaled() bool { return !s.bare && !s.direct }

// Sizes of memory, journal and tail, small so that all of them fill up: two
// chunks of memory or many, a journal of which either half holds seven runs or
// many, one slot or many.
var (
	memorySizes  = [...]int64{32 << 10, roomyBytes, roomyBytes}
	journalSizes = [...]int64{journal.BytesMin, journal.BytesMin, 256 << 10}
	tailSizes    = [...]int64{20 << 10, 40 << 10, 256 << 10}
)

// roomyBytes of memory are never used up by one history.
const roomyBytes = 4 << 20

// drawScene draws one. Every history has one, and half of them a store with
// journal and tail.
func drawScene(rng *rand.Rand) scene {
	s := scene{
		memory:  memorySizes[rng.IntN(len(memorySizes))],
		journal: journalSizes[rng.IntN(len(journalSizes))],
		tail:    tailSizes[rng.IntN(len(tailSizes))],
	}
	if s.memory < roomyBytes { // a chunk holds any batch that the journal takes
		s.journal = journal.BytesMin
	}
	switch k := rng.IntN(20); {
	case k < 4:
		s.bare, s.direct, s.replicated = true, true, true
	case k < 7:
		s.direct = true
	case k < 10:
		s.replicated = true
	}
	return s
}
