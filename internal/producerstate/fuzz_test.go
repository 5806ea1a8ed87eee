package producerstate

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// choices are the bytes of a fuzzer as a source of decisions.
type choices struct {
	rest  []byte
	done  bool
	words uint64
}

func (c *choices) Uint64() uint64 {
	var word [8]byte
	n := copy(word[:], c.rest)
	c.rest = c.rest[n:]
	c.done = n == 0
	// Drawing below a bound rejects some words: the end must not repeat one
	// for ever.
	c.words++
	if c.done {
		return c.words * 0x9e3779b97f4a7c15
	}
	return binary.LittleEndian.Uint64(word[:])
}

// FuzzHistory lets the fuzzer choose the requests; the model has the answers.
// The model's maps take no order, so what an input covers varies and the fuzzer
// loses its time minimizing: run it with -fuzzminimizetime=1x.
func FuzzHistory(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := make([]byte, 0, 4096)
		for len(b) < cap(b) {
			b = binary.LittleEndian.AppendUint64(b, r.Uint64())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h := newHistory(0)
		c := &choices{rest: b}
		h.r = rand.New(c)
		h.ids = 6
		for i := 0; !c.done; i++ {
			if err := h.step(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		if err := h.model.compare(h.table); err != nil {
			t.Fatal(err)
		}
	})
}
