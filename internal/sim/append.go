package sim

import (
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/log"
)

// appendAny appends something to a partition. Nested in another activity it
// never waits.
func (h *history) appendAny(p *partition, l *log.Log) {
	nested := h.disk.inside
	o := log.AppendOptions{NoWait: nested || h.chance(0.4)}
	if h.chance(0.15) {
		o.Durability = log.DurabilityFsync
	}
	switch k := h.rng.IntN(20); {
	case k < 4:
		e, m := h.mark(p)
		m.NoWait, m.Durability = o.NoWait, o.Durability
		h.appendMarker(p, l, e, m)
	case k < 6 && p.replicated || k == 6:
		h.appendReplica(p, l, o.NoWait)
	default:
		h.append(p, l, h.data(p), o)
	}
}

// append appends one batch of a client or of the group coordinator.
func (h *history) append(p *partition, l *log.Log, e entry, o log.AppendOptions) {
	r := request{header: &e.header, empty: p.end() == 0 && len(p.state.producers) == 0}
	id := e.header.Producer.ID
	if isCoordinator(id) {
		o.Origin, r.coordinator = log.OriginCoordinator, true
	}
	if e.header.IsTransactional() && !h.chance(0.03) {
		g, needed, err := l.Guard(e.header.Producer, e.header.BaseSequence, false)
		if err != nil {
			if !h.expected(err) {
				h.fail("%s: guard: %v", p.tp, err)
			}
			return
		}
		o.Guard, r.guarded = g, needed && g != 0
		p.verify(e.header.Producer.ID, e.header.Producer.Epoch, e.header.BaseSequence)
	}
	if v, ok := p.verified[id]; ok {
		r.lowest = &v
	}
	v := p.state.judge(r)
	if v.refused == nil && !v.duplicate {
		p.flight = []entry{e}
		if id >= 0 && !r.coordinator {
			p.sent[id] = e
		}
	}
	a, err := l.Append(ctx, e.client, o)
	h.tell("%s append %d %+v seq %d+%d txn %v %+v: %+v, %v", p.tp, e.header.BaseOffset, e.header.Producer, e.header.BaseSequence, e.header.LastOffsetDelta+1, e.header.IsTransactional(), o, a, err)
	h.appended(p, l, v, a, err, o.Durability, o.NoWait)
}

// verify notes with which sequence a guard was taken.
func (p *partition) verify(id int64, epoch int16, sequence int32) {
	s := p.state.producers[id]
	if s != nil && (s.open >= 0 && s.epoch == epoch || epoch < s.epoch) {
		return
	}
	v, ok := p.verified[id]
	if !ok || v.epoch < epoch {
		v = verified{epoch: epoch, lowest: -1}
	}
	if v.epoch == epoch && s == nil && sequence >= 0 && (v.lowest < 0 || sequence < v.lowest) {
		v.lowest = sequence
	}
	p.verified[id] = v
}

func (h *history) appendMarker(p *partition, l *log.Log, e entry, o log.MarkerOptions) {
	v := p.state.judge(request{header: &e.header, marker: e.marker, tv2: o.TV2})
	if v.refused == nil && !v.done {
		p.flight = []entry{e}
	}
	a, err := l.AppendMarker(ctx, *e.marker, o)
	h.tell("%s marker %+v %+v: %+v, %v", p.tp, *e.marker, o, a, err)
	if v.done && err == nil {
		if !a.Duplicate || a.LastOffset != -1 {
			h.fail("%s: a repeated marker %+v is answered with %+v", p.tp, *e.marker, a)
		}
		return
	}
	h.appended(p, l, v, a, err, o.Durability, o.NoWait)
}

func (h *history) appendReplica(p *partition, l *log.Log, noWait bool) {
	raw, entries := h.replicatedBatches(p)
	if len(entries) == 0 {
		return
	}
	p.flight = entries
	a, err := l.AppendReplica(ctx, raw, log.ReplicaOptions{NoWait: noWait})
	h.tell("%s replica append of %d at %d: %+v, %v", p.tp, len(entries), entries[0].header.BaseOffset, a, err)
	h.appended(p, l, verdict{}, a, err, log.DurabilityDefault, noWait)
}

// appended compares the answer with the verdict.
func (h *history) appended(p *partition, l *log.Log, v verdict, a log.Appended, err error, level log.Durability, noWait bool) {
	flight := p.flight
	h.count.Appends++
	if h.dead() {
		// Nobody hears of it. But whether it was published is known.
		if n := len(flight); n > 0 && l.Frontiers().LogEnd == flight[n-1].next() {
			for i := range flight {
				h.publishedNow(p, &flight[i])
			}
		}
		p.pending, p.flight = append(p.pending, flight...), nil
		return
	}
	arrived := len(flight) == 0 && v.refused == nil && !v.duplicate
	switch {
	case err != nil && v.fits(err):
		h.count.Refused++
		return
	case err != nil:
		if !h.expected(err) || h.disk.broken != "" && !h.isBroken(p) && !h.expectedElsewhere(err) {
			h.fail("%s refuses an append: %v; expected %+v", p.tp, err, v)
		}
		h.arrive(p, l)
		if l.Failed() != nil {
			p.pending = append(p.pending, p.flight...)
		}
		p.flight = nil
		return
	case v.refused != nil:
		h.fail("%s takes an append with %+v that is to be refused: %v", p.tp, a, v.refused)
	case a.Duplicate != v.duplicate:
		h.fail("%s answers %+v, expected %+v", p.tp, a, v)
	case v.duplicate:
		h.count.Duplicates++
		if a.BaseOffset != v.first || a.LastOffset != v.last {
			h.fail("%s answers a duplicate with %+v, it was stored at %d to %d", p.tp, a, v.first, v.last)
		}
	case !arrived:
		h.count.Batches += int64(len(flight))
		if h.ordered(p) && int64(len(flight[0].bytes)) > journal.BatchMax(h.scene.journal) {
			h.count.Large++
		}
		if a.BaseOffset != flight[0].header.BaseOffset || a.LastOffset != flight[len(flight)-1].header.LastOffset() {
			h.fail("%s appends at %+v, expected %d", p.tp, a, flight[0].header.BaseOffset)
		}
		h.arrive(p, l)
		if p.flight != nil {
			h.fail("%s answers %+v and ends at %d", p.tp, a, l.Frontiers().LogEnd)
		}
	}
	if noWait {
		return
	}
	p.killSafe = max(p.killSafe, a.LastOffset+1)
	if max(level, p.config.Durability) == log.DurabilityFsync {
		p.powerSafe = max(p.powerSafe, a.LastOffset+1)
	}
}
