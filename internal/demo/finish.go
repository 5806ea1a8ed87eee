package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// finish does what the writers would do after the crash. Each sends its last
// acknowledged batch again, and the idempotent ones the batch that was under
// way: nothing may be stored twice. Then the transactions that were open are
// aborted.
func finish(ctx context.Context, s settings) (err error) {
	acks, err := readAcks(s.acks)
	if err != nil {
		return err
	}
	store, err := oncelog.Open(s.dir, oncelog.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	all := writers(s.foreign)
	var again, underWay retries
	for _, id := range slices.Sorted(maps.Keys(acks.last)) {
		if err := again.send(ctx, store, &all[id], acks.last[id].n); err != nil {
			return err
		}
		if all[id].txn {
			continue
		}
		if err := underWay.send(ctx, store, &all[id], acks.last[id].n+1); err != nil {
			return err
		}
	}
	fmt.Printf("  retried       the batch that was under way at %d idempotent producers: %d were in the log already, %d are now\n",
		underWay.sent, underWay.known+underWay.refused, underWay.stored)
	fmt.Printf("  sent again    the last acknowledged batch of %d producers: %d answered with their offsets, %d refused as stored before\n",
		again.sent, again.known, again.refused)
	ended, err := abortOpen(ctx, store, all)
	if err != nil {
		return err
	}
	fmt.Printf("  aborted       %d transactions that were open when the process was killed\n", ended)
	if again.stored > 0 {
		return fmt.Errorf("%w: %d acknowledged batches were stored again", errBroken, again.stored)
	}
	return nil
}

// retries counts batches that are sent again, and what becomes of them.
type retries struct {
	sent    int
	known   int // answered as duplicates
	refused int // stored before, but further back than the log remembers
	stored  int
}

// send sends the n-th batch of a writer once more. A log that was reopened
// remembers the last batch of a producer only: an acknowledged one behind
// which another came is refused, not stored.
func (r *retries) send(ctx context.Context, store *oncelog.Store, w *writer, n int) error {
	var builder batch.Builder
	b, err := w.build(&builder, nil, n, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	l, err := store.Partition(w.partition)
	if err != nil {
		return err
	}
	a, err := l.Append(ctx, b, log.AppendOptions{})
	r.sent++
	switch {
	case errors.Is(err, oncelog.ErrDuplicate):
		r.refused++
	case err != nil:
		return fmt.Errorf("writer %d, batch %d: %w", w.id, n, err)
	case a.Duplicate:
		r.known++
	default:
		r.stored++
	}
	return nil
}

// abortOpen ends the transactions of the demo that nobody ends.
func abortOpen(ctx context.Context, store *oncelog.Store, all []writer) (n int, err error) {
	for _, w := range all {
		l, err := store.Partition(w.partition)
		if err != nil {
			return n, err
		}
		if !l.HasOngoing(w.producer()) {
			continue
		}
		m := batch.Marker{Producer: w.producer(), Timestamp: time.Now().UnixMilli()}
		if _, err := l.AppendMarker(ctx, m, log.MarkerOptions{}); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
