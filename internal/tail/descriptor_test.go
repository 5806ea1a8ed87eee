package tail

import (
	"encoding/hex"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// TestCheckBindsAll: one bit less or more in anything that the check covers
// changes about half of it.
func TestCheckBindsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	changed, n := 0, 0
	for range 200 {
		p := place{generation: r.Uint64(), index: r.IntN(1000), pos: r.Int64N(1 << 30)}
		offset, d := r.Int64N(1<<40), make([]byte, descriptorSize)
		for i := range d {
			d[i] = byte(r.Uint32())
		}
		want := p.check(offset, d)
		differs := func(got uint32) {
			if got == want {
				t.Fatalf("%+v at offset %d: a change is not seen", p, offset)
			}
			changed, n = changed+bits.OnesCount32(got^want), n+1
		}
		for bit := range 63 {
			q := p
			q.generation ^= 1 << bit
			differs(q.check(offset, d))
			q = p
			q.pos ^= 1 << bit
			differs(q.check(offset, d))
			differs(p.check(offset^1<<bit, d))
			q = p
			q.index ^= 1 << (bit % 32)
			differs(q.check(offset, d))
		}
		for bit := 32; bit < 8*descriptorSize; bit++ {
			d[bit/8] ^= 1 << (bit % 8)
			differs(p.check(offset, d))
			d[bit/8] ^= 1 << (bit % 8)
		}
	}
	if average := float64(changed) / float64(n); average < 15 || average > 17 {
		t.Errorf("a change turns %.1f of 32 bits", average)
	}
}

// TestFormat holds version 1 of the format: who changes these bytes raises the
// version.
func TestFormat(t *testing.T) {
	header := fileHeader{slotBytes: 1 << 20, count: 63, boot: [16]byte{1, 2, 3}}
	var slotBytes [slotHeaderSize]byte
	slot := slotHeader{sequence: 5, generation: 0x1122334455667788, state: stateUsed, identity: identity(3), pos: 1000, offset: 77, slot: 4}
	slot.encode(slotBytes[:])
	var descriptor [descriptorSize]byte
	encodeDescriptor(descriptor[:], place{generation: slot.generation, index: 2, pos: 1100}, newBatch(78, 100, 1))
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"file header": {header.encode(), "6f6e63656c6f67207461696c00000000" + "010000003f0000000000100000000000" +
			"00000000000000000102030000000000" + "00000000000000009d0455a44fc3980a"},
		"slot header": {slotBytes[:], "c2702880943659d10500000000000000" + "88776655443322110200000003000000" +
			"09080700000000000000000000000000" + "6400000000000000e803000000000000" + "4d000000000000000400000000000000"},
		"descriptor": {descriptor[:], "80f776d3de1700066400000007000000"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	got, ok := decodeSlotHeader(slotBytes[:], 4)
	if !ok || got != slot {
		t.Errorf("decoded %+v", got)
	}
	if got, err := decodeFileHeader("", header.encode(), header.fileBytes()); err != nil || got != header {
		t.Errorf("decoded %+v, %v", got, err)
	}
}
