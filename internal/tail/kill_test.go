package tail

import (
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

// span is a piece of a slot that is stored as one step of the program, or byte
// by byte.
type span struct {
	from, to int
	whole    bool
}

var word = span{posPublished, posPublished + 8, true}

// headerSpans are the stores of a slot header: the checksum last, then the copy.
var headerSpans = []span{
	{posHeaderA + 8, posHeaderA + slotHeaderSize, false}, {posHeaderA, posHeaderA + 8, false},
	{posHeaderB + 8, posHeaderB + slotHeaderSize, false}, {posHeaderB, posHeaderB + 8, false},
}

// TestKilledBetweenInstructions takes the stores of each operation apart, in the
// order of the program, and ends the process between any two: the slots hold what
// they held before or what they hold after.
func TestKilledBetweenInstructions(t *testing.T) {
	const size = 200
	fsys := vfs.NewMem()
	o := SlotsOptions{Bytes: blockBytes + slotBytesMin, SlotBytes: slotBytesMin}
	slots := openSlots(t, fsys, o)
	area := slotBytesMin - blockBytes
	tails := []*Tail{New(openFile(t, fsys, "a"), identity(1)), New(openFile(t, fsys, "b"), identity(2))}
	data := func(i int) span { return span{blockBytes + i*size, blockBytes + (i+1)*size, false} }
	descriptor := func(i int) span {
		to := blockBytes + area - i*descriptorSize
		return span{to - descriptorSize, to, false}
	}
	put := func(tail *Tail, i int) func() {
		return func() { tail.Put([][]byte{newBatch(int64(10+i), size, byte(i%2))}, int64(500+i*size)) }
	}
	grow := func(tail *Tail) func() { return func() { tail.Grow(slots, 500, 10, size) } }
	putSpans := func(i int) []span { return []span{data(i), descriptor(i), word} }
	free := func() { tails[0].Drop() }

	for _, c := range []struct {
		name  string
		do    func()
		spans []span
	}{
		{"take a slot", grow(tails[0]), append([]span{word}, headerSpans...)},
		{"first batch", put(tails[0], 0), putSpans(0)},
		{"second batch", put(tails[0], 1), putSpans(1)},
		{"third batch", put(tails[0], 2), putSpans(2)},
		{"cut", func() { tails[0].Cut(500 + size) }, []span{word, descriptor(1), descriptor(2)}},
		{"drain", func() { _, _ = tails[0].WriteBack(1<<30, 0) }, headerSpans},
		{"take it again", grow(tails[1]), append([]span{word}, headerSpans...)},
		{"first batch again", put(tails[1], 0), putSpans(0)},
		{"second batch again", put(tails[1], 1), putSpans(1)},
		{"nothing", free, nil},
	} {
		before := readFile(t, fsys)
		held, err := replay(t, before, o.Boot)
		must(t, err)
		c.do()
		after := readFile(t, fsys)
		holds, err := replay(t, after, o.Boot)
		must(t, err)
		for step, file := range between(before, after, c.spans) {
			got, err := replay(t, file, o.Boot)
			if err != nil || !sameSlots(got, held) && !sameSlots(got, holds) {
				t.Fatalf("%s, killed after store %d: %d slots, %v", c.name, step, len(got), err)
			}
			before = file
		}
		if string(before) != string(after) {
			t.Fatalf("%s stored something else", c.name)
		}
	}
}

// between gives the states of a file with one slot while spans of it change.
func between(before, after []byte, spans []span) (states [][]byte) {
	file := append([]byte(nil), before...)
	for _, s := range spans {
		step := 1
		if s.whole {
			step = s.to - s.from
		}
		for i := blockBytes + s.from; i < blockBytes+s.to; i += step {
			if string(file[i:i+step]) != string(after[i:i+step]) {
				copy(file[i:], after[i:i+step])
				states = append(states, append([]byte(nil), file...))
			}
		}
	}
	return states
}

// TestCountComesLast: a process that ends before the descriptor is written has
// not counted the batch.
func TestCountComesLast(t *testing.T) {
	fsys := vfs.NewMem()
	tail := New(openFile(t, fsys, "a"), identity(1))
	fill(t, tail, openSlots(t, fsys, smallSlots), 400, 200)
	held, err := ReadSlots(fsys, ".", smallSlots.Boot)
	must(t, err)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the descriptor was written where there is no room")
			}
		}()
		tail.current.slot.area = nil
		tail.Put([][]byte{newBatch(2, 200, 2)}, 400)
	}()
	got, err := ReadSlots(fsys, ".", smallSlots.Boot)
	if err != nil || !sameSlots(got, held) || tail.current.end() != 400 {
		t.Errorf("%d slots, %v; readers see %d bytes", len(got), err, tail.current.end())
	}
}
