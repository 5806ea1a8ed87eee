// Package overlay shows the segment files of a partition as they are once what
// the journal and the tail hold is written into them, and writes it.
//
// A Piece is bytes of a segment file that lie elsewhere. View lays pieces over
// a directory for readers and changes nothing; Write puts them into the files.
// Which pieces count is the caller's decision.
//
// A view is safe for concurrent use, as is everything it hands out.
package overlay
