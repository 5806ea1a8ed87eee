package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// appendUntilKilled opens the directory and lets all writers append, each as
// fast as it is answered, at the default level: every acknowledgement is on
// the device.
func appendUntilKilled(ctx context.Context, s settings) (err error) {
	store, err := oncelog.Open(s.dir, oncelog.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(context.Background())) }()
	err = store.CreateTopic(ctx, topicName, oncelog.TopicConfig{Partitions: 2, SegmentBytes: segmentBytes})
	if err != nil && !errors.Is(err, oncelog.ErrTopicExists) {
		return err
	}
	acks, err := createAcks(s.acks)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	var errs error
	for _, w := range writers(s.foreign) {
		group.Go(func() { // ends with ctx, or with the process
			err := w.appendAll(ctx, store, acks)
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			errs = errors.Join(errs, fmt.Errorf("writer %d: %w", w.id, err))
			mu.Unlock()
			cancel()
		})
	}
	group.Wait()
	return errs
}

// appendAll appends one batch after the other.
func (w *writer) appendAll(ctx context.Context, store *oncelog.Store, acks *ackFile) error {
	var builder batch.Builder
	var buffer []byte
	for n := 0; ; n++ {
		b, err := w.build(&builder, buffer[:0], n, time.Now().UnixMilli())
		if err != nil {
			return err
		}
		buffer = b
		a, err := w.append(ctx, store, b, n)
		if err != nil {
			return err
		}
		if err := acks.data(w.id, n, a.BaseOffset, len(b)); err != nil {
			return err
		}
		if w.txn && n%txnBatches == txnBatches-1 {
			if err := w.endTxn(ctx, store, acks, txnOf(n)); err != nil {
				return err
			}
		}
	}
}

// append sends one batch through the door that takes it.
func (w *writer) append(ctx context.Context, store *oncelog.Store, b batch.Batch, n int) (oncelog.Appended, error) {
	if !w.txn {
		return store.Append(ctx, w.partition, b, oncelog.AppendOptions{})
	}
	l, err := store.Partition(w.partition)
	if err != nil {
		return oncelog.Appended{}, err
	}
	// The first batch of a transaction needs a guard: proof that whoever keeps
	// account of transactions was asked after the last one ended. Here that is
	// this program.
	guard, _, err := l.Guard(w.producer(), int32(n*batchRecords), false)
	if err != nil {
		return oncelog.Appended{}, err
	}
	return l.Append(ctx, b, log.AppendOptions{Guard: guard})
}

// endTxn writes the marker of a transaction.
func (w *writer) endTxn(ctx context.Context, store *oncelog.Store, acks *ackFile, txn int) error {
	l, err := store.Partition(w.partition)
	if err != nil {
		return err
	}
	m := batch.Marker{Producer: w.producer(), Commit: commits(txn), Timestamp: time.Now().UnixMilli()}
	a, err := l.AppendMarker(ctx, m, log.MarkerOptions{})
	if err != nil {
		return err
	}
	return acks.end(w.id, txn, a.BaseOffset, m.Commit)
}
