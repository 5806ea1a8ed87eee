package tail

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// Slot is what a slot of the file holds: whole batches, in order, of one
// segment.
type Slot struct {
	Identity
	Number     int    // of the slot in the file
	Sequence   uint64 // rises with each slot that was taken, over all of them
	Pos        int64  // in the segment, of the first byte
	BaseOffset int64  // of the first batch
	NextOffset int64  // behind the last batch
	Bytes      []byte // the batches
	Batches    int
	SameBoot   bool // all that was published, or else what is left of it
}

// ReadSlots reads the file FileName of a directory, also while a process works
// with it, and changes nothing. It gives the slots that hold batches, ordered by
// topic, partition, segment and position.
//
// If the file is of the given boot, a slot holds exactly what was published in
// it; one that does not is a *SlotError, joined with others, and the rest is
// returned all the same. Of another boot a slot counts as far as it checks out:
// header, descriptors, offsets, checksums. Such batches were published once in
// this use of the slot, by this partition, with nothing missing before them, and
// not taken away by a Cut that was settled.
//
// Errors besides: fs.ErrNotExist, *FormatError, ErrNewerFormat, those of the file
// system. Memory is bounded by the size of the file.
func ReadSlots(fsys vfs.FS, dir string, boot [16]byte) ([]Slot, error) {
	name := filepath.Join(dir, FileName)
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := readHeaderOf(f, name)
	if err != nil {
		return nil, err
	}
	var found []Slot
	var damage error
	r := slotReader{file: f, name: name, header: h, sameBoot: h.boot == boot, buf: make([]byte, h.slotBytes)}
	for i := range h.count {
		s, err := r.read(i)
		var wrong *SlotError
		switch {
		case errors.As(err, &wrong):
			damage = errors.Join(damage, err)
		case err != nil:
			return nil, fmt.Errorf("read slot %d of %s: %w", i, name, err)
		case s.Batches > 0:
			found = append(found, s)
		}
	}
	slices.SortFunc(found, compareSlots)
	return found, damage
}

// ReadStore reads whose file it is: SlotsOptions.Store. Errors: as ReadSlots.
func ReadStore(fsys vfs.FS, dir string) ([8]byte, error) {
	h, err := readFileHeader(fsys, filepath.Join(dir, FileName))
	return h.store, err
}

// ReadBoot reads of which boot of the machine the file is. Errors: as ReadSlots.
func ReadBoot(fsys vfs.FS, dir string) ([16]byte, error) {
	h, err := readFileHeader(fsys, filepath.Join(dir, FileName))
	return h.boot, err
}

func compareSlots(a, b Slot) int {
	return cmp.Or(
		slices.Compare(a.Topic[:], b.Topic[:]),
		cmp.Compare(a.Partition, b.Partition),
		cmp.Compare(a.Segment, b.Segment),
		cmp.Compare(a.Pos, b.Pos),
		cmp.Compare(a.Sequence, b.Sequence),
	)
}

// readFileHeader reads the header of a file that is not open.
func readFileHeader(fsys vfs.FS, name string) (fileHeader, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return fileHeader{}, err
	}
	defer f.Close()
	return readHeaderOf(f, name)
}

func readHeaderOf(f vfs.File, name string) (fileHeader, error) {
	size, err := f.Size()
	if err != nil {
		return fileHeader{}, err
	}
	b := make([]byte, fileHeaderSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return fileHeader{}, err
	}
	return decodeFileHeader(name, b[:n], size)
}

// slotReader reads the slots of a file.
type slotReader struct {
	file     vfs.File
	name     string
	header   fileHeader
	sameBoot bool
	buf      []byte // one slot
}

// readsMax is how often a slot is read that changes hands meanwhile.
const readsMax = 16

// read gives what slot i holds, with no batches if nothing. The header is read
// before the rest and after it: in between nothing that counted was changed if
// it is the same. What is published while the rest is read lies behind what
// counts.
func (r *slotReader) read(i int) (Slot, error) {
	block, area := r.buf[:blockBytes], r.buf[blockBytes:]
	for range readsMax {
		before, whole, err := r.readBlock(block, i)
		if err != nil {
			return Slot{}, err
		}
		word := loadWord(block[posPublished:])
		if whole && before.state == stateFree {
			return Slot{}, nil
		}
		if whole {
			if err := r.readFull(area, r.header.slotPos(i)+blockBytes); err != nil {
				return Slot{}, err
			}
		}
		after, stillWhole, err := r.readBlock(block, i)
		if err != nil {
			return Slot{}, err
		}
		if after != before || whole != stillWhole || whole && r.wasCut(word, block) {
			continue
		}
		switch {
		case !whole && r.sameBoot:
			return Slot{}, r.damage(before, i, posHeaderA, "both copies of the header are damaged")
		case !whole:
			return Slot{}, nil
		case r.sameBoot:
			return r.published(before, area, word)
		}
		return collect(before, area, len(area)/descriptorSize), nil
	}
	return Slot{}, r.damage(slotHeader{}, i, posHeaderA, "it changes hands as often as it is read")
}

// wasCut says that a block that was read later counts fewer batches.
func (r *slotReader) wasCut(word uint64, block []byte) bool {
	return loadWord(block[posPublished:]) < word
}

func (r *slotReader) readBlock(block []byte, i int) (slotHeader, bool, error) {
	if err := r.readFull(block, r.header.slotPos(i)); err != nil {
		return slotHeader{}, false, err
	}
	h, ok := newestHeader(block, i)
	if !ok {
		return slotHeader{}, false, nil
	}
	return h, true, nil
}

// readFull reads what must be inside the file, whose size was checked.
func (r *slotReader) readFull(p []byte, pos int64) error {
	n, err := r.file.ReadAt(p, pos)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return &FormatError{File: r.name, Pos: pos + int64(n), Reason: "the file became shorter"}
	}
	return err
}

// published gives exactly what the count says, which must be there.
func (r *slotReader) published(h slotHeader, area []byte, word uint64) (Slot, error) {
	batches, size := splitWord(word)
	if batches*descriptorSize+size > int64(len(area)) {
		return Slot{}, r.damage(h, h.slot, posPublished, fmt.Sprintf("%d batches of %d bytes do not fit", batches, size))
	}
	s := collect(h, area, int(batches))
	s.SameBoot = true
	switch {
	case int64(s.Batches) != batches:
		return Slot{}, r.damage(h, h.slot, blockBytes+int64(len(s.Bytes)),
			fmt.Sprintf("batch %d of %d is not what was published", s.Batches, batches))
	case int64(len(s.Bytes)) != size:
		return Slot{}, r.damage(h, h.slot, posPublished,
			fmt.Sprintf("%d batches have %d bytes, %d were published", batches, len(s.Bytes), size))
	}
	return s, nil
}

// damage is the error for something at pos in slot i.
func (r *slotReader) damage(h slotHeader, i int, pos int64, reason string) error {
	return &SlotError{File: r.name, Pos: r.header.slotPos(i) + pos, Slot: i, Identity: h.identity, Reason: reason}
}

// collect takes batches from the front, n at most, as long as they are what
// their descriptors say and follow each other. It copies them.
func collect(h slotHeader, area []byte, n int) Slot {
	s := Slot{
		Identity: h.identity, Number: h.slot, Sequence: h.sequence,
		Pos: h.pos, BaseOffset: h.offset, NextOffset: h.offset,
	}
	end := 0
	for s.Batches < n {
		limit := len(area) - (s.Batches+1)*descriptorSize
		if limit < end {
			break
		}
		b, err := batch.Parse(area[end:limit])
		if err != nil || b.Check() != nil {
			break
		}
		first := s.Batches == 0 && b.BaseOffset() == h.offset
		later := s.Batches > 0 && b.BaseOffset() >= s.NextOffset
		p := place{generation: h.generation, index: s.Batches, pos: h.pos + int64(end)}
		if !first && !later || !describes(descriptorAt(area, s.Batches), p, b) {
			break
		}
		s.Batches, s.NextOffset, end = s.Batches+1, b.NextOffset(), end+len(b)
	}
	s.Bytes = slices.Clone(area[:end])
	return s
}
