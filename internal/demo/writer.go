package main

import (
	"bytes"
	"strconv"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
)

// The work: topicName is the demo's own topic.
const (
	topicName       = "demo"
	plainWriters    = 8  // in demo-0
	txnWriters      = 4  // in demo-1
	foreignWriters  = 2  // in partition 0 of the topic that Kafka made
	batchRecords    = 16 // a batch
	valueBytes      = 1 << 10
	segmentBytes    = 64 << 20
	txnBatches      = 4       // a transaction
	abortEvery      = 4       // the last of so many transactions is aborted
	firstProducerID = 1 << 48 // Kafka's own ids lie below
)

// writer is one producer with the partition it writes to. What its n-th batch
// holds follows from the two numbers, so that it can be checked, and sent
// again, by another process.
type writer struct {
	id        int
	partition oncelog.TopicPartition
	txn       bool
}

// writers are all of them; an id is a place in this list.
func writers(foreign string) []writer {
	var all []writer
	add := func(n int, topic string, index int32, txn bool) {
		for range n {
			all = append(all, writer{id: len(all), partition: oncelog.TopicPartition{Topic: topic, Index: index}, txn: txn})
		}
	}
	add(plainWriters, topicName, 0, false)
	add(txnWriters, topicName, 1, true)
	add(foreignWriters, foreign, 0, false)
	return all
}

func (w *writer) producer() batch.Producer {
	return batch.Producer{ID: firstProducerID + int64(w.id)}
}

// build appends the n-th batch to dst.
func (w *writer) build(b *batch.Builder, dst []byte, n int, timestamp int64) (batch.Batch, error) {
	b.Reset(dst, batch.BuilderOptions{
		Producer: w.producer(), BaseSequence: int32(n * batchRecords), LeaderEpoch: batch.None, Transactional: w.txn,
	})
	for i := range batchRecords {
		key := recordKey(w.id, n, i)
		b.Add(timestamp, key, recordValue(key))
	}
	return b.Finish()
}

// commits tells how the n-th transaction ends.
func commits(n int) bool { return n%abortEvery != abortEvery-1 }

// txnOf is the transaction that the n-th batch belongs to.
func txnOf(n int) int { return n / txnBatches }

// recordKey names a record.
func recordKey(writer, n, i int) []byte {
	key := strconv.AppendInt(nil, int64(writer), 10)
	key = strconv.AppendInt(append(key, '-'), int64(n), 10)
	return strconv.AppendInt(append(key, '-'), int64(i), 10)
}

// recordValue is the key again and again.
func recordValue(key []byte) []byte {
	unit := append(bytes.Clone(key), ' ')
	return bytes.Repeat(unit, valueBytes/len(unit)+1)[:valueBytes]
}
