package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/vfs"
)

const (
	blockBytes     = 4096
	headerSumPos   = blockBytes - 8
	halvesPos      = 2 * blockBytes // where half 0 begins
	formatVersion  = 1
	journalMagic   = "oncelog journal\x00"
	rescueMagic    = "oncelog rescue\x00\x00"
	headerMagicEnd = len(journalMagic)
)

// header says where the runs that count begin.
type header struct {
	first     uint32 // the half with the oldest run
	write     uint64 // counts the headers that were written; the greater of two copies counts
	session   uint64 // random; every Start has its own
	halfBytes int64
	sequence  uint64 // of the first run in the first half
	chain     uint64 // that this run must have
	runs      uint64 // of a rescue file: how many there are
	store     [16]byte
}

// fileBytes is the length of the file.
func (h *header) fileBytes() int64 { return halvesPos + 2*h.halfBytes }

// half gives where a half begins and ends.
func (h *header) half(i int) (pos, end int64) {
	pos = halvesPos + int64(i)*h.halfBytes
	return pos, pos + h.halfBytes
}

// block encodes one copy.
func (h *header) block(magic string) []byte {
	b := make([]byte, 0, blockBytes)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, h.first)
	for _, v := range [...]uint64{h.write, h.session, uint64(h.halfBytes), h.sequence, h.chain, h.runs} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, h.store[:]...)
	b = b[:headerSumPos]
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
}

// errHeader says that a copy is none.
var errHeader = errors.New("no header")

// parseHeader decodes one copy. The checksum stands at the same place in every
// version, so a newer version is told from a damaged block.
func parseHeader(b []byte, magic string) (header, error) {
	if len(b) < blockBytes || string(b[:headerMagicEnd]) != magic {
		return header{}, errHeader
	}
	if xxhash.Sum64(b[:headerSumPos]) != binary.LittleEndian.Uint64(b[headerSumPos:]) {
		return header{}, errHeader
	}
	b = b[headerMagicEnd:]
	if v := binary.LittleEndian.Uint32(b); v != formatVersion {
		if v > formatVersion {
			return header{}, fmt.Errorf("%w: %d, known is %d", ErrNewerFormat, v, formatVersion)
		}
		return header{}, errHeader
	}
	at := func(pos int) uint64 { return binary.LittleEndian.Uint64(b[pos:]) }
	h := header{
		first: binary.LittleEndian.Uint32(b[4:]), write: at(8), session: at(16),
		halfBytes: int64(at(24)), sequence: at(32), chain: at(40), runs: at(48),
		store: [16]byte(b[56:72]),
	}
	if h.first > 1 || h.halfBytes < 0 || h.halfBytes > bytesMax/2 || h.halfBytes%blockBytes != 0 || h.sequence == 0 {
		return header{}, errHeader
	}
	return h, nil
}

// readHeader gives the newer of the two copies of a file and which it is.
func readHeader(f vfs.File, magic string) (header, int, error) {
	b := make([]byte, halvesPos)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return header{}, 0, err
	}
	b = b[:n]
	first, firstErr := parseHeader(b, magic)
	second, secondErr := parseHeader(b[min(blockBytes, len(b)):], magic)
	switch {
	case errors.Is(firstErr, ErrNewerFormat):
		return header{}, 0, fmt.Errorf("%s: %w", f.Name(), firstErr)
	case errors.Is(secondErr, ErrNewerFormat):
		return header{}, 0, fmt.Errorf("%s: %w", f.Name(), secondErr)
	case firstErr != nil && secondErr != nil:
		return header{}, 0, &DamageError{File: f.Name(), Reason: "neither copy of the header is whole"}
	case firstErr != nil || secondErr == nil && second.write > first.write:
		return second, 1, nil
	}
	return first, 0, nil
}

// writeHeader makes a header durable in both copies, the one that does not
// count first: whenever this is interrupted, one copy is whole, the old one or
// the new one. Only when both are durable may what the old one refers to be
// overwritten; then each copy alone is enough.
func writeHeader(f vfs.File, h *header, magic string, counts int) error {
	block := h.block(magic)
	for _, i := range [...]int{1 - counts, counts} {
		if _, err := f.WriteAt(block, int64(i)*blockBytes); err != nil {
			return err
		}
		if err := f.Datasync(); err != nil {
			return err
		}
	}
	return nil
}
