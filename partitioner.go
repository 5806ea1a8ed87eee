package oncelog

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// partitioner chooses partitions as Kafka's producers do: records with a key by
// its hash, so that a key stays in its partition as long as their number does not
// change; others in one partition until a batch is full, and then in another.
// Its methods are called under the lock of its producer.
type partitioner struct {
	store  *Store
	sticky map[string]*stickiness
}

// stickiness is where records without a key of one topic go.
type stickiness struct {
	nth  int // partition of the topic
	left int // bytes until another one
}

// choose finds the partition for a record of about size bytes; batchBytes is how
// much goes to one partition before the next.
func (p *partitioner) choose(topic string, key []byte, size, batchBytes int) (TopicPartition, error) {
	n := p.store.catalog.Width(topic)
	if n == 0 {
		return TopicPartition{}, fmt.Errorf("%w: topic %q", ErrUnknownPartition, topic)
	}
	nth := 0
	switch {
	case key != nil:
		nth = int(murmur2(key)&0x7fffffff) % n
	case n > 1:
		s := p.sticky[topic]
		if s == nil {
			s = &stickiness{nth: rand.IntN(n), left: batchBytes}
			p.sticky[topic] = s
		}
		if s.left <= 0 {
			s.nth, s.left = s.nth+1+rand.IntN(n-1), batchBytes
		}
		s.left -= size
		nth = s.nth % n
	}
	tp, found := p.store.catalog.Nth(topic, nth)
	if !found { // deleted, and made anew with fewer, meanwhile
		return TopicPartition{}, fmt.Errorf("%w: topic %q", ErrUnknownPartition, topic)
	}
	return tp, nil
}

// murmur2 is the hash that Kafka's clients agree on: 32 bits, with their seed.
func murmur2(key []byte) uint32 {
	const seed, m, r = 0x9747b28c, 0x5bd1e995, 24
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
