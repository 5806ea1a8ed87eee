package tail

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

func TestSlotsRunOut(t *testing.T) {
	fsys := vfs.NewMem()
	s := openSlots(t, fsys, smallSlots)
	tail := New(openFile(t, fsys, "segment"), identity(1))
	pos := int64(0)
	for offset := int64(0); ; offset++ {
		b := newBatch(offset, 1000, 1)
		if tail.Room() < len(b) && !tail.Grow(s, pos, offset, len(b)) {
			break
		}
		tail.Put([][]byte{b}, pos)
		pos += int64(len(b))
	}
	if got := s.Stats(); got != (SlotsStats{Slots: 4, Taken: 4, Refused: 1}) {
		t.Errorf("%+v", got)
	}
	if least := int64(4 * (12<<10 - 1000 - 12*descriptorSize)); pos < least || tail.Room() != 0 {
		t.Errorf("%d bytes fit, want %d; room for %d", pos, least, tail.Room())
	}
	freed := s.Freed()
	_, err := tail.WriteBack(math.MaxInt64, 0)
	must(t, err)
	<-freed
	if !tail.Drop() || s.Stats().Taken != 0 {
		t.Error("slots are taken after all is written")
	}
	if s.Take(identity(1), 0, 0, s.ChunkMax()+1, 0) != nil {
		t.Error("a slot for a batch above ChunkMax")
	}
	if c := s.Take(identity(1), 0, 0, s.ChunkMax(), 0); c.room() < 4*s.ChunkMax() {
		t.Errorf("room for %d in a slot, ChunkMax %d", c.room(), s.ChunkMax())
	}
}

func TestSlotsOptions(t *testing.T) {
	for _, o := range []SlotsOptions{
		{Bytes: 1000}, {SlotBytes: 1000}, {SlotBytes: 16<<10 + 1}, {SlotBytes: -1}, {Bytes: -1},
		{SlotBytes: 1 << 40}, {Bytes: 16 << 10, SlotBytes: 16 << 10}, {Bytes: math.MaxInt64, SlotBytes: 16 << 10},
	} {
		if _, err := OpenSlots(vfs.NewMem(), ".", o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	s := openSlots(t, vfs.NewMem(), SlotsOptions{})
	if got := s.Stats().Slots; got != 63 {
		t.Errorf("%d slots by default", got)
	}
}

// TestTakeOver opens a file that was recovered: nothing is in it any more, on
// the disk neither, and numbers go on rising.
func TestTakeOver(t *testing.T) {
	for name, o := range map[string]SlotsOptions{
		"same":         smallSlots,
		"other boot":   {Bytes: smallSlots.Bytes, SlotBytes: smallSlots.SlotBytes, Boot: [16]byte{9}},
		"fewer slots":  {Bytes: smallSlots.Bytes - 16<<10, SlotBytes: smallSlots.SlotBytes},
		"larger slots": {Bytes: smallSlots.Bytes, SlotBytes: 32 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			tail := New(openFile(t, fsys, "segment"), identity(1))
			fill(t, tail, openSlots(t, fsys, smallSlots), 20<<10, 1000)
			fsys = fsys.KillClone()
			held, err := ReadSlots(fsys, ".", smallSlots.Boot)
			if err != nil || len(held) != 2 {
				t.Fatalf("%d slots, %v", len(held), err)
			}
			s := openSlots(t, fsys, o)
			for _, after := range []*vfs.Mem{fsys.KillClone(), fsys.CrashClone(vfs.CrashOptions{})} {
				for _, boot := range [][16]byte{o.Boot, {77}} {
					if got, err := ReadSlots(after, ".", boot); err != nil || len(got) > 0 {
						t.Errorf("%d slots after the take-over, %v", len(got), err)
					}
				}
			}
			if c := s.Take(identity(1), 0, 0, 100, 0); name == "same" && c.slot.header.sequence <= held[1].Sequence {
				t.Errorf("sequence %d after %d", c.slot.header.sequence, held[1].Sequence)
			}
		})
	}
}

func TestSlotsRefuseDamage(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, openSlots(t, fsys, smallSlots).Close(false))
	f := openFile(t, fsys, FileName)
	if _, err := f.WriteAt([]byte{0xff}, posBoot); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, fsys)
	if _, err := OpenSlots(fsys, ".", smallSlots); !isTyped(err) {
		t.Errorf("a damaged file is opened: %v", err)
	}
	if !bytes.Equal(before, readFile(t, fsys)) {
		t.Error("a damaged file was changed")
	}
}

func TestSlotsClose(t *testing.T) {
	fsys := vfs.NewMem()
	s := openSlots(t, fsys, smallSlots)
	tail := New(openFile(t, fsys, "segment"), identity(1))
	all := fill(t, tail, s, 3000, 1000)
	must(t, tail.Close()) // not written: the slot is the only place that has them
	if err := s.Close(true); !errors.Is(err, ErrTaken) {
		t.Errorf("removed with bytes in it: %v", err)
	}
	held, err := ReadSlots(fsys, ".", smallSlots.Boot)
	if err != nil || len(held) != 1 || !bytes.Equal(held[0].Bytes, all) {
		t.Fatalf("%d slots, %v", len(held), err)
	}
	must(t, openSlots(t, fsys, smallSlots).Close(true))
	if _, err := fsys.CrashClone(vfs.CrashOptions{}).Stat(FileName); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file after it was removed: %v", err)
	}
}

// TestSlotsCloseBesideReader: the memory stays until the last reader is out.
func TestSlotsCloseBesideReader(t *testing.T) {
	fsys := vfs.NewMem()
	s := openSlots(t, fsys, smallSlots)
	tail := New(openFile(t, fsys, "segment"), identity(1))
	all := fill(t, tail, s, 3000, 1000)
	c := tail.current
	if !c.pin() {
		t.Fatal("no pin")
	}
	_, err := tail.WriteBack(math.MaxInt64, 0)
	must(t, err)
	must(t, tail.Close())
	must(t, s.Close(false))
	if !bytes.Equal(c.mem[:len(all)], all) {
		t.Error("the memory of a pinned chunk changed")
	}
	c.unpin()
	if c.pin() || s.refs.Load() != 0 {
		t.Error("the chunk or the mapping is still there")
	}
	if s.Take(identity(1), 0, 0, 100, 0) != nil {
		t.Error("a slot after Close")
	}
}

// TestOpenSlotsFails runs with the n-th operation failing, and with power lost
// then: what is there is whole and can be opened.
func TestOpenSlotsFails(t *testing.T) {
	for _, old := range []bool{false, true} {
		for n := 0; ; n++ {
			mem := vfs.NewMem()
			if old {
				must(t, openSlots(t, mem, smallSlots).Close(false))
			}
			// Closing a file that was only read loses nothing.
			fsys := faultfs.New(mem, faultfs.Plan{Faults: []faultfs.Fault{{N: n,
				Match: func(op faultfs.Op) bool { return op.Kind != faultfs.Close }}}})
			_, err := OpenSlots(fsys, ".", smallSlots)
			if !fsys.Fired() {
				must(t, err)
				break
			}
			if err == nil {
				t.Errorf("operation %d failed without an error", n)
			}
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for range 10 {
				crashed := mem.CrashClone(vfs.CrashOptions{Rand: r, KeepUnsynced: 0.5, Tear: true})
				if got, err := ReadSlots(crashed, ".", [16]byte{3}); len(got) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("operation %d failed, then power: %d slots, %v", n, len(got), err)
				}
				must(t, openSlots(t, crashed, smallSlots).Close(false))
			}
		}
	}
}

// TestSettleFails: a sync that failed is not tried again.
func TestSettleFails(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem(), faultfs.Plan{})
	s := openSlots(t, fsys, smallSlots)
	tail := New(openFile(t, fsys, "segment"), identity(1))
	fill(t, tail, s, 20<<10, 1000)
	tail.Forget()
	must(t, s.Settle())
	if n := fsys.Count(faultfs.Sync); s.Settle() != nil || fsys.Count(faultfs.Sync) != n {
		t.Error("a sync with nothing to make durable")
	}
	fill(t, tail, s, 20<<10, 1000)
	tail.Forget()
	fsys.SetPlan(faultfs.FailNth(1, nil, faultfs.Sync))
	first := s.Settle()
	if second := s.Settle(); first == nil || second != first || fsys.Count(faultfs.Sync) != 2 {
		t.Errorf("%v, then %v, with %d syncs", first, second, fsys.Count(faultfs.Sync))
	}
}

// TestSlotsOnMachine maps a file of the machine.
func TestSlotsOnMachine(t *testing.T) {
	fsys, dir := vfs.Machine(), t.TempDir()
	place, err := fsys.Place(dir)
	must(t, err)
	o := SlotsOptions{Bytes: smallSlots.Bytes, SlotBytes: smallSlots.SlotBytes, Boot: place.Boot}
	for range 2 {
		s, err := OpenSlots(fsys, dir, o)
		must(t, err)
		tail := New(openFile(t, vfs.NewMem(), "segment"), identity(1))
		all := fill(t, tail, s, 20<<10, 1000)
		got, err := ReadSlots(fsys, dir, place.Boot)
		if err != nil || len(got) != 2 || !bytes.Equal(append(got[0].Bytes, got[1].Bytes...), all) {
			t.Fatalf("%d slots, %v", len(got), err)
		}
		tail.Cut(13000)
		must(t, s.Settle())
		got, err = ReadSlots(fsys, dir, [16]byte{})
		if err != nil || len(got) != 2 || got[0].Batches+got[1].Batches != 13 {
			t.Fatalf("%d slots, %v", len(got), err)
		}
		must(t, tail.Close())
		must(t, s.Close(false))
	}
}
