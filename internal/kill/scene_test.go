package kill

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
)

// topicPlan is a topic of every life.
type topicPlan struct {
	name       string
	partitions int32
	level      oncelog.Durability
	kept       bool // by size, and records are deleted; of the others everything stays
}

var topicPlans = []topicPlan{
	{"fsync", 6, oncelog.DurabilityFsync, false},
	{"os", 6, oncelog.DurabilityOS, false},
	{"fsync-trimmed", 3, oncelog.DurabilityFsync, true},
	{"os-trimmed", 3, oncelog.DurabilityOS, true},
}

// place is a partition as the test numbers them.
type place struct {
	oncelog.TopicPartition
	topic *topicPlan
}

// places are all partitions; streams and files name them by their index here.
var places = func() (all []place) {
	for i := range topicPlans {
		t := &topicPlans[i]
		for n := range t.partitions {
			all = append(all, place{oncelog.TopicPartition{Topic: t.name, Index: n}, t})
		}
	}
	return all
}()

// scene is what a life is about.
type scene struct {
	seed         uint64
	segmentBytes int64
	writers      []writer
}

// writer is one goroutine of the child. Its n-th batch goes to a partition of
// its route, by turns, and in each it is a producer of its own sequence. What
// the batch holds follows from the seed, the writer and n.
type writer struct {
	id      int
	route   []int // indexes of places
	records int   // of a batch
	large   int   // one batch of so many is large; 0: none
	codec   batch.Codec
	burst   int  // so many batches without waiting, then for all of them; 0: every append waits
	fsync   bool // asks for more than level os
	pause   int  // at most so many µs between two batches
}

const (
	firstProducerID = 1 << 48
	// firstTimestamp lies before every clock that reads it; a batch is 1 ms later
	// than the one before.
	firstTimestamp = 1_700_000_000_000
	// keptSegments is how much retention by size leaves.
	keptSegments = 3
)

// newScene draws one.
func newScene(seed uint64) *scene {
	random := rand.New(rand.NewPCG(seed, 1))
	s := &scene{seed: seed, segmentBytes: []int64{64 << 10, 256 << 10, 2 << 20}[random.IntN(3)]}
	some := func(n int, topics ...string) (route []int) {
		var all []int
		for i, p := range places {
			for _, t := range topics {
				if p.Topic == t {
					all = append(all, i)
				}
			}
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:n]
	}
	add := func(n int, w func() writer) {
		for range n {
			w := w()
			w.id, w.records = len(s.writers), 1+random.IntN(4)
			if random.IntN(6) == 0 {
				w.codec = batch.CodecSnappy
			}
			s.writers = append(s.writers, w)
		}
	}
	add(10, func() writer { return writer{route: some(1, "fsync")} })
	add(2, func() writer { return writer{route: some(1, "fsync"), large: 4} })
	add(3, func() writer { return writer{route: some(1, "fsync-trimmed"), burst: random.IntN(8)} })
	add(6, func() writer {
		return writer{route: some(2+random.IntN(7), "fsync", "fsync-trimmed"), burst: 1 << (2 + random.IntN(5)), large: 100 * random.IntN(2)}
	})
	add(6, func() writer { return writer{route: some(1, "os"), pause: 1 + random.IntN(2000)} })
	add(1, func() writer { return writer{route: some(1, "os"), large: 4, pause: 2000} })
	add(3, func() writer { return writer{route: some(1, "os-trimmed"), pause: 1 + random.IntN(1000)} })
	add(3, func() writer { return writer{route: some(4, "os", "os-trimmed"), burst: 16, pause: 500} })
	add(3, func() writer { return writer{route: some(2, "os"), fsync: true} })
	add(3, func() writer { return writer{route: some(5, "fsync", "os", "fsync-trimmed")} })
	return s
}

// config is that of a topic.
func (s *scene) config(t *topicPlan) oncelog.TopicConfig {
	c := oncelog.TopicConfig{Partitions: int(t.partitions), Durability: t.level, SegmentBytes: s.segmentBytes}
	if t.kept {
		c.Cleanup, c.RetentionBytes = oncelog.CleanupDelete, keptSegments*s.segmentBytes
	}
	return c
}

// at is the index of the place of the n-th batch.
func (w *writer) at(n int) int { return w.route[n%len(w.route)] }

// find tells which batch of which writer b is, by what its header says.
func (s *scene) find(at int, b batch.Batch) (id, n int, err error) {
	id = int(b.ProducerID() - firstProducerID)
	if b.ProducerID() < firstProducerID || id >= len(s.writers) {
		return 0, 0, fmt.Errorf("a batch of producer %d, whom nobody knows", b.ProducerID())
	}
	w := &s.writers[id]
	turn := -1
	for i, p := range w.route {
		if p == at {
			turn = i
		}
	}
	sequence := int(b.BaseSequence())
	if turn < 0 || sequence < 0 || sequence%w.records != 0 {
		return 0, 0, fmt.Errorf("a batch of writer %d with sequence %d, which it never sent here", id, sequence)
	}
	return id, sequence/w.records*len(w.route) + turn, nil
}

// build appends the n-th batch of a writer to dst.
func (s *scene) build(b *batch.Builder, dst []byte, w *writer, n int) (batch.Batch, error) {
	random := rand.New(rand.NewPCG(s.seed, uint64(w.id)<<32|uint64(n)))
	b.Reset(dst, batch.BuilderOptions{
		Producer:     batch.Producer{ID: firstProducerID + int64(w.id)},
		BaseSequence: int32(n / len(w.route) * w.records), LeaderEpoch: batch.None, Codec: w.codec,
	})
	size := w.size(random, n, int(s.segmentBytes))
	for i := range w.records {
		key := fmt.Appendf(nil, "%d-%d-%d", w.id, n, i)
		value := make([]byte, 0, size/w.records+8)
		for len(value) < size/w.records {
			value = binary.LittleEndian.AppendUint64(value, random.Uint64())
		}
		b.Add(firstTimestamp+int64(n), key, value)
	}
	return b.Finish()
}

// size draws how much the values of a batch hold: mostly little, now and then
// more than a small journal takes, and of some writers more than any does.
func (w *writer) size(random *rand.Rand, n, segmentBytes int) int {
	switch {
	case w.large > 0 && n%w.large == w.large-1 && segmentBytes > 1<<20:
		return 270<<10 + random.IntN(500<<10)
	case w.large > 0 && n%w.large == w.large-1:
		return segmentBytes/4 + random.IntN(segmentBytes/2)
	case random.IntN(20) == 0:
		return random.IntN(24 << 10)
	}
	return random.IntN(1500)
}
