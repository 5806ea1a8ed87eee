package journal

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/vfs"
)

func FuzzFrame(f *testing.F) {
	var b [frameHeaderBytes]byte
	(&Frame{Kind: KindBytes, Length: 1, Next: 1}).put(b[:])
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < frameHeaderBytes {
			return
		}
		frame, ok := parseFrame(b)
		if !ok {
			return
		}
		var again [frameHeaderBytes]byte
		frame.put(again[:])
		if parsed, ok := parseFrame(again[:]); !ok || parsed != frame {
			t.Errorf("%+v becomes %+v", frame, parsed)
		}
	})
}

// FuzzRead: whatever bytes a journal has, Read, Fold and Harden end without a
// panic, and what was found can be read and is found again. An input is what
// to change in a journal: where, by which bytes, and how long the file is then.
func FuzzRead(f *testing.F) {
	w, mem := written(f, 3)
	short := content(f, mem)
	for w.journal.current == 0 {
		w.logs[0].publish(3000, 1)
		w.journal.Run()
	}
	wrapped := content(f, mem)
	f.Add(false, uint16(0), []byte{}, uint16(0), []byte{}, uint16(len(short)-1), false)
	f.Add(true, uint16(16), []byte{2}, uint16(20), []byte{1, 0, 0, 0}, uint16(len(short)-1), true)
	f.Add(true, uint16(halvesPos+32), []byte{0, 16, 1}, uint16(halvesPos+48), []byte{9}, uint16(len(short)-1), true)
	f.Add(false, uint16(halvesPos+64+20), []byte{3}, uint16(halvesPos+64+40), []byte{255, 255, 255, 255, 255, 255, 255, 127}, uint16(len(short)-1), true)
	f.Fuzz(func(t *testing.T, wrap bool, at uint16, bytes []byte, then uint16, more []byte, size uint16, sums bool) {
		b := slices.Clone(short)
		if wrap {
			b = slices.Clone(wrapped)
		}
		copy(b[at:], bytes)
		copy(b[then:], more)
		b = b[:int(size)+1]
		if sums && len(b) > 4*blockBytes { // else few inputs get past the checksums
			b = mend(b)
		}
		mem := vfs.NewMem()
		must(t, vfs.WriteTemp(mem, Name, b))
		must(t, vfs.WriteTemp(mem, RescueName, b))
		if c, err := ReadRescue(mem, "."); err == nil {
			must(t, c.Close())
		}
		c, err := Read(mem, ".")
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerFormat) {
				t.Fatal(err)
			}
			return
		}
		defer c.Close()
		for _, frame := range c.Frames {
			p := make([]byte, frame.carried())
			if n, err := c.ReadFrame(frame, p, 0); int64(n) != frame.carried() {
				t.Fatalf("%d of %d bytes: %v", n, frame.carried(), err)
			}
		}
		if _, err := c.Fold(); err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		must(t, c.Harden())
		again, err := Read(mem, ".")
		must(t, err)
		defer again.Close()
		if !slices.Equal(again.Frames, c.Frames) {
			t.Fatal("other frames after Harden")
		}
	})
}

// mend sets the checksums of a journal right that are not, so that decoding is
// fuzzed and not only the sums. The size of the halves is made that of the file.
func mend(b []byte) []byte {
	b = b[:len(b)/(2*blockBytes)*(2*blockBytes)]
	half := halfBytes(int64(len(b)))
	for i := range 2 {
		block := b[i*blockBytes : (i+1)*blockBytes]
		copy(block, journalMagic)
		binary.LittleEndian.PutUint64(block[headerMagicEnd+24:], uint64(half))
		binary.LittleEndian.PutUint64(block[headerSumPos:], xxhash.Sum64(block[:headerSumPos]))
	}
	h, err := parseHeader(b, journalMagic)
	if err != nil {
		return b
	}
	sequence, chain := h.sequence, h.chain
	pos, end := h.half(int(h.first))
	for end-pos >= blockBytes {
		p := b[pos:end]
		size := int64(binary.LittleEndian.Uint64(p[32:]))
		if string(p[:8]) != runMagic || size < runFixedBytes || size > end-pos {
			break
		}
		binary.LittleEndian.PutUint64(p[8:], h.session)
		binary.LittleEndian.PutUint64(p[16:], sequence)
		binary.LittleEndian.PutUint64(p[24:], chain)
		binary.LittleEndian.PutUint64(p[40:], uint64(pos))
		binary.LittleEndian.PutUint64(p[56:], xxhash.Sum64(p[:56]))
		sequence, chain = sequence+1, xxhash.Sum64(p[:size-runTrailerBytes])
		binary.LittleEndian.PutUint64(p[size-runTrailerBytes:], chain)
		pos += padded(size)
	}
	return b
}
