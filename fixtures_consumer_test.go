package oncelog_test

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/log"
)

// longValue is how many bytes of a value the truth spells out.
const longValue = 200

// consumer delivers records of one partition by the rules of Kafka's Java
// consumer: those that records.jsonl obeys.
type consumer struct {
	isolation log.Isolation
	position  int64
	records   []truthRecord
	skipped   int // records whose offset lies below one already delivered
	batches   int
}

// consume reads a log from its start to the bound of the isolation level.
func consume(t testing.TB, l *log.Log, i log.Isolation) *consumer {
	t.Helper()
	c := &consumer{isolation: i, position: l.Frontiers().LogStart}
	for {
		f, err := l.Read(c.position, log.ReadOptions{Isolation: i})
		if err != nil {
			t.Fatalf("read %s at %d, %s: %v", l.Partition(), c.position, i, err)
		}
		n := len(f.Bytes())
		c.take(t, f)
		f.Close()
		if n == 0 {
			return c
		}
	}
}

// take delivers what one fetch answered. Nothing about transactions is
// remembered from one answer to the next.
func (c *consumer) take(t testing.TB, f *log.Fetched) {
	t.Helper()
	waiting := slices.Clone(f.Aborted)
	slices.SortStableFunc(waiting, func(a, b index.AbortedTxn) int { return int(max(-1, min(1, a.First-b.First))) })
	aborting := map[int64]bool{}
	end := c.position
	for b := range f.Batches() {
		c.batches++
		end = b.NextOffset()
		if c.isolation == log.ReadCommitted && b.ProducerID() >= 0 {
			for len(waiting) > 0 && waiting[0].First <= b.LastOffset() {
				aborting[waiting[0].ProducerID] = true
				waiting = waiting[1:]
			}
			m, isMarker, err := batch.ReadMarker(b)
			if err != nil {
				t.Fatalf("marker at %d: %v", b.BaseOffset(), err)
			}
			if isMarker && !m.Commit {
				delete(aborting, b.ProducerID())
			} else if b.IsTransactional() && aborting[b.ProducerID()] {
				c.position = b.NextOffset()
				continue
			}
		}
		c.deliver(t, b)
	}
	c.position = end
}

func (c *consumer) deliver(t testing.TB, b batch.Batch) {
	t.Helper()
	var records batch.Records
	defer records.Close()
	records.Reset(b)
	for records.Next() {
		r := records.Record()
		if r.Offset < c.position {
			c.skipped++
			continue
		}
		c.position = r.Offset + 1
		if !b.IsControl() {
			c.records = append(c.records, spell(b, r))
		}
	}
	if err := records.Err(); err != nil {
		t.Fatalf("batch at %d: %v", b.BaseOffset(), err)
	}
}

// spell writes a record the way the truth does.
func spell(b batch.Batch, r *batch.Record) truthRecord {
	s := truthRecord{Offset: r.Offset, Timestamp: r.Timestamp, Type: b.Timestamps().String(), LeaderEpoch: b.LeaderEpoch(), Key: spellBytes(r.Key)}
	if len(r.Value) > longValue {
		s.ValueBytes, s.ValueSHA256 = len(r.Value), digest(r.Value)
	} else {
		s.Value = spellBytes(r.Value)
	}
	for key, value := range r.Headers.All() {
		name := string(key)
		s.Headers = append(s.Headers, []*string{&name, spellBytes(value)})
	}
	return s
}

func spellBytes(b []byte) *string {
	if b == nil {
		return nil
	}
	s := hex.EncodeToString(b)
	return &s
}
