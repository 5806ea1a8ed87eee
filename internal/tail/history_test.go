package tail

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

// history is a store at level OS: some partitions whose tails share a few slots,
// and what each of them was given.
type history struct {
	t          *testing.T
	r          *rand.Rand
	fsys       *vfs.Mem
	slots      *Slots
	partitions []*partition
	sizes      []int // of the batches to come, the same for all
	lose       bool  // plan for power loss: settle truncations
}

// partition is one log: its tail, and what was published.
type partition struct {
	id    Identity
	tail  *Tail
	base  int64 // offset of its first batch, which tells the partitions apart
	bytes []byte
	ends  []int64
}

func newHistory(t *testing.T, seed uint64, partitions int) *history {
	h := &history{t: t, r: rand.New(rand.NewPCG(seed, 0)), fsys: vfs.NewMem()}
	h.slots = openSlots(t, h.fsys, smallSlots)
	for i := range partitions {
		id := identity(int32(i))
		file := openFile(t, h.fsys, fmt.Sprintf("segment-%d", i))
		h.partitions = append(h.partitions, &partition{id: id, tail: New(file, id), base: int64(i) * 1_000_000, ends: []int64{0}})
	}
	for range 3000 {
		h.sizes = append(h.sizes, []int{1000, 2000, 3000}[h.r.IntN(3)])
	}
	return h
}

// put appends the next batch of a partition. All of the same number have the
// same size and checksum in all partitions; the offsets tell them apart.
func (h *history) put(p *partition) {
	n := len(p.ends) - 1
	pos, offset, size := p.ends[n], p.base+int64(n), h.sizes[n]
	b := newBatch(offset, size, byte(n%2))
	if p.tail.Room() < size && !p.tail.Grow(h.slots, pos, offset, size) {
		p.tail.Skip()
		_, err := p.tail.WriteAt(b, pos)
		must(h.t, err)
	} else {
		p.tail.Put([][]byte{b}, pos)
	}
	p.bytes = append(p.bytes, b...)
	p.ends = append(p.ends, pos+int64(size))
}

// drain writes back, and sometimes gives the current slot away.
func (h *history) drain(p *partition) {
	_, err := p.tail.WriteBack(p.ends[h.r.IntN(len(p.ends))], 0)
	must(h.t, err)
	if h.r.IntN(2) == 0 {
		p.tail.Drop()
	}
}

// cut truncates to one of the last batches. Offsets stay with positions, so that
// what is put afterwards has other bytes.
func (h *history) cut(p *partition) {
	n := max(0, len(p.ends)-1-h.r.IntN(6))
	pos := p.ends[n]
	p.tail.Cut(pos)
	size, err := p.tail.Size()
	must(h.t, err)
	must(h.t, p.tail.Truncate(min(pos, size)))
	if h.lose {
		must(h.t, h.slots.Settle())
	}
	// The dead ones never come again: what follows begins at other offsets.
	p.base += int64(h.r.IntN(2)) * 1000
	p.bytes, p.ends = p.bytes[:pos], p.ends[:n+1]
}

func (h *history) step() {
	p := h.partitions[h.r.IntN(len(h.partitions))]
	switch n := h.r.IntN(100); {
	case n < 60:
		h.put(p)
	case n < 75: // in lock step
		for _, p := range h.partitions {
			h.put(p)
		}
	case n < 95:
		h.drain(p)
	case n < 97:
		h.cut(p)
	default:
		h.fsys.WriteBack(vfs.CrashOptions{Rand: h.r, KeepUnsynced: 0.5})
	}
}

// expect is what the slots hold now, by the tails' own account.
func (h *history) expect() (want []Slot) {
	for _, p := range h.partitions {
		for _, c := range *p.tail.chunks.Load() {
			if c.filled.Load() == 0 {
				continue
			}
			first := slices.Index(p.ends, c.start)
			last := slices.Index(p.ends, c.end())
			want = append(want, Slot{
				Identity: p.id, Number: c.slot.number, Sequence: c.slot.header.sequence,
				Pos: c.start, Bytes: p.bytes[c.start:c.end()], Batches: last - first, SameBoot: true,
			})
		}
	}
	return want
}

// TestKilled: after a kill the slots hold exactly what was published in them and
// not drained, whatever was in them before.
func TestKilled(t *testing.T) {
	for seed := range uint64(10) {
		h := newHistory(t, seed, 3)
		for range 400 {
			h.step()
			got, err := ReadSlots(h.fsys.KillClone(), ".", smallSlots.Boot)
			must(t, err)
			want := h.expect()
			if len(got) != len(want) {
				t.Fatalf("seed %d: %d slots, want %d", seed, len(got), len(want))
			}
			for i, g := range got {
				w := want[i]
				w.BaseOffset, w.NextOffset = g.BaseOffset, g.NextOffset
				if !equalSlots(g, w) {
					t.Fatalf("seed %d: slot %+v\nwant %+v", seed, describe(g), describe(w))
				}
			}
		}
	}
}

func equalSlots(a, b Slot) bool {
	same := bytes.Equal(a.Bytes, b.Bytes)
	a.Bytes, b.Bytes = nil, nil
	return same && fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b)
}

// describe is the slot without most of its bytes.
func describe(s Slot) Slot {
	s.Bytes = s.Bytes[:min(len(s.Bytes), 20)]
	return s
}

// TestPowerLoss: whatever pages survive, a slot gives whole batches of the
// partition it names, from its position on, as the partition has them now:
// nothing of others, of earlier uses, or that was cut.
func TestPowerLoss(t *testing.T) {
	seeds, batches := uint64(20), 0
	if raceEnabled {
		seeds = 3
	}
	for seed := range seeds {
		h := newHistory(t, seed, 3)
		h.lose = true
		for range 400 {
			h.step()
			crashed := h.fsys.CrashClone(vfs.CrashOptions{Rand: h.r, KeepUnsynced: 0.2 + 0.6*h.r.Float64(), Tear: h.r.IntN(2) == 0})
			got, err := ReadSlots(crashed, ".", [16]byte{2})
			must(t, err)
			for _, s := range got {
				h.checkLost(seed, s)
				batches += s.Batches
			}
		}
	}
	if batches < 1000 {
		t.Errorf("only %d batches survived in all", batches)
	}
}

func (h *history) checkLost(seed uint64, s Slot) {
	p := h.partitions[s.Partition]
	end := s.Pos + int64(len(s.Bytes))
	first, last := slices.Index(p.ends, s.Pos), slices.Index(p.ends, end)
	if s.SameBoot || s.Identity != p.id || first < 0 || last-first != s.Batches {
		h.t.Fatalf("seed %d: slot %+v: no batches of that partition", seed, describe(s))
	}
	if !bytes.Equal(s.Bytes, p.bytes[s.Pos:end]) {
		h.t.Fatalf("seed %d: slot %+v: other bytes", seed, describe(s))
	}
}
