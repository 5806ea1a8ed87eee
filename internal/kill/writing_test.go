package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// writing is a writer at work.
type writing struct {
	*child
	w       *writer
	builder batch.Builder
	buffer  []byte
	pause   *rand.Rand
	waiting []record // published, and not waited for
}

// appendAll sends one batch after the other, from the first on that is not
// stored. It returns with an error only.
func (w *writing) appendAll(ctx context.Context) error {
	n := -1
	for turn, at := range w.w.route {
		next := turn
		if s, ok := w.last[stream{w.w.id, at}]; ok {
			next = s.n + len(w.w.route)
		}
		if n < 0 || next < n {
			n = next
		}
	}
	for ; ; n++ {
		if s, ok := w.last[stream{w.w.id, w.w.at(n)}]; ok && n <= s.n {
			continue // the others of a burst were lost
		}
		if err := w.append(ctx, n); err != nil {
			return fmt.Errorf("batch %d to %v: %w", n, places[w.w.at(n)].TopicPartition, err)
		}
		if w.w.pause > 0 {
			time.Sleep(time.Duration(w.pause.IntN(w.w.pause)) * time.Microsecond)
		}
	}
}

// append sends the n-th batch and writes down what came of it.
func (w *writing) append(ctx context.Context, n int) error {
	b, err := w.scene.build(&w.builder, w.buffer[:0], w.w, n)
	if err != nil {
		return err
	}
	w.buffer = b
	if err := w.records.write(sends, w.w.id, n, 0); err != nil {
		return err
	}
	p := &places[w.w.at(n)]
	o := oncelog.AppendOptions{NoWait: w.w.burst > 0}
	if w.w.fsync {
		o.Durability = oncelog.DurabilityFsync
	}
	a, err := w.store.Append(ctx, p.TopicPartition, b, o)
	switch {
	case p.topic.kept && errors.Is(err, oncelog.ErrDuplicate), err == nil && a.Duplicate && a.LastOffset < a.LogStart:
		// The child before had it stored, and records deleted, and was killed
		// before it was answered.
		return w.records.write(knownGone, w.w.id, n, 0)
	case err != nil:
		return err
	case a.Duplicate:
		return fmt.Errorf("answered as a duplicate of offset %d, where nobody has seen it", a.BaseOffset)
	case o.NoWait && p.topic.level == oncelog.DurabilityFsync:
		return w.answered(ctx, record{published, w.w.id, n, a.BaseOffset})
	}
	return w.records.write(acked, w.w.id, n, a.BaseOffset)
}

// answered notes that a batch is published, and at the end of a burst waits for
// all of it.
func (w *writing) answered(ctx context.Context, r record) error {
	if err := w.records.write(r.kind, r.writer, r.n, r.base); err != nil {
		return err
	}
	if w.waiting = append(w.waiting, r); len(w.waiting) < w.w.burst {
		return nil
	}
	for _, r := range w.waiting {
		l, err := w.store.Partition(places[w.w.at(r.n)].TopicPartition)
		if err == nil {
			err = l.Wait(ctx, log.FrontierDurable, r.base+int64(w.w.records))
		}
		if err == nil {
			err = w.records.write(acked, r.writer, r.n, r.base)
		}
		if err != nil {
			return err
		}
	}
	w.waiting = w.waiting[:0]
	return nil
}

// sendAgain sends the last batch of every stream once more, as a producer does
// that was not answered: it is known, with its offset.
func sendAgain(ctx context.Context, s *scene, store *oncelog.Store, last map[stream]stored) error {
	var builder batch.Builder
	for who, is := range last {
		b, err := s.build(&builder, nil, &s.writers[who.writer], is.n)
		if err != nil {
			return err
		}
		p := &places[who.at]
		a, err := store.Append(ctx, p.TopicPartition, b, oncelog.AppendOptions{})
		switch {
		case is.base < 0 && (errors.Is(err, oncelog.ErrDuplicate) || err == nil && a.Duplicate && a.LastOffset < a.LogStart):
		case err != nil:
			return fmt.Errorf("batch %d of writer %d, sent to %v again: %w", is.n, who.writer, p.TopicPartition, err)
		case !a.Duplicate || a.BaseOffset != is.base:
			return fmt.Errorf("batch %d of writer %d, sent to %v again, got the answer %+v; it is at offset %d", is.n, who.writer, p.TopicPartition, a, is.base)
		}
	}
	return nil
}
