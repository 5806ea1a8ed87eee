package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// Producers by what they do.
const (
	firstPlain         = 100 // idempotent
	firstTransactional = 200
	firstCoordinator   = 300 // offset commits, without sequences
	perKind            = 3
)

func isTransactional(id int64) bool { return id >= firstTransactional }
func isCoordinator(id int64) bool   { return id >= firstCoordinator }

// ids are all producers, in order.
func (h *history) ids() (all []int64) {
	for i := range int64(perKind) {
		all = append(all, firstPlain+i, firstTransactional+i)
	}
	return append(all, firstCoordinator)
}

// largeBytes is about from where a batch is too large for the smallest journal
// and slot.
const largeBytes = 4 << 10

// entry makes a batch for the end of a partition: as a client sends it, and
// what must be stored.
func (h *history) entry(p *partition, o batch.BuilderOptions, n int) entry {
	h.id++
	o.LeaderEpoch = batch.None
	if h.chance(0.05) {
		o.Codec = batch.CodecSnappy
	}
	size := h.rng.IntN(60)
	if h.chance(0.15) {
		size = h.rng.IntN(900 / n)
	}
	// Not in another activity: such a batch is synced by the one who appends.
	if most := int(min(p.config.SegmentBytes/2, 32<<10)); most >= largeBytes && !h.disk.inside && h.chance(0.06) {
		size = (largeBytes/2 + h.rng.IntN(most-largeBytes/2)) / n
	}
	return h.batchOf(p, o, n, size, nil)
}

// batchOf builds the batch, at times drawn now if none are given.
func (h *history) batchOf(p *partition, o batch.BuilderOptions, n, size int, at []int64) entry {
	h.build.Reset(nil, o)
	var times []int64
	for i := range n {
		t := h.now + int64(h.rng.IntN(10000)) - 8000
		if at != nil {
			t = at[i]
		}
		times = append(times, t)
		h.build.Add(t, fmt.Appendf(nil, "%d", i), fmt.Appendf(nil, "%d %s", h.id, strings.Repeat("x", size)))
	}
	b, err := h.build.Finish()
	if err != nil {
		panic(err)
	}
	e := h.stamped(p, b, nil, times, p.end())
	e.size = size
	return e
}

// stamped is a client's batch and what the log makes of it.
func (h *history) stamped(p *partition, b batch.Batch, m *batch.Marker, times []int64, offset int64) entry {
	e := entry{client: b, bytes: append(batch.Batch(nil), b...), marker: m, times: times}
	e.when = moment{begin: h.order.tick(), ordered: h.ordered(p)}
	if p.config.Timestamps == batch.LogAppendTime {
		e.bytes.SetMaxTimestamp(batch.LogAppendTime, h.now)
		for i := range e.times {
			e.times[i] = h.now
		}
	}
	e.bytes.Stamp(offset, p.epoch())
	e.header = e.bytes.Header()
	return e
}

// plainBatch is one of no producer. After a truncation it is often as long as
// the one that stood in its place, as another leader's would be: then nothing
// but its content tells them apart.
func (h *history) plainBatch(p *partition) entry {
	i := slices.IndexFunc(p.gone, func(e entry) bool { return e.header.BaseOffset == p.end() })
	if i >= 0 && h.chance(0.7) && p.gone[i].marker == nil && !h.disk.inside {
		e := &p.gone[i]
		return h.batchOf(p, plainOptions(), len(e.times), e.size, slices.Clone(e.times))
	}
	return h.entry(p, batch.Plain, 1+h.rng.IntN(4))
}

func plainOptions() batch.BuilderOptions {
	o := batch.Plain
	o.LeaderEpoch = batch.None
	return o
}

func (h *history) producerBatch(p *partition, producer batch.Producer, sequence int32, n int, transactional bool) entry {
	return h.entry(p, batch.BuilderOptions{Producer: producer, BaseSequence: sequence, Transactional: transactional}, n)
}

// data draws a batch of any producer: mostly the next one, else a retry, a gap,
// another epoch.
func (h *history) data(p *partition) entry {
	if h.chance(0.2) {
		return h.plainBatch(p)
	}
	ids := h.ids()
	id := ids[h.rng.IntN(len(ids))]
	n := 1 + h.rng.IntN(4)
	transactional := isTransactional(id) && !h.chance(0.03)
	s := p.state.producers[id]
	if s == nil {
		s = &producer{}
	}
	producer := batch.Producer{ID: id, Epoch: s.epoch}
	sequence := int32(0)
	if k := len(s.batches); k > 0 {
		sequence = batch.AddSequence(s.batches[k-1].last, 1)
	}
	if isCoordinator(id) {
		return h.producerBatch(p, producer, batch.None, n, true)
	}
	switch h.rng.IntN(20) {
	case 0, 1, 2: // once more
		if k := len(s.batches); k > 0 {
			b := s.batches[k-1-h.rng.IntN(min(k, 2+h.rng.IntN(5)))]
			sequence, n = b.first, int(b.end-b.base)+1
		}
	case 3:
		sequence = batch.AddSequence(sequence, int32(1+h.rng.IntN(3)))
	case 4:
		producer.Epoch++
		if !h.chance(0.2) {
			sequence = 0
		}
	case 5:
		producer.Epoch = max(producer.Epoch-1, 0)
	case 6: // what a client sends again that did not hear of it
		if e, ok := p.sent[id]; ok {
			sequence, n, producer = e.header.BaseSequence, int(e.header.LastOffsetDelta)+1, e.header.Producer
			transactional = e.header.IsTransactional()
		}
	}
	return h.producerBatch(p, producer, sequence, n, transactional)
}

// mark draws a marker: mostly of an open transaction.
func (h *history) mark(p *partition) (e entry, o log.MarkerOptions) {
	var open []int64
	for _, id := range h.ids() {
		if s := p.state.producers[id]; s != nil && s.open >= 0 {
			open = append(open, id)
		}
	}
	id := int64(firstTransactional + h.rng.IntN(perKind))
	if len(open) > 0 && !h.chance(0.1) {
		id = open[h.rng.IntN(len(open))]
	}
	return h.marker(p, id, h.chance(0.5))
}

func (h *history) marker(p *partition, id int64, commit bool) (entry, log.MarkerOptions) {
	m := batch.Marker{Producer: batch.Producer{ID: id}, Commit: commit, Timestamp: h.now}
	o := log.MarkerOptions{}
	if s := p.state.producers[id]; s != nil {
		m.Producer.Epoch, m.CoordinatorEpoch = s.epoch, max(s.coordinator, 0)
		switch h.rng.IntN(12) {
		case 0:
			m.Producer.Epoch++
			o.TV2 = true
		case 1:
			o.TV2 = true
		case 2:
			m.CoordinatorEpoch += int32(h.rng.IntN(3)) - 1
		case 3:
			m.Producer.Epoch = max(m.Producer.Epoch-1, 0)
		}
	}
	return h.stamped(p, batch.AppendMarker(nil, m), &m, []int64{h.now}, p.end()), o
}

// replicatedBatches draws a few batches as a leader sends them, in one piece:
// such as a leader would take.
func (h *history) replicatedBatches(p *partition) (raw []byte, entries []entry) {
	at, leader := p.end(), p.epoch()
	seen := map[int64]bool{}
	if h.chance(0.3) {
		leader += int32(h.rng.IntN(3))
	}
	for range 1 + h.rng.IntN(3) {
		var e entry
		if h.chance(0.25) {
			e, _ = h.mark(p)
		} else {
			e = h.data(p)
		}
		r := request{header: &e.header, marker: e.marker, coordinator: isCoordinator(e.header.Producer.ID), guarded: true}
		v := p.state.judge(r)
		id := e.header.Producer.ID
		if v.refused != nil || v.duplicate || id >= 0 && seen[id] {
			continue
		}
		if int64(len(raw)+len(e.bytes)) > p.config.SegmentBytes {
			break
		}
		seen[id] = true
		if h.chance(0.1) {
			leader++
		}
		e.bytes.Stamp(at, leader)
		e.header = e.bytes.Header()
		raw = append(raw, e.bytes...)
		entries = append(entries, e)
		at = e.next()
	}
	return raw, entries
}
