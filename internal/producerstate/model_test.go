package producerstate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/oncelog/oncelog/batch"
)

// model is the same state written as plainly as can be: maps, slices, and a
// search through everything for each question.
type model struct {
	producers map[int64]*modelProducer
	verified  map[int64]*modelVerification
	max       int
	touches   int
}

type modelProducer struct {
	epoch       int16
	batches     []modelBatch // at most five, oldest first
	coordinator int32
	time        int64
	seen        int64
	txnFirst    int64
	touched     int
}

type modelBatch struct {
	first, last             int32
	firstOffset, lastOffset int64
	timestamp               int64
}

type modelVerification struct {
	guard   Guard
	epoch   int16
	lowest  int64
	created int64
	tv2     bool
}

const noneYet = math.MaxInt64

func newModel(producersMax int) *model {
	return &model{producers: map[int64]*modelProducer{}, verified: map[int64]*modelVerification{}, max: producersMax}
}

func (m *model) get(id int64) *modelProducer {
	if p := m.producers[id]; p != nil {
		return p
	}
	return &modelProducer{epoch: -1, coordinator: -1, time: -1, txnFirst: -1}
}

func (p *modelProducer) lastSequence() int32 {
	if len(p.batches) == 0 {
		return -1
	}
	return p.batches[len(p.batches)-1].last
}

// check follows the tables of the reference row by row.
func (m *model) check(r Request) (Verdict, error) {
	h := r.Header
	if h.Producer.ID < 0 || r.Origin == OriginReplica {
		return Verdict{}, nil
	}
	if h.IsControl() {
		return m.checkMarker(r)
	}
	p := m.get(h.Producer.ID)
	known := m.producers[h.Producer.ID] != nil
	e, s, l := h.Producer.Epoch, h.BaseSequence, h.LastSequence()
	v := m.verified[h.Producer.ID]
	if r.Origin == OriginClient && known && e == p.epoch {
		for _, b := range p.batches {
			if b.first == s && b.last == l {
				return Verdict{Duplicate, b.firstOffset, b.lastOffset, b.timestamp}, nil
			}
		}
	}
	if h.IsTransactional() && (p.txnFirst < 0 || p.epoch != e) {
		if e < p.epoch {
			return Verdict{}, ErrInvalidProducerEpoch
		}
		if r.Guard == 0 || v == nil || v.guard != r.Guard {
			return Verdict{}, ErrInvalidTxnState
		}
	}
	if e < p.epoch {
		return Verdict{}, ErrInvalidProducerEpoch
	}
	if r.Origin == OriginClient {
		last := p.lastSequence()
		switch {
		case v != nil && v.tv2 && len(p.batches) == 0 && s != 0,
			!known && v != nil && v.epoch == e && int64(s) > v.lowest,
			!known && r.FirstEver && s != 0,
			e != p.epoch && p.epoch != -1 && s != 0:
			return Verdict{}, ErrOutOfOrderSequence
		case e != p.epoch:
		case int64(s) == int64(last)+1, s == 0 && last == math.MaxInt32:
		case last >= 0 && m.stored(p, int64(s), int64(h.LastOffsetDelta)):
			return Verdict{}, ErrDuplicateSequence
		default:
			return Verdict{}, ErrOutOfOrderSequence
		}
	}
	if p.txnFirst >= 0 && !h.IsTransactional() {
		return Verdict{}, ErrInvalidTxnState
	}
	return Verdict{}, nil
}

// stored counts how far back the batch begins, round the ring.
func (m *model) stored(p *modelProducer, s, delta int64) bool {
	const ring = 1 << 31
	back := ((int64(p.lastSequence())-s-delta)%ring + ring) % ring
	return back < ring/2 && back+delta <= p.batches[len(p.batches)-1].lastOffset
}

func (m *model) checkMarker(r Request) (Verdict, error) {
	if r.Marker == nil {
		return Verdict{}, nil
	}
	p := m.get(r.Marker.Producer.ID)
	switch e := r.Marker.Producer.Epoch; {
	case e < p.epoch:
		return Verdict{}, ErrInvalidProducerEpoch
	case r.TV2 && e == p.epoch && p.txnFirst >= 0:
		return Verdict{}, ErrInvalidProducerEpoch
	case r.TV2 && e == p.epoch:
		return Verdict{Kind: DoneMarker}, nil
	case r.Marker.CoordinatorEpoch < p.coordinator:
		return Verdict{}, ErrCoordinatorFenced
	}
	return Verdict{}, nil
}

func (m *model) apply(h *batch.Header, marker *batch.Marker, now int64) (CompletedTxn, bool) {
	id := h.Producer.ID
	if id < 0 || h.IsControl() && marker == nil {
		return CompletedTxn{}, false
	}
	if m.producers[id] == nil {
		m.makeRoom()
		m.producers[id] = m.get(id)
	}
	p := m.producers[id]
	if p.epoch != h.Producer.Epoch {
		p.epoch, p.batches = h.Producer.Epoch, nil
	}
	m.touches++
	p.seen, p.touched = now, m.touches
	if h.IsControl() || h.IsTransactional() {
		delete(m.verified, id)
	}
	if h.IsControl() {
		completed := CompletedTxn{id, p.txnFirst, h.BaseOffset, marker.Commit, h.BaseOffset + 1}
		ended := p.txnFirst >= 0
		p.txnFirst, p.coordinator, p.time = -1, marker.CoordinatorEpoch, marker.Timestamp
		if first, ok := m.firstUndecided(); ok {
			completed.LastStable = first
		}
		if !ended {
			return CompletedTxn{}, false
		}
		return completed, true
	}
	p.batches = append(p.batches, modelBatch{h.BaseSequence, h.LastSequence(), h.BaseOffset, h.LastOffset(), h.MaxTimestamp})
	if len(p.batches) > 5 {
		p.batches = p.batches[1:]
	}
	p.time = h.MaxTimestamp
	if h.IsTransactional() && p.txnFirst < 0 {
		p.txnFirst = h.BaseOffset
	}
	return CompletedTxn{}, false
}

func (m *model) firstUndecided() (int64, bool) {
	first := int64(math.MaxInt64)
	for _, p := range m.producers {
		if p.txnFirst >= 0 {
			first = min(first, p.txnFirst)
		}
	}
	return first, first < math.MaxInt64
}

func (m *model) makeRoom() {
	for evicted := 0; m.max > 0 && len(m.producers) >= m.max && evicted < evictionsMax; evicted++ {
		idlest := int64(-1)
		for id, p := range m.producers {
			if p.txnFirst < 0 && (idlest < 0 || m.idler(p, m.producers[idlest])) {
				idlest = id
			}
		}
		if idlest < 0 {
			return
		}
		delete(m.producers, idlest)
	}
}

// idler: plain producers before transactional ones, then the older touch.
func (m *model) idler(a, b *modelProducer) bool {
	if (a.coordinator < 0) != (b.coordinator < 0) {
		return a.coordinator < 0
	}
	return a.touched < b.touched
}

func (m *model) expire(now, olderThan int64) int {
	before := len(m.producers)
	maps.DeleteFunc(m.producers, func(_ int64, p *modelProducer) bool {
		return p.txnFirst < 0 && now-p.seen >= olderThan
	})
	maps.DeleteFunc(m.verified, func(_ int64, v *modelVerification) bool { return now-v.created >= olderThan })
	return before - len(m.producers)
}

// verify takes the guard that the table gave, and remembers what it is good for.
func (m *model) verify(p batch.Producer, s int32, tv2 bool, now int64, g Guard) (needed bool, err error) {
	e := m.get(p.ID)
	if e.txnFirst >= 0 && e.epoch == p.Epoch {
		return false, nil
	}
	if p.Epoch < e.epoch {
		if g != 0 {
			return true, fmt.Errorf("guard %d for a fenced epoch", g)
		}
		return true, nil
	}
	v := m.verified[p.ID]
	if v == nil {
		for id, other := range m.verified {
			if other.guard >= g {
				return true, fmt.Errorf("guard %d after %d of producer %d", g, other.guard, id)
			}
		}
		v = &modelVerification{guard: g, epoch: p.Epoch, lowest: noneYet, created: now}
		m.verified[p.ID] = v
	}
	if v.guard != g {
		return true, fmt.Errorf("guard %d, is %d", g, v.guard)
	}
	if p.Epoch > v.epoch {
		v.epoch, v.lowest = p.Epoch, noneYet
	}
	if p.Epoch == v.epoch {
		v.tv2 = tv2
		if m.producers[p.ID] == nil && (s == 0 || s > 0 && !tv2) {
			v.lowest = min(v.lowest, int64(s))
		}
	}
	return true, nil
}

// compare looks for a difference in what is known of all producers.
func (m *model) compare(t *Table) error {
	if t.Len() != len(m.producers) {
		return fmt.Errorf("%d producers, the model has %d", t.Len(), len(m.producers))
	}
	for id, p := range m.producers {
		want := m.info(id, p)
		if got, _ := t.Info(id); got != want {
			return fmt.Errorf("%+v, the model has %+v", got, want)
		}
		for _, b := range p.batches {
			e, _ := t.lookup(id)
			found, ok := t.find(e, b.first, b.last)
			if same := slices.IndexFunc(p.batches, func(o modelBatch) bool { return o.first == b.first && o.last == b.last }); same >= 0 {
				b = p.batches[same]
			}
			if !ok || found.firstOffset() != b.firstOffset || found.timestamp != b.timestamp {
				return fmt.Errorf("producer %d: batch %+v is not remembered: %+v", id, b, found)
			}
		}
	}
	first, ok := t.FirstUndecided()
	if want, wantOK := m.firstUndecided(); ok != wantOK || ok && first != want {
		return fmt.Errorf("first undecided %d %v, the model has %d %v", first, ok, want, wantOK)
	}
	return audit(t)
}

func (m *model) info(id int64, p *modelProducer) Info {
	want := Info{
		Producer: batch.Producer{ID: id, Epoch: p.epoch}, LastSequence: p.lastSequence(),
		CoordinatorEpoch: p.coordinator, Batches: len(p.batches), LastOffset: -1, LastTimestamp: p.time, TxnFirst: p.txnFirst,
	}
	if n := len(p.batches); n > 0 {
		b := p.batches[n-1]
		want.LastOffset, want.OffsetDelta = b.lastOffset, int32(b.lastOffset-b.firstOffset)
	}
	return want
}

// infos are what a snapshot of the model holds, by producer id.
func (m *model) infos() []Info {
	var infos []Info
	for id, p := range m.producers {
		info := m.info(id, p)
		info.Batches = min(info.Batches, 1)
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int { return int(a.Producer.ID - b.Producer.ID) })
	return infos
}

// reload is what a restart does to the model: one batch each, with the
// timestamp of the producer; no guards.
func (m *model) reload(now int64) {
	m.verified = map[int64]*modelVerification{}
	for _, p := range m.producers {
		if n := len(p.batches); n > 1 {
			p.batches = p.batches[n-1:]
		}
		for i := range p.batches {
			p.batches[i].timestamp = p.time
		}
		p.seen = now
	}
}

// same tells whether two errors are of one class.
func same(a, b error) bool {
	for _, class := range []error{
		ErrDuplicateSequence, ErrOutOfOrderSequence, ErrInvalidProducerEpoch, ErrInvalidTxnState, ErrCoordinatorFenced,
	} {
		if errors.Is(a, class) != errors.Is(b, class) {
			return false
		}
	}
	return (a == nil) == (b == nil)
}
