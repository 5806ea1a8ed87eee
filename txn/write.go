package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// write publishes a record in the log that the state of an id was read from. An
// error that leaves open whether it is there has the log read again before the
// next decision.
func (c *Coordinator) write(ctx context.Context, id string, l *log.Log, t *Transaction) (position, error) {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	b, err := w.record(id, t)
	if err != nil {
		return position{}, err
	}
	if most := l.Config().BatchBytesMax; t.State == Ongoing && most > 0 && len(b)+decisionBytes > most {
		return position{}, fmt.Errorf("%w: %d take a record of %d bytes, the transaction log takes %d", ErrTooManyPartitions, len(t.Partitions), len(b), most)
	}
	return c.publish(ctx, c.statePartitionOf(id), l, b)
}

// decisionBytes is how much longer the record of a decision can be than that of
// its transaction: by a tagged field or two. Whatever can begin can be ended.
const decisionBytes = 64

// publish appends a batch of records to a partition of the transaction log. The
// error is log.ErrOutcomeUnknown if the batch may be in it.
func (c *Coordinator) publish(ctx context.Context, n int, l *log.Log, b batch.Batch) (position, error) {
	if err := l.Failed(); err != nil {
		return position{}, errors.Join(ErrUnavailable, err)
	}
	a, err := l.Append(ctx, b, log.AppendOptions{NoWait: true, Origin: log.OriginCoordinator})
	switch {
	case err == nil:
		return position{l, a.LastOffset + 1}, nil
	case errors.Is(err, log.ErrLatched), errors.Is(err, log.ErrOutcomeUnknown):
		c.states[n].unsure.Store(true)
		err = errors.Join(log.ErrOutcomeUnknown, err)
	}
	return position{}, errors.Join(ErrUnavailable, err)
}

// writer builds records of the transaction log, in memory that is used again.
type writer struct {
	builder    batch.Builder
	batch      []byte
	key, value []byte
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// record is a batch that says t of an id. It is valid until the next one.
func (w *writer) record(id string, t *Transaction) (batch.Batch, error) {
	w.reset()
	w.value = AppendValue(w.value[:0], t)
	w.add(t.UpdatedMs, id, w.value)
	return w.finish()
}

func (w *writer) reset() { w.builder.Reset(w.batch[:0], batch.Plain) }

// add adds a record of an id; no value: it is forgotten.
func (w *writer) add(at int64, id string, value []byte) {
	w.key = AppendKey(w.key[:0], id)
	w.builder.Add(at, w.key, value)
}

func (w *writer) finish() (batch.Batch, error) {
	b, err := w.builder.Finish()
	if err == nil {
		w.batch = b
	}
	return batch.Batch(b), err
}
