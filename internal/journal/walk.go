package journal

import (
	"encoding/binary"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/vfs"
)

// walkBufferBytes is the piece in which a journal is read.
const walkBufferBytes = 256 << 10

// region is a part of a file in which runs follow one another.
type region struct{ pos, end int64 }

// walker reads the runs of a file in order and remembers their frames, not
// their bytes.
type walker struct {
	// Set by its maker.
	file    vfs.File
	header  header
	regions []region // in the order in which they were written

	frames  []Frame
	runs    int
	last    region // the last whole run, without its zeros
	dropped *DroppedRun
	buffer  []byte
}

// at says what stands at a position where a run may begin.
type at uint8

const (
	atNothing at = iota // of the run that is looked for
	atTorn              // its header, but not all of it
	atWhole
)

// walk reads all whole runs that belong. Where none follows it looks whether
// the missing one was durable once: the header of a later run proves that, for
// it is written only after the run before was synced.
func (w *walker) walk() error {
	sequence, chain := w.header.sequence, w.header.chain
	r, pos := 0, w.regions[0].pos
	for {
		run, sum, found, err := w.run(region{pos, w.regions[r].end}, sequence, chain)
		if err != nil {
			return err
		}
		next := region{pos, w.regions[r].end}
		if found != atWhole && r+1 < len(w.regions) {
			other, otherSum, otherFound, err := w.run(w.regions[r+1], sequence, chain)
			if err != nil {
				return err
			}
			if otherFound == atWhole {
				r++
				run, sum, found = other, otherSum, otherFound
			} else if found == atNothing {
				run, found = other, otherFound
			}
		}
		if found != atWhole {
			if found == atTorn {
				w.dropped = &DroppedRun{Pos: run.pos, Sequence: sequence}
			}
			return w.ends(append([]region{next}, w.regions[r+1:]...), sequence, chain)
		}
		if err := w.parse(&run); err != nil {
			return err
		}
		w.runs++
		w.last = region{run.pos, run.pos + run.size}
		pos = run.pos + padded(run.size)
		sequence, chain = sequence+1, sum
	}
}

// run looks for one run at the beginning of a region. Its size is trusted once
// its header's own sum is right, and bounded by the region.
func (w *walker) run(in region, sequence, chain uint64) (h runHeader, sum uint64, found at, err error) {
	if in.end-in.pos < blockBytes {
		return h, 0, atNothing, nil
	}
	var b [runHeaderBytes]byte
	if _, err := w.file.ReadAt(b[:], in.pos); err != nil {
		return h, 0, atNothing, w.readError(err, in.pos)
	}
	h, ok := parseRunHeader(b[:])
	if expected := (runHeader{session: w.header.session, sequence: sequence, chain: chain, pos: in.pos}); !ok && expected.nearly(b[:]) {
		return expected, 0, atTorn, nil
	}
	if !ok || h.session != w.header.session || h.sequence != sequence || h.chain != chain || h.pos != in.pos {
		return h, 0, atNothing, nil
	}
	if !h.fits(in.end) {
		return h, 0, atNothing, w.damage(&h, "its size is impossible")
	}
	sum, err = w.sum(in.pos, h.size-runTrailerBytes)
	if err != nil {
		return h, 0, atNothing, err
	}
	var trailer [runTrailerBytes]byte
	end := in.pos + h.size - runTrailerBytes
	if _, err := w.file.ReadAt(trailer[:], end); err != nil {
		return h, 0, atNothing, w.readError(err, end)
	}
	if binary.LittleEndian.Uint64(trailer[:]) != sum && !(plant.Enabled && plant.Is(plant.TornRun)) {
		return h, 0, atTorn, nil
	}
	return h, sum, atWhole, nil
}

// sum gives the checksum of a part of the file.
func (w *walker) sum(pos, size int64) (uint64, error) {
	digest := xxhash.New()
	err := w.pieces(region{pos, pos + size}, func(_ int64, p []byte) bool {
		_, _ = digest.Write(p) // never fails
		return true
	})
	return digest.Sum64(), err
}

// pieces reads a part of the file piece by piece, until do gives false. Every
// piece but the last has walkBufferBytes.
func (w *walker) pieces(part region, do func(pos int64, p []byte) bool) error {
	for pos := part.pos; pos < part.end; pos += walkBufferBytes {
		p := w.buffer[:min(walkBufferBytes, part.end-pos)]
		if _, err := w.file.ReadAt(p, pos); err != nil {
			return w.readError(err, pos)
		}
		if !do(pos, p) {
			return nil
		}
	}
	return nil
}

// parse remembers the frames of a whole run.
func (w *walker) parse(h *runHeader) error {
	table := region{h.pos + runHeaderBytes, h.pos + runHeaderBytes + int64(h.frames)*frameHeaderBytes}
	at, end := table.end, h.pos+h.size-runTrailerBytes
	const piece = walkBufferBytes / frameHeaderBytes * frameHeaderBytes
	for pos := table.pos; pos < table.end; pos += piece {
		p := w.buffer[:min(piece, table.end-pos)]
		if _, err := w.file.ReadAt(p, pos); err != nil {
			return w.readError(err, pos)
		}
		for ; len(p) > 0; p = p[frameHeaderBytes:] {
			f, ok := parseFrame(p)
			if !ok || f.carried() > end-at {
				return w.damage(h, "a frame makes no sense")
			}
			f.at = at
			at += f.carried()
			w.frames = append(w.frames, f)
		}
	}
	if at != end {
		return w.damage(h, "the frames do not fill it")
	}
	return nil
}

// ends checks that no run behind the missing one was ever begun. It can lie, in
// each place where the missing one could, no farther than the longest run.
func (w *walker) ends(places []region, sequence, chain uint64) error {
	for _, place := range places {
		place.end = min(place.end, place.pos+runMax(w.header.halfBytes)+blockBytes)
		var later *runHeader
		err := w.pieces(place, func(pos int64, p []byte) bool {
			for ; len(p) >= runHeaderBytes; p, pos = p[min(blockBytes, len(p)):], pos+blockBytes {
				h, ok := parseRunHeader(p)
				if ok && h.session == w.header.session && h.pos == pos && h.sequence > sequence {
					later = &h
					return false
				}
			}
			return true
		})
		if err != nil {
			return err
		}
		if later != nil {
			return w.lost(places, sequence, chain)
		}
	}
	return nil
}

// lost is called when a run that was durable is not there. In a store that
// runs it may have been written since it was looked for; then walking again
// will find it.
func (w *walker) lost(places []region, sequence, chain uint64) error {
	for _, place := range places {
		_, _, found, err := w.run(place, sequence, chain)
		if err != nil {
			return err
		}
		if found == atWhole {
			return errMoved
		}
	}
	return w.damage(&runHeader{sequence: sequence, pos: places[0].pos}, "it is not whole, but a later one follows")
}

func (w *walker) damage(h *runHeader, reason string) error {
	return &DamageError{File: w.file.Name(), Pos: h.pos, Run: h.sequence, Reason: reason}
}

// readError tells a file that became shorter from one that cannot be read.
func (w *walker) readError(err error, pos int64) error {
	if err == io.EOF {
		return &DamageError{File: w.file.Name(), Pos: pos, Reason: "the file ends early"}
	}
	return err
}
