package bench

import (
	"math/rand/v2"
	"time"

	"github.com/oncelog/oncelog/batch"
)

// source makes the batches that one writer appends to one partition. They are
// made some at a time (fill) while the clock stands still, and taken one by
// one (next). Not safe for concurrent use.
type source struct {
	records   int
	value     []byte
	producers int64 // 0: plain; otherwise these many take turns
	firstID   int64
	repeat    bool // the first batch of each producer again and again

	builder batch.Builder
	count   int64 // batches made since restart
	arena   []byte
	ends    []int // of the batches in arena
	taken   int
}

// valueOf gives bytes that no codec and no file system makes smaller.
func valueOf(size int) []byte {
	value := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(value) // never fails
	return value
}

func newSource(c *Config, firstID int64) *source {
	s := &source{records: c.RecordsPerBatch, value: valueOf(c.RecordBytes), firstID: firstID}
	if c.Producer == Idempotent {
		s.producers = 1
	}
	return s
}

// restart begins anew with other producers, for a store that knows none.
func (s *source) restart() {
	s.firstID += max(s.producers, 1)
	s.count, s.taken, s.ends = 0, 0, s.ends[:0]
}

// left is how many batches are made and not taken.
func (s *source) left() int { return len(s.ends) - s.taken }

// fill makes batches of about size bytes, at least one, if none is left.
func (s *source) fill(size int64) error {
	if s.left() > 0 {
		return nil
	}
	if s.producers == 0 && len(s.ends) > 0 && int64(len(s.arena)) >= size {
		s.taken = 0 // without sequences the same will do
		return nil
	}
	s.arena, s.ends, s.taken = s.arena[:0], s.ends[:0], 0
	now := time.Now().UnixMilli()
	for len(s.ends) == 0 || int64(len(s.arena)) < size {
		if err := s.add(now); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) add(now int64) (err error) {
	o := batch.Plain
	if s.producers > 0 {
		o.Producer = batch.Producer{ID: s.firstID + s.count%s.producers}
		turn := s.count / s.producers
		if s.repeat {
			turn = 0
		}
		o.BaseSequence = int32(turn * int64(s.records) & 0x7fffffff)
	}
	s.builder.Reset(s.arena, o)
	for range s.records {
		s.builder.Add(now, nil, s.value)
	}
	if s.arena, err = s.builder.Finish(); err != nil {
		return err
	}
	s.ends = append(s.ends, len(s.arena))
	s.count++
	return nil
}

// next takes the next batch, valid until fill. There must be one left.
func (s *source) next() batch.Batch {
	start := 0
	if s.taken > 0 {
		start = s.ends[s.taken-1]
	}
	end := s.ends[s.taken]
	s.taken++
	return batch.Batch(s.arena[start:end:end])
}
