package kill

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// held is a batch that was read.
type held struct {
	writer, n  int
	base, next int64  // its first offset, and that behind its last
	sum        uint64 // of all but what the log stamps
	size       int
}

// content is what a partition shows.
type content struct {
	missing         bool // there is no such partition
	start, end      int64
	high, published int64 // high watermark and log end, when reading began
	batches         []held
}

// digest is one number for all of it.
func (c *content) digest() uint64 {
	d := xxhash.New()
	var b []byte
	for _, h := range c.batches {
		b = binary.LittleEndian.AppendUint64(b[:0], uint64(h.base))
		b = binary.LittleEndian.AppendUint64(b, uint64(h.next))
		b = binary.LittleEndian.AppendUint64(b, h.sum)
		_, _ = d.Write(b) // never fails
	}
	return d.Sum64()
}

// The parts of a batch that a log changes: base offset and leader epoch.
const (
	afterBaseOffset = 8
	leaderEpochAt   = 12
	afterEpoch      = 16
)

// sumOf is over what a client sent and the log must not change.
func sumOf(b batch.Batch) uint64 {
	d := xxhash.New()
	_, _ = d.Write(b[afterBaseOffset:leaderEpochAt]) // never fails
	_, _ = d.Write(b[afterEpoch:])
	return d.Sum64()
}

// readAll reads every partition whole.
func readAll(s *scene, store *oncelog.Store) ([]content, error) {
	all := make([]content, len(places))
	for i, p := range places {
		l, err := store.Partition(p.TopicPartition)
		if errors.Is(err, oncelog.ErrUnknownPartition) {
			all[i].missing = true
			continue
		}
		if err == nil {
			all[i], err = readLog(s, i, l)
		}
		if err != nil {
			return nil, fmt.Errorf("read %v: %w", p.TopicPartition, err)
		}
	}
	return all, nil
}

// readBytes is about how much is read at once.
const readBytes = 4 << 20

// readLog reads one partition, from its log start on.
func readLog(s *scene, at int, l *log.Log) (content, error) {
	bounds := l.Frontiers()
	c := content{start: bounds.LogStart, end: bounds.LogStart, high: bounds.HighWatermark, published: bounds.LogEnd}
	for {
		f, err := l.Read(c.end, log.ReadOptions{BytesMax: readBytes})
		if err != nil {
			return c, err
		}
		if len(f.Bytes()) == 0 {
			f.Close()
			return c, nil
		}
		for b := range f.Batches() {
			writer, n, err := s.find(at, b)
			if err != nil {
				f.Close()
				return c, fmt.Errorf("offset %d: %w", b.BaseOffset(), err)
			}
			c.batches = append(c.batches, held{writer, n, b.BaseOffset(), b.NextOffset(), sumOf(b), len(b)})
		}
		c.end = f.NextOffset()
		f.Close()
	}
}
