package sim

import (
	"errors"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/producerstate"
)

// fold is what a log says of its producers, by the plainest means.
type fold struct {
	producers    map[int64]*producer
	transactions []transaction // by their first offset
}

// producer is the state of one producer id.
type producer struct {
	epoch       int16
	coordinator int32 // epoch of the last marker, -1: none
	time        int64 // of the last batch or marker
	batches     []sent
	open        int // index in transactions, -1: none
}

// sent is one of the last five batches.
type sent struct {
	first, last int32 // sequences
	base, end   int64 // offsets
	sure        bool  // not forgotten by an opening
}

// transaction is one that began, in the order in which they did.
type transaction struct {
	producer int64
	first    int64
	marker   int64 // -1: open
	commit   bool
}

func newFold() *fold { return &fold{producers: map[int64]*producer{}} }

const remembered = 5

// apply takes the next batch of the log.
func (f *fold) apply(h *batch.Header, m *batch.Marker) {
	id := h.Producer.ID
	if id < 0 || h.IsControl() && m == nil {
		return
	}
	s := f.producers[id]
	if s == nil {
		s = &producer{epoch: -1, coordinator: -1, open: -1}
		f.producers[id] = s
	}
	if s.epoch != h.Producer.Epoch {
		s.epoch, s.batches = h.Producer.Epoch, nil
	}
	if m != nil {
		if s.open >= 0 {
			t := &f.transactions[s.open]
			t.marker, t.commit = h.BaseOffset, m.Commit
		}
		s.open, s.coordinator, s.time = -1, m.CoordinatorEpoch, m.Timestamp
		return
	}
	s.time = h.MaxTimestamp
	s.batches = append(s.batches, sent{h.BaseSequence, h.LastSequence(), h.BaseOffset, h.LastOffset(), true})
	s.batches = s.batches[max(0, len(s.batches)-remembered):]
	if h.IsTransactional() && s.open < 0 {
		s.open = len(f.transactions)
		f.transactions = append(f.transactions, transaction{producer: id, first: h.BaseOffset, marker: -1})
	}
}

// aborted are the aborted transactions that overlap [from, upper), in the order
// of their markers.
func (f *fold) aborted(from, upper int64) []index.AbortedTxn {
	var found []index.AbortedTxn
	for _, t := range f.transactions {
		if t.marker < from || t.commit || t.first >= upper {
			continue
		}
		a := index.AbortedTxn{ProducerID: t.producer, First: t.first, Last: t.marker, LastStable: t.marker + 1}
		for _, o := range f.transactions {
			if o.first < t.marker && o.first != t.first && (o.marker < 0 || o.marker > t.marker) {
				a.LastStable = min(a.LastStable, o.first)
			}
		}
		i := len(found)
		for i > 0 && found[i-1].Last > a.Last {
			i--
		}
		found = append(found[:i], append([]index.AbortedTxn{a}, found[i:]...)...)
	}
	return found
}

// verdict is what the model expects of an append.
type verdict struct {
	refused   error // one of producerstate's sentinels, nil: none
	duplicate bool
	first     int64 // of the original of a duplicate
	last      int64
	// forgetful: an opening may have forgotten the original, and then the
	// batch is refused as stored before or out of order.
	forgetful bool
	done      bool // a repeated marker, answered without offsets
}

// request is a batch to be judged.
type request struct {
	header      *batch.Header
	marker      *batch.Marker
	coordinator bool
	guarded     bool
	tv2         bool
	empty       bool // the partition never held a record
	lowest      *verified
}

// judge says what becomes of a batch, by the rules of package producerstate.
func (f *fold) judge(r request) verdict {
	h := r.header
	if h.Producer.ID < 0 {
		return verdict{}
	}
	s := f.producers[h.Producer.ID]
	known := s != nil
	if !known {
		s = &producer{epoch: -1, coordinator: -1, open: -1}
	}
	if r.marker != nil {
		return judgeMarker(s, r)
	}
	if !r.coordinator && known && s.epoch == h.Producer.Epoch {
		for i, b := range s.batches {
			if b.first == h.BaseSequence && b.last == h.LastSequence() {
				if b.sure || i == len(s.batches)-1 {
					return verdict{duplicate: true, first: b.base, last: b.end}
				}
				return verdict{duplicate: true, first: b.base, last: b.end, forgetful: true}
			}
		}
	}
	switch {
	case h.Producer.Epoch < s.epoch:
		return verdict{refused: producerstate.ErrInvalidProducerEpoch}
	case h.IsTransactional() && !(s.open >= 0 && s.epoch == h.Producer.Epoch) && !r.guarded:
		return verdict{refused: producerstate.ErrInvalidTxnState}
	case !r.coordinator && !inSequence(s, known, r):
		return verdict{refused: producerstate.ErrOutOfOrderSequence}
	case s.open >= 0 && !h.IsTransactional():
		return verdict{refused: producerstate.ErrInvalidTxnState}
	}
	return verdict{}
}

func inSequence(s *producer, known bool, r request) bool {
	first := r.header.BaseSequence
	switch {
	case !known && r.lowest != nil && r.lowest.epoch == r.header.Producer.Epoch && r.lowest.lowest >= 0 && first > r.lowest.lowest:
		return false
	case !known && r.empty && first != 0:
		return false
	case !known:
		return true
	case s.epoch != r.header.Producer.Epoch:
		return first == 0
	case len(s.batches) == 0:
		return first == 0
	}
	return batch.FollowsSequence(s.batches[len(s.batches)-1].last, first)
}

func judgeMarker(s *producer, r request) verdict {
	m := r.marker
	switch {
	case m.Producer.Epoch < s.epoch:
		return verdict{refused: producerstate.ErrInvalidProducerEpoch}
	case r.tv2 && m.Producer.Epoch == s.epoch && s.open >= 0:
		return verdict{refused: producerstate.ErrInvalidProducerEpoch}
	case r.tv2 && m.Producer.Epoch == s.epoch:
		return verdict{done: true}
	case m.CoordinatorEpoch < s.coordinator:
		return verdict{refused: producerstate.ErrCoordinatorFenced}
	}
	return verdict{}
}

// fits tells whether an error of an append is the one expected.
func (v verdict) fits(err error) bool {
	if v.duplicate && v.forgetful && (errors.Is(err, producerstate.ErrOutOfOrderSequence) || errors.Is(err, producerstate.ErrInvalidTxnState)) {
		return true
	}
	return v.refused != nil && errors.Is(err, v.refused)
}
