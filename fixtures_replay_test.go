package oncelog_test

import (
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
)

// A naive replay of a log, from its batches alone: what producer state and
// aborted transactions must be where nothing of the log is gone.

// replayed is the state after some batches.
type replayed struct {
	producers map[int64]*replayedProducer
	aborted   []index.AbortedTxn
}

type replayedProducer struct {
	truthProducer
	lastOffset  int64 // of the last data batch of this epoch; -1: none
	offsetDelta int32
}

// replay applies batches in order.
func replay(t testing.TB, batches []placedBatch) *replayed {
	t.Helper()
	r := &replayed{producers: map[int64]*replayedProducer{}}
	for _, b := range batches {
		if b.ProducerID() < 0 {
			continue
		}
		if !b.IsControl() {
			r.data(b)
			continue
		}
		m, ok, err := batch.ReadMarker(b.Batch)
		if err != nil {
			t.Fatalf("control batch at %d: %v", b.BaseOffset(), err)
		}
		if ok {
			r.marker(b, m)
		}
	}
	return r
}

// producer gives the state of a producer id at this epoch.
func (r *replayed) producer(id int64, epoch int16) *replayedProducer {
	p := r.producers[id]
	if p == nil {
		p = &replayedProducer{truthProducer: truthProducer{ID: id, CoordinatorEpoch: -1, TxnStart: -1, LastSequence: -1, Epoch: epoch}, lastOffset: -1}
		r.producers[id] = p
	}
	if p.Epoch != epoch {
		p.Epoch, p.LastSequence, p.lastOffset, p.offsetDelta = epoch, -1, -1, 0
	}
	return p
}

func (r *replayed) data(b placedBatch) {
	p := r.producer(b.ProducerID(), b.ProducerEpoch())
	p.LastSequence, p.LastTimestamp = b.LastSequence(), b.MaxTimestamp()
	p.lastOffset, p.offsetDelta = b.LastOffset(), b.LastOffsetDelta()
	if b.IsTransactional() && p.TxnStart < 0 {
		p.TxnStart = b.BaseOffset()
	}
}

func (r *replayed) marker(b placedBatch, m batch.Marker) {
	p := r.producer(b.ProducerID(), b.ProducerEpoch())
	first := p.TxnStart
	p.TxnStart, p.CoordinatorEpoch, p.LastTimestamp = -1, m.CoordinatorEpoch, m.Timestamp
	if first < 0 || m.Commit {
		return
	}
	stable := b.BaseOffset() + 1
	for _, other := range r.producers {
		if other.TxnStart >= 0 {
			stable = min(stable, other.TxnStart)
		}
	}
	r.aborted = append(r.aborted, index.AbortedTxn{ProducerID: p.ID, First: first, Last: b.BaseOffset(), LastStable: stable})
}

// list gives the producers by id.
func (r *replayed) list() (all []replayedProducer) {
	for _, p := range r.producers {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b replayedProducer) int { return int(a.ID - b.ID) })
	return all
}

// truths gives the producers by id as partition.json has them.
func (r *replayed) truths() (all []truthProducer) {
	for _, p := range r.list() {
		all = append(all, p.truthProducer)
	}
	return all
}
