package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/oncelog/oncelog/internal/vfs"
)

// Piece is bytes [Pos, Pos+Length) of a segment file, whole batches, that a
// Source holds from At on.
type Piece struct {
	Segment     int64 // base offset
	Pos, Length int64 // bytes
	First, Next int64 // offsets of its batches: [First, Next)
	Source      io.ReaderAt
	At          int64
	// Certain says that the piece is what was there last: whatever contradicts it
	// is another program's. Another may be older than the file.
	Certain bool
}

// ReadAt reads bytes of the piece; pos counts from its start.
func (p Piece) ReadAt(b []byte, pos int64) error {
	n, err := p.Source.ReadAt(b, p.At+pos)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read bytes %d to %d of segment %d: %w", p.Pos+pos, p.Pos+pos+int64(len(b)), p.Segment, err)
}

// bySegment groups pieces, in order: a later piece wins over an earlier one.
func bySegment(pieces []Piece) map[int64][]Piece {
	groups := map[int64][]Piece{}
	for _, p := range pieces {
		groups[p.Segment] = append(groups[p.Segment], p)
	}
	return groups
}

// writeBytes is how much of a piece is in memory at once.
const writeBytes = 256 << 10

// Write puts the pieces into the files in dir, which path names by base
// offset, in place also where the same bytes are there already: after a failed
// sync the page cache shows what the device does not have. The files are
// synced, and so is the directory if one had to be made. Killed on the way it
// is done again.
func Write(fsys vfs.FS, dir string, pieces []Piece, path func(segment int64) string) error {
	groups := bySegment(pieces)
	bases := make([]int64, 0, len(groups))
	for base := range groups {
		bases = append(bases, base)
	}
	slices.SortFunc(bases, cmp.Compare)
	buffer := make([]byte, writeBytes)
	for _, base := range bases {
		if err := writeSegment(fsys, path(base), groups[base], buffer); err != nil {
			return err
		}
	}
	if len(bases) == 0 {
		return nil
	}
	return fsys.SyncDir(dir)
}

func writeSegment(fsys vfs.FS, path string, pieces []Piece, buffer []byte) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if err = writePiece(f, p, buffer); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Datasync()
	}
	return errors.Join(err, f.Close())
}

func writePiece(f vfs.File, p Piece, buffer []byte) error {
	for done := int64(0); done < p.Length; {
		b := buffer[:min(p.Length-done, int64(len(buffer)))]
		if err := p.ReadAt(b, done); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, p.Pos+done); err != nil {
			return err
		}
		done += int64(len(b))
	}
	return nil
}
