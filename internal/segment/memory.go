package segment

import "github.com/oncelog/oncelog/internal/tail"

// What an active segment keeps in memory. Without a tail nothing is, and all of
// this does nothing.

// Seat makes sure that the next batch of size bytes, whose base offset is
// offset, has room in memory: in what the tail has, else in more from source.
// If there is none it goes straight to the file. Writer only.
func (s *Segment) Seat(source tail.Source, offset int64, size int) bool {
	t := s.tail.Load()
	if t == nil || source == nil {
		return false
	}
	return t.Room() >= size || t.Grow(source, s.size.Load(), offset, size)
}

// Hold puts one batch into memory behind the published bytes and pos more,
// without publishing it. Writer only, after Seat.
func (s *Segment) Hold(vecs [][]byte, pos int64) { s.tail.Load().Put(vecs, s.size.Load()+pos) }

// Pieces appends the memory of bytes [from, to), which must be in memory.
func (s *Segment) Pieces(dst [][]byte, from, to int64) [][]byte {
	return s.tail.Load().Pieces(dst, from, to)
}

// WriteBack writes what memory holds below byte below into the file, unless it
// is less than atLeast bytes. An error is final: the caller latches the log.
func (s *Segment) WriteBack(below int64, atLeast int) error {
	t := s.tail.Load()
	if t == nil {
		return nil
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	_, err := t.WriteBack(below, atLeast)
	return err
}

// Unwritten is how many bytes below byte below are in memory only.
func (s *Segment) Unwritten(below int64) int64 {
	if t := s.tail.Load(); t != nil {
		return t.Unwritten(below)
	}
	return 0
}

// Unseat gives the memory back if all of it is written. Writer only.
func (s *Segment) Unseat() bool {
	t := s.tail.Load()
	return t == nil || t.Drop()
}

// EndMemory says that no append follows: all memory is given back as it is
// written. Writer only.
func (s *Segment) EndMemory() {
	if t := s.tail.Load(); t != nil {
		t.Skip()
	}
}

// MemoryBytes is how much memory the segment holds.
func (s *Segment) MemoryBytes() int64 {
	if t := s.tail.Load(); t != nil {
		return t.MemoryBytes()
	}
	return 0
}

// Cut ends the segment at byte pos and takes what memory holds from there on
// away: the file is about to be cut there. Writer only.
func (s *Segment) Cut(pos int64) {
	s.size.Store(min(s.size.Load(), pos)) // before: who reads past it looks here
	if t := s.tail.Load(); t != nil {
		s.writeMu.Lock()
		defer s.writeMu.Unlock()
		t.Cut(pos)
		t.Drop()
	}
}

// Datasync syncs the file as it is, whatever memory holds.
func (s *Segment) Datasync() error { return s.active.file.Datasync() }
