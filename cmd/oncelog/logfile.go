package main

import (
	"errors"
	"io"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// endKind is how the batches of a segment file end.
type endKind uint8

const (
	endClean  endKind = iota // the last batch ends where the file ends
	endZeros                 // zeros follow: allocated, never written
	endTorn                  // the last batch is cut off: a crash, or an append under way
	endLegacy                // a message of format 0 or 1 follows
	endDamage                // what follows is no batch
)

// logEnd is where and how the batches of a file end.
type logEnd struct {
	kind endKind
	pos  int64 // byte position behind the last whole batch
	rest int64 // bytes from there to the end of the file
	err  error // why there is no batch; nil if kind is endClean
}

// walkLog calls visit for every batch of a segment file, the first size bytes
// of it, in order. It asks for framing only: visit checks what it wants to
// know. An error is that of the file or of visit; how the batches end is no
// error. The batch is valid during the call.
func walkLog(f vfs.File, size int64, visit func(pos int64, b batch.Batch) error) (logEnd, error) {
	s := segment.NewScanner(f, 0, size, false)
	defer s.Close()
	for s.Next() {
		if err := visit(s.Pos(), s.Batch()); err != nil {
			return logEnd{}, err
		}
	}
	if s.Err() == nil {
		return logEnd{kind: endClean, pos: size}, nil
	}
	torn, ok := errors.AsType[*segment.TornError](s.Err())
	if !ok {
		return logEnd{}, s.Err()
	}
	end := logEnd{kind: endDamage, pos: torn.Pos, rest: size - torn.Pos, err: torn.Err}
	switch {
	case errors.Is(torn, segment.ErrZeros):
		zeros, err := allZeros(f, torn.Pos, size)
		if err != nil {
			return logEnd{}, err
		}
		switch {
		case zeros && end.rest < batch.OverheadSize:
			end.kind = endTorn // may as well be the first bytes of a base offset
		case zeros:
			end.kind = endZeros
		}
	case errors.Is(torn, batch.ErrShort):
		end.kind = endTorn
	case errors.Is(torn, batch.ErrLegacyMagic):
		end.kind = endLegacy
	}
	return end, nil
}

// zeroBytes is how much allZeros reads at once.
const zeroBytes = 1 << 16

// allZeros tells whether [pos, end) of a file holds nothing but zeros.
func allZeros(f vfs.File, pos, end int64) (bool, error) {
	buffer := make([]byte, min(zeroBytes, end-pos))
	for pos < end {
		n, err := f.ReadAt(buffer[:min(int64(len(buffer)), end-pos)], pos)
		if zeroTail(buffer[:n]) != n {
			return false, nil
		}
		if pos += int64(n); err == io.EOF {
			return true, nil // the file became shorter under us
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// zeroTail is the number of zeros at the end of b.
func zeroTail(b []byte) int {
	n := 0
	for n < len(b) && b[len(b)-1-n] == 0 {
		n++
	}
	return n
}
