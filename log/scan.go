package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// extent is what a walk over a segment file found: whole batches that follow
// each other up to end, and why it ended.
type extent struct {
	end   int64 // byte position
	next  int64 // offset
	zeros bool  // only zeros follow end
	err   error // what stands at end, nil if the file ends there
}

// walk checks the batches of a segment file from pos on, the first of which
// must not begin below next, and calls each for every good one. No batch at or
// above limit counts. gapless asks for offsets without gaps.
func walk(f vfs.File, base, pos, size, next, limit int64, gapless bool, each func(b batch.Batch, pos int64) error) (extent, error) {
	s := segment.NewScanner(f, pos, size, true)
	defer s.Close()
	e := extent{end: pos, next: next}
	for s.Next() {
		b := s.Batch()
		if reason := misplaced(b, base, e.next, gapless); reason != nil {
			e.err = reason
			return e, nil
		}
		if b.NextOffset() > limit {
			e.err = errNotJournaled
			return e, nil
		}
		if err := each(b, s.Pos()); err != nil {
			return e, err
		}
		e.end, e.next = s.Pos()+int64(len(b)), b.NextOffset()
	}
	torn := (*segment.TornError)(nil)
	switch {
	case s.Err() == nil:
		return e, nil
	case !errors.As(s.Err(), &torn):
		return e, s.Err()
	}
	e.err = torn.Err
	if errors.Is(torn.Err, batch.ErrLegacyMagic) {
		return e, legacy(f, e.end, size, torn.Err)
	}
	if errors.Is(torn.Err, segment.ErrZeros) || size-e.end < batch.HeaderSize {
		zeros, err := onlyZeros(f, e.end, size)
		e.zeros = zeros
		return e, err
	}
	return e, nil
}

// errNotJournaled is why a good batch is no part of the log.
var errNotJournaled = errors.New("log: written, but not in the journal, so never acknowledged")

// misplaced tells why a batch cannot stand where it stands.
func misplaced(b batch.Batch, base, next int64, gapless bool) error {
	switch {
	case b.BaseOffset() < next || gapless && b.BaseOffset() != next:
		return fmt.Errorf("%w: base offset %d where %d follows", ErrUnexpectedOffset, b.BaseOffset(), next)
	case b.LastOffset()-base > math.MaxInt32:
		return fmt.Errorf("%w: offset %d is too far from the segment's base %d", ErrUnexpectedOffset, b.LastOffset(), base)
	}
	return nil
}

// legacy tells a message of an older format, which must not be taken for a
// torn tail, from bytes that only look like one: its own checksum fits.
func legacy(f vfs.File, pos, size int64, cause error) error {
	const crcPos, bodyPos = 12, 16
	var head [bodyPos]byte
	if size-pos < bodyPos {
		return nil
	}
	if _, err := f.ReadAt(head[:], pos); err != nil {
		return err
	}
	n := int64(int32(binary.BigEndian.Uint32(head[8:]))) + batch.OverheadSize
	if n < bodyPos || n > size-pos {
		return nil
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(f, pos+bodyPos, n-bodyPos)); err != nil {
		return err
	}
	if sum.Sum32() == binary.BigEndian.Uint32(head[crcPos:]) {
		return cause
	}
	return nil
}

// onlyZeros tells whether [pos, size) of a file is all zero.
func onlyZeros(f vfs.File, pos, size int64) (bool, error) {
	buffer := make([]byte, min(size-pos, 1<<20))
	for pos < size {
		b := buffer[:min(size-pos, int64(len(buffer)))]
		if _, err := f.ReadAt(b, pos); err != nil {
			return false, err
		}
		for _, c := range b {
			if c != 0 {
				return false, nil
			}
		}
		pos += int64(len(b))
	}
	return true, nil
}

// What bounds the search for a batch behind damage: how far it looks, at how many
// places that look like one, and how many bytes of those it checks, since each
// may claim to be as long as the rest.
const (
	findBytesMax   = 64 << 20
	findTriesMax   = 1 << 12
	findCheckedMax = 4 * findBytesMax
)

// findBatch looks behind damage for the next whole batch that checks out and
// lies at or after offset next: its base offset and position, -1 if none was
// found within the bounds.
func findBatch(f vfs.File, pos, size, next int64) (baseOffset, at int64, err error) {
	size = min(size, pos+findBytesMax)
	window := make([]byte, max(min(1<<20, size-pos), 0))
	tries, checked, whole := 0, int64(0), []byte(nil)
	for pos+batch.HeaderSize <= size {
		w := window[:min(int64(len(window)), size-pos)]
		if _, err := f.ReadAt(w, pos); err != nil {
			return -1, -1, err
		}
		for i := 0; i+batch.HeaderSize <= len(w); i++ {
			if w[i+batch.MagicEnd-1] != batch.Magic {
				continue
			}
			n, err := batch.Frame(w[i:])
			head := batch.Batch(w[i:])
			if err != nil || n > size-pos-int64(i) || head.BaseOffset() < next || head.LastOffsetDelta() < 0 {
				continue
			}
			tries, checked = tries+1, checked+n
			if tries > findTriesMax || checked > findCheckedMax {
				return -1, -1, nil
			}
			whole = slices.Grow(whole[:0], int(n))[:n]
			if _, err := f.ReadAt(whole, pos+int64(i)); err != nil {
				return -1, -1, err
			}
			if batch.Batch(whole).Check() == nil {
				return head.BaseOffset(), pos + int64(i), nil
			}
		}
		pos += int64(len(w)) - batch.HeaderSize + 1
	}
	return -1, -1, nil
}
