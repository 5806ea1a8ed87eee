package tail

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/vfs"
)

// tailFile is the content of a tail file with batches of two partitions.
func tailFile(t testing.TB, o SlotsOptions, size int) (file []byte, held []Slot) {
	t.Helper()
	fsys := vfs.NewMem()
	s := openSlots(t, fsys, o)
	for i := range int32(2) {
		tail := New(openFile(t, fsys, fmt.Sprintf("segment-%d", i)), identity(i))
		fill(t, tail, s, 3*size, size)
	}
	file = readFile(t, fsys)
	held, err := ReadSlots(fsys, ".", o.Boot)
	must(t, err)
	return file, held
}

func readFile(t testing.TB, fsys vfs.FS) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, FileName, 1<<30)
	must(t, err)
	return b
}

// replay reads the slots of a file with that content.
func replay(t testing.TB, file []byte, boot [16]byte) ([]Slot, error) {
	t.Helper()
	fsys := vfs.NewMem()
	f := openFile(t, fsys, FileName)
	if _, err := f.WriteAt(file, 0); err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
	return ReadSlots(fsys, ".", boot)
}

// isTyped says that err is one that ReadSlots may give for bad bytes.
func isTyped(err error) bool {
	_, slot := errors.AsType[*SlotError](err)
	_, format := errors.AsType[*FormatError](err)
	return slot || format || errors.Is(err, ErrNewerFormat)
}

func sameSlots(a, b []Slot) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalSlots(a[i], b[i]) {
			return false
		}
	}
	return true
}

// prefixOf says that each slot of got is one of held or a part of it from the front.
func prefixOf(got, held []Slot) bool {
	for _, g := range got {
		found := false
		for _, h := range held {
			if g.Number == h.Number {
				found = g.Identity == h.Identity && g.Pos == h.Pos && g.BaseOffset == h.BaseOffset &&
					g.Batches <= h.Batches && bytes.HasPrefix(h.Bytes, g.Bytes)
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// TestFlippedByte flips each byte of a file: within the boot everything is there
// or the damage is told; after another boot a part from the front is.
func TestFlippedByte(t *testing.T) {
	o := SlotsOptions{Bytes: blockBytes + 2*slotBytesMin, SlotBytes: slotBytesMin, Boot: [16]byte{1}}
	file, held := tailFile(t, o, 700)
	if len(held) != 2 || held[0].Batches != 3 {
		t.Fatalf("%d slots", len(held))
	}
	fsys := vfs.NewMem()
	f := openFile(t, fsys, FileName)
	if _, err := f.WriteAt(file, 0); err != nil {
		t.Fatal(err)
	}
	step := 1
	if raceEnabled {
		step = 7
	}
	for i := 0; i < len(file); i += step {
		for _, mask := range []byte{1, 0xff} {
			if _, err := f.WriteAt([]byte{file[i] ^ mask}, int64(i)); err != nil {
				t.Fatal(err)
			}
			got, err := ReadSlots(fsys, ".", o.Boot)
			if err == nil && !sameSlots(got, held) || err != nil && !(isTyped(err) && prefixOf(got, held)) {
				t.Fatalf("byte %d ^ %#x: %d slots, error %v", i, mask, len(got), err)
			}
			got, err = ReadSlots(fsys, ".", [16]byte{2})
			if err != nil && !isTyped(err) || !prefixOf(got, held) {
				t.Fatalf("byte %d ^ %#x, other boot: %d slots, error %v", i, mask, len(got), err)
			}
		}
		if _, err := f.WriteAt(file[i:i+1], int64(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTruncatedFile: a file of another length than it says is damaged.
func TestTruncatedFile(t *testing.T) {
	file, _ := tailFile(t, smallSlots, 500)
	for size := 0; size < len(file); size += 1 + size/3 {
		if _, err := replay(t, file[:size], smallSlots.Boot); !isTyped(err) {
			t.Errorf("%d of %d bytes: %v", size, len(file), err)
		}
	}
	if _, err := replay(t, append(file, 0), smallSlots.Boot); !isTyped(err) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestForeignHeaders(t *testing.T) {
	file, held := tailFile(t, smallSlots, 500)
	for name, c := range map[string]struct {
		change func(b []byte)
		newer  bool
	}{
		"newer version": {func(b []byte) { binary.LittleEndian.PutUint32(b[posVersion:], version+1) }, true},
		"other magic":   {func(b []byte) { b[0] ^= 1 }, false},
		"other count":   {func(b []byte) { binary.LittleEndian.PutUint32(b[posCount:], 5) }, false},
		"no slots":      {func(b []byte) { binary.LittleEndian.PutUint32(b[posCount:], 0) }, false},
		"huge slots":    {func(b []byte) { binary.LittleEndian.PutUint64(b[posSlotBytes:], 1<<62) }, false},
		"many slots":    {func(b []byte) { binary.LittleEndian.PutUint32(b[posCount:], 1<<32-1) }, false},
		"odd slots":     {func(b []byte) { binary.LittleEndian.PutUint64(b[posSlotBytes:], 16<<10+1) }, false},
	} {
		b := bytes.Clone(file)
		c.change(b)
		binary.LittleEndian.PutUint64(b[posFileSum:], xxhash.Sum64(b[:posFileSum]))
		got, err := replay(t, b, smallSlots.Boot)
		if !isTyped(err) || errors.Is(err, ErrNewerFormat) != c.newer || got != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := replay(t, file, [16]byte{7}); err != nil || len(got) != len(held) || got[0].SameBoot {
		t.Errorf("another boot: %d slots of %d, %v", len(got), len(held), err)
	}
	if _, err := ReadSlots(vfs.NewMem(), ".", smallSlots.Boot); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestMisplacedSlot: a slot copied over another one is none.
func TestMisplacedSlot(t *testing.T) {
	file, held := tailFile(t, smallSlots, 500)
	h := fileHeader{slotBytes: smallSlots.SlotBytes}
	from, to := held[0].Number, held[1].Number
	copy(file[h.slotPos(to):h.slotPos(to+1)], file[h.slotPos(from):h.slotPos(from+1)])
	got, err := replay(t, file, smallSlots.Boot)
	if !isTyped(err) || len(got) != 1 || !equalSlots(got[0], held[0]) {
		t.Errorf("%d slots, %v", len(got), err)
	}
}

// FuzzReadSlots patches a file and mends the checksum of the header it hits:
// reading gives whole batches or a typed error.
func FuzzReadSlots(f *testing.F) {
	o := SlotsOptions{Bytes: blockBytes + slotBytesMin, SlotBytes: slotBytesMin}
	whole := oneSlotFile(f, o)
	f.Add([]byte{2, 0, 0, 0}, uint32(posVersion), true, false)
	f.Add([]byte{0, 0, 0, 0, 1}, uint32(posSlotBytes), true, false)
	f.Add([]byte{0xff, 0xff}, uint32(blockBytes+24), true, true)
	f.Add([]byte{9, 0, 0, 0, 9}, uint32(blockBytes+posPublished), false, false)
	f.Add(make([]byte, 16), uint32(len(whole)-16), false, true)
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff}, uint32(2*blockBytes+8), false, false)
	f.Fuzz(func(t *testing.T, patch []byte, pos uint32, mend, otherBoot bool) {
		file := bytes.Clone(whole)
		copy(file[min(int(pos), len(file)):], patch)
		if mend {
			binary.LittleEndian.PutUint64(file[posFileSum:], xxhash.Sum64(file[:posFileSum]))
			header := file[blockBytes:]
			binary.LittleEndian.PutUint64(header, xxhash.Sum64(header[8:slotHeaderSize]))
		}
		var boot [16]byte
		if otherBoot {
			boot[0] = 1
		}
		got, err := replay(t, file, boot)
		if err != nil && !isTyped(err) {
			t.Fatalf("%v", err)
		}
		for _, s := range got {
			if s.Batches == 0 || s.Pos < 0 || s.NextOffset <= s.BaseOffset || len(s.Bytes) > slotBytesMin {
				t.Fatalf("%+v", describe(s))
			}
		}
	})
}

// FuzzCollect reads garbage as the area of a slot.
func FuzzCollect(f *testing.F) {
	b := newBatch(5, 61, 0)
	area := append(bytes.Clone(b), make([]byte, descriptorSize)...)
	encodeDescriptor(descriptorAt(area, 0), place{generation: 3, pos: 10}, b)
	f.Add(area, int64(10), int64(5), uint64(3), 1)
	f.Add([]byte{}, int64(0), int64(0), uint64(0), 100)
	f.Fuzz(func(t *testing.T, area []byte, pos, offset int64, generation uint64, n int) {
		s := collect(slotHeader{generation: generation, pos: pos, offset: offset}, area, n)
		if len(s.Bytes)+s.Batches*descriptorSize > len(area) || !bytes.HasPrefix(area, s.Bytes) || s.Batches > max(n, 0) {
			t.Fatalf("%d batches of %d bytes out of %d", s.Batches, len(s.Bytes), len(area))
		}
	})
}

// oneSlotFile is a file with one slot in use.
func oneSlotFile(t testing.TB, o SlotsOptions) []byte {
	fsys := vfs.NewMem()
	tail := New(openFile(t, fsys, "segment"), identity(1))
	fill(t, tail, openSlots(t, fsys, o), 1000, 300)
	return readFile(t, fsys)
}
