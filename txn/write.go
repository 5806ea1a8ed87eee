package txn

import (
	"sync"

	"github.com/oncelog/oncelog/batch"
)

// writer builds records of the transaction log, in memory that is used again.
type writer struct {
	builder    batch.Builder
	batch      []byte
	key, value []byte
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// record is a batch that says t of an id; nil: it is forgotten. It is valid until
// the next one.
func (w *writer) record(id string, t *Transaction) (batch.Batch, error) {
	w.reset()
	var value []byte
	at := int64(0)
	if t != nil {
		w.value = AppendValue(w.value[:0], t)
		value, at = w.value, t.UpdatedMs
	}
	w.add(at, id, value)
	return w.finish()
}

func (w *writer) reset() { w.builder.Reset(w.batch[:0], batch.Plain) }

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
