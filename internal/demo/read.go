package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// content is what a reader at one isolation level finds in a partition.
type content struct {
	records map[int64][]byte // key, by offset
	bounds  log.Frontiers
	// Of the demo's records:
	keys    map[string]bool
	damaged int // whose value is not what was sent
	twice   int // whose key was there before
}

// read reads a partition to its end as a consumer does: batches of aborted
// transactions and control batches are left out.
func read(ctx context.Context, store *oncelog.Store, tp oncelog.TopicPartition, isolation oncelog.Isolation) (*content, error) {
	l, err := store.Partition(tp)
	if err != nil {
		return nil, err
	}
	c := &content{records: map[int64][]byte{}, keys: map[string]bool{}, bounds: l.Frontiers()}
	offset := c.bounds.LogStart
	for {
		results, err := store.Fetch(ctx, []oncelog.FetchRequest{{TopicPartition: tp, Offset: offset}}, oncelog.FetchOptions{Isolation: isolation})
		if err != nil {
			return nil, err
		}
		r := &results[0]
		if r.Err != nil {
			return nil, r.Err
		}
		if len(r.Bytes()) == 0 {
			r.Close()
			return c, nil
		}
		offset = r.NextOffset()
		err = c.take(r.Fetched)
		r.Close()
		if err != nil {
			return nil, err
		}
	}
}

// take enters the records of one answer.
func (c *content) take(f *oncelog.Fetched) error {
	var records batch.Records
	defer records.Close()
	for b := range f.Batches() {
		if b.IsControl() || aborted(f, b) {
			continue
		}
		for records.Reset(b); records.Next(); {
			r := records.Record()
			c.records[r.Offset] = bytes.Clone(r.Key)
			if b.ProducerID() >= firstProducerID {
				c.judge(r)
			}
		}
		if err := records.Err(); err != nil {
			return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
	}
	return nil
}

// judge looks at a record of the demo.
func (c *content) judge(r *batch.Record) {
	if !bytes.Equal(r.Value, recordValue(r.Key)) {
		c.damaged++
	}
	if c.keys[string(r.Key)] {
		c.twice++
	}
	c.keys[string(r.Key)] = true
}

// aborted tells whether a batch belongs to a transaction that an answer names
// as aborted; at read_uncommitted it names none.
func aborted(f *oncelog.Fetched, b batch.Batch) bool {
	if !b.IsTransactional() {
		return false
	}
	for _, t := range f.Aborted {
		if t.ProducerID == b.ProducerID() && t.First <= b.BaseOffset() && b.BaseOffset() < t.Last {
			return true
		}
	}
	return false
}
