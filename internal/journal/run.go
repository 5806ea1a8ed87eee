package journal

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

const (
	runMagic        = "oncerun1"
	runHeaderBytes  = 64
	runTrailerBytes = 8
	runFixedBytes   = runHeaderBytes + runTrailerBytes
	// runBytesMax bounds a run in a large journal; in a small one a quarter of
	// a half does.
	runBytesMax = 8 << 20
	// entryBytesMax bounds what publishing merges into one entry, so that runs
	// can be cut between entries.
	entryBytesMax = 1 << 20
)

// runMax is the most bytes of a run, with the zeros at its end, in a half of
// this size.
func runMax(halfBytes int64) int64 {
	return max(blockBytes, min(runBytesMax, halfBytes/4)/blockBytes*blockBytes)
}

// padded rounds up to whole blocks.
func padded(size int64) int64 { return (size + blockBytes - 1) / blockBytes * blockBytes }

// runHeader begins a run.
type runHeader struct {
	session  uint64
	sequence uint64
	chain    uint64 // the sum that ends the run before
	size     int64  // from the header to the sum, both included, without the zeros
	pos      int64  // in the file: a copy of a run elsewhere is none
	frames   uint32
}

func (h *runHeader) put(b []byte) {
	_ = b[runHeaderBytes-1]
	copy(b, runMagic)
	binary.LittleEndian.PutUint64(b[8:], h.session)
	binary.LittleEndian.PutUint64(b[16:], h.sequence)
	binary.LittleEndian.PutUint64(b[24:], h.chain)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.size))
	binary.LittleEndian.PutUint64(b[40:], uint64(h.pos))
	binary.LittleEndian.PutUint64(b[48:], uint64(h.frames))
	binary.LittleEndian.PutUint64(b[56:], xxhash.Sum64(b[:56]))
}

// parseRunHeader decodes the header of a run; false if there is none.
func parseRunHeader(b []byte) (runHeader, bool) {
	if len(b) < runHeaderBytes || string(b[:8]) != runMagic || xxhash.Sum64(b[:56]) != binary.LittleEndian.Uint64(b[56:]) {
		return runHeader{}, false
	}
	return runHeader{
		session:  binary.LittleEndian.Uint64(b[8:]),
		sequence: binary.LittleEndian.Uint64(b[16:]),
		chain:    binary.LittleEndian.Uint64(b[24:]),
		size:     int64(binary.LittleEndian.Uint64(b[32:])),
		pos:      int64(binary.LittleEndian.Uint64(b[40:])),
		frames:   binary.LittleEndian.Uint32(b[48:]),
	}, true
}

// nearly tells whether b, which is no header, was once that of this run: all that
// is known of it beforehand is there, but for one part at most. Bytes of an earlier
// pass over the half have another sequence and another chain.
func (h *runHeader) nearly(b []byte) bool {
	var want [runHeaderBytes]byte
	h.put(want[:])
	same := 0
	for _, pos := range [...]int{0, 8, 16, 24, 40} { // magic, session, sequence, chain, position
		if [8]byte(b[pos:pos+8]) == [8]byte(want[pos:pos+8]) {
			same++
		}
	}
	return same >= 4
}

// fits tells whether the run can lie in a place that ends at end.
func (h *runHeader) fits(end int64) bool {
	return h.size >= runFixedBytes+int64(h.frames)*frameHeaderBytes && h.size <= end-h.pos
}
