package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/overlay"
	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// ForeignWriterError says that another program wrote into a log after the
// crash of its owner: where the journal or the tail says that ours is, stands
// a batch that is good and another. Taking either would lose the other.
type ForeignWriterError struct {
	File   string // .log
	Pos    int64  // byte position
	Offset int64  // of our batch
	Reason string
}

func (e *ForeignWriterError) Error() string {
	return fmt.Sprintf("log: another program wrote to %s at byte %d, where our batch of offset %d belongs: %s; "+
		"recover with the choice to accept what it wrote sets our journal aside", e.File, e.Pos, e.Offset, e.Reason)
}

// limit is the offset at which a log ends whatever its files hold.
func (l *Log) limit() int64 {
	if l.o.Clean || !l.o.Journaled || plant.Enabled && plant.Is(plant.AboveJournal) {
		return math.MaxInt64
	}
	return max(l.o.JournalEnd, l.o.Points.RecoveryPoint)
}

// pathOf is where the .log file of a segment is.
func (l *Log) pathOf(base int64) string {
	return filepath.Join(l.o.Dir, segment.FileName(base, segment.KindLog))
}

// layPieces lets everything that is read until Recover see the pieces in
// place.
func (l *Log) layPieces() error {
	if l.o.Clean {
		return nil
	}
	for i := range l.o.References {
		if err := l.checkReference(&l.o.References[i]); err != nil {
			return err
		}
	}
	if len(l.o.Pieces) == 0 {
		return nil
	}
	l.disk = l.o.FS
	var fitting []overlay.Piece
	for _, p := range l.o.Pieces {
		err := l.checkPiece(p)
		if _, foreign := errors.AsType[*ForeignWriterError](err); foreign && (!p.Certain || plant.Enabled && plant.Is(plant.ForeignOverwritten)) {
			continue
		}
		if err != nil {
			return err
		}
		if p.Next > l.o.Points.RecoveryPoint { // else it is in the file
			fitting = append(fitting, p)
		}
	}
	l.o.Pieces = fitting
	files := overlay.Files{}
	files.Add(fitting, l.pathOf)
	view := overlay.View(l.disk, files)
	l.o.FS, l.env.FS = view, view
	return nil
}

// writePieces puts the pieces where they belong.
func (l *Log) writePieces() error {
	if l.disk == nil {
		return nil
	}
	if err := overlay.Write(l.disk, l.o.Dir, l.o.Pieces, l.pathOf); err != nil {
		return err
	}
	l.o.FS, l.env.FS = l.disk, l.disk
	l.written, l.o.Pieces, l.disk = l.o.Pieces, nil, nil
	return nil
}

// checkPiece compares the batches of a piece with what the file has in their
// places. Anything there is ours, or torn, or not there yet; a whole other
// batch is another program's.
func (l *Log) checkPiece(p overlay.Piece) error {
	path := l.pathOf(p.Segment)
	under, err := l.disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer under.Close()
	size, err := under.Size()
	if err != nil {
		return err
	}
	files := overlay.Files{}
	files.Add([]overlay.Piece{p}, l.pathOf)
	over, err := overlay.View(l.disk, files).Open(path)
	if err != nil {
		return err
	}
	defer over.Close()
	scan := segment.NewScanner(over, p.Pos, p.Pos+p.Length, false)
	defer scan.Close()
	window := window{file: under, size: size}
	for scan.Next() {
		b, pos := scan.Batch(), scan.Pos()
		if size-pos < batch.HeaderSize {
			return nil
		}
		other, err := window.batch(pos)
		if err != nil {
			return err
		}
		if len(other) > 0 && other.Check() == nil && other.BaseOffset() >= p.Segment && !sameBody(other, b) {
			return &ForeignWriterError{File: path, Pos: pos, Offset: b.BaseOffset(),
				Reason: fmt.Sprintf("a batch of %d bytes at offset %d stands there", len(other), other.BaseOffset())}
		}
	}
	return scan.Err()
}

// overrun tells of batches in a segment where the next one begins, if the journal
// says that we began that one: another program went on with ours.
func (l *Log) overrun(before, f segment.SegmentFiles) error {
	if l.o.Clean || !l.o.Journaled || f.Base >= l.o.JournalEnd || plant.Enabled && plant.Is(plant.ForeignOverwritten) ||
		!slices.ContainsFunc(l.o.Pieces, func(p overlay.Piece) bool { return p.Certain && p.Segment == f.Base }) {
		return nil
	}
	path := before.Paths[segment.KindLog]
	file, err := l.o.FS.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	scan := segment.NewScanner(file, 0, before.Size, true)
	defer scan.Close()
	for scan.Next() {
		if b := scan.Batch(); b.BaseOffset() >= f.Base {
			return &ForeignWriterError{File: path, Pos: scan.Pos(), Offset: f.Base,
				Reason: fmt.Sprintf("our segment ends there, and a batch of %d bytes at offset %d follows", len(b), b.BaseOffset())}
		}
	}
	return nil
}

// checkReference compares a large batch with what the journal says of it. One that
// does not check out is told of where the log ends too early.
func (l *Log) checkReference(r *Reference) error {
	path := l.pathOf(r.Segment)
	f, err := l.o.FS.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size-r.Pos < batch.HeaderSize {
		return err
	}
	w := window{file: f, size: size}
	other, err := w.batch(r.Pos)
	if err != nil || len(other) == 0 || other.Check() != nil || other.CRC() == r.CRC && other.BaseOffset() == r.First {
		return err
	}
	return &ForeignWriterError{File: path, Pos: r.Pos, Offset: r.First,
		Reason: fmt.Sprintf("a batch of %d bytes at offset %d stands there", len(other), other.BaseOffset())}
}

// sameBody tells whether two batches differ at most in what no checksum covers:
// a write of ours that tore between its sectors looks like that.
func sameBody(a, b batch.Batch) bool {
	const covered = batch.MagicEnd - 1
	return len(a) == len(b) && bytes.Equal(a[covered:], b[covered:])
}

// checkJournaled tells of a log that ends before what the journal vouches for:
// all of that was acknowledged. The bytes that the journal has itself are laid
// over the files, so what is missing is a large batch that it only refers to,
// or what lay before it.
func (l *Log) checkJournaled(p *loadPlan, end int64) error {
	if l.o.Clean || !l.o.Journaled || end >= l.o.JournalEnd {
		return nil
	}
	e := &CorruptionError{File: l.o.Dir, Offset: end, ReadableFrom: -1,
		Err: fmt.Errorf("the journal vouches for offsets up to %d, and what stands at %d does not check out", l.o.JournalEnd, end)}
	if n := len(p.walked); n > 0 {
		e.File, e.Pos = p.walked[n-1].files.Paths[segment.KindLog], p.walked[n-1].size
	}
	return e
}

// window shows a file that is read from front to back.
type window struct {
	file  vfs.File
	size  int64
	at    int64
	bytes []byte
}

// windowBytes is how much is read at once.
const windowBytes = 256 << 10

// show gives n bytes at pos, which lie in the file; they are valid until the next
// call.
func (w *window) show(pos int64, n int) ([]byte, error) {
	if pos < w.at || pos+int64(n) > w.at+int64(len(w.bytes)) {
		more := max(int64(n), min(windowBytes, w.size-pos))
		w.at, w.bytes = pos, slices.Grow(w.bytes[:0], int(more))[:more]
		if k, err := w.file.ReadAt(w.bytes, pos); k < len(w.bytes) {
			w.bytes = w.bytes[:0]
			return nil, err
		}
	}
	return w.bytes[pos-w.at:][:n], nil
}

// batch gives the batch that a header at pos frames, nothing if it frames none
// inside the file. There must be room for a header.
func (w *window) batch(pos int64) (batch.Batch, error) {
	head, err := w.show(pos, batch.HeaderSize)
	if err != nil {
		return nil, err
	}
	n, err := batch.Frame(head)
	if err != nil || n > w.size-pos {
		return nil, nil
	}
	return w.show(pos, int(n))
}
