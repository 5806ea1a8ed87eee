package segment

import "sync"

// Files bounds how many sealed segments of a store are open at once, with
// their descriptors and mappings. Beyond the limit the one that has not been
// acquired for longest (second chance) is closed; Acquire opens it again.
// Safe for concurrent use.
type Files struct {
	limit int

	mu   sync.Mutex // leaf, but for closing: guards ring and hand
	ring []*Segment
	hand int
}

// NewFiles makes one that keeps at most limit sealed segments open.
func NewFiles(limit int) *Files { return &Files{limit: max(limit, 1)} }

// Open is how many sealed segments are open now.
func (f *Files) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ring)
}

// opened counts a segment whose handle was made, and closes others if there
// are too many. No lock of a segment may be held.
func (f *Files) opened(s *Segment) {
	s.used.Store(true) // or it could be its own victim, again and again
	f.mu.Lock()
	f.ring = append(f.ring, s)
	var victims []*Segment
	for len(f.ring) > f.limit {
		victims = append(victims, f.victim())
	}
	f.mu.Unlock()
	for _, v := range victims {
		// The file was only read: an error of closing it loses nothing.
		_ = v.drop()
	}
}

// victim takes the next segment out of the ring that was not used since the
// hand last passed.
func (f *Files) victim() *Segment {
	for {
		f.hand %= len(f.ring)
		s := f.ring[f.hand]
		if !s.used.Swap(false) {
			f.take(f.hand)
			return s
		}
		f.hand++
	}
}

func (f *Files) forget(s *Segment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, t := range f.ring {
		if t == s {
			f.take(i)
			return
		}
	}
}

// take removes the i-th of the ring; the last one takes its place.
func (f *Files) take(i int) {
	last := len(f.ring) - 1
	f.ring[i], f.ring[last] = f.ring[last], nil
	f.ring = f.ring[:last]
}
