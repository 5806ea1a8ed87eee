package sim

import (
	"bytes"
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/log"
)

// settleAll compares a store that was just opened with the model: what may
// have been lost is, what was under way is done or not. After an operation
// that failed while it opened, partitions may refuse: they are opened again.
func (h *history) settleAll(failed bool) {
	h.order.opens()
	names := h.sys.topics()
	for _, name := range names {
		if h.find(name) != nil {
			continue
		}
		if !failed {
			h.fail("topic %q is there and should not be", name)
		}
		panic(undecided{})
	}
	doubt := map[*subject]bool{}
	h.topic = slices.DeleteFunc(h.topic, func(s *subject) bool {
		there := h.bare || slices.Contains(names, s.name)
		if !there && !s.maybe {
			h.fail("topic %q is gone", s.name)
		}
		doubt[s], s.maybe = s.maybe, false
		return !there
	})
	for _, s := range h.topic {
		for _, p := range s.parts {
			if h.settleOpened(s, p, failed, doubt[s]); !h.dead() {
				continue
			}
			s.maybe = doubt[s]
			return
		}
		s.settled()
	}
	h.loss = lossNone
	h.checkClosure()
	h.order.crashLosses = h.order.losses
}

// settleOpened is settleAll for one partition, of a topic that was in doubt or
// not.
func (h *history) settleOpened(s *subject, p *partition, failed, doubt bool) {
	l, err := h.sys.partition(p.tp)
	if err != nil && failed {
		h.tell("%s reopen, refused with: %v", p.tp, err)
		h.count.Reopened++
		if err = h.sys.reopen(p.tp); h.dead() {
			return
		}
		if err == nil {
			l, err = h.sys.partition(p.tp)
		}
	}
	switch {
	case err == nil:
	case h.disk.broken != "":
		h.tell("%s refuses: %v", p.tp, err)
		if p.awaits == lossNone {
			p.awaitsAt = h.order.opened
		}
		p.awaits = max(p.awaits, h.loss)
		return
	case failed && doubt:
		panic(undecided{})
	default:
		h.fail("%s does not open after %s: %v", p.tp, h.loss, err)
	}
	if !h.bare {
		h.settleLevel(s, p, l)
	}
	h.settle(p, l, max(h.loss, p.awaits))
	p.awaits = lossNone
}

// settled notes that it is known how a change ended, once all partitions serve.
func (s *subject) settled() {
	if !slices.ContainsFunc(s.parts, func(p *partition) bool { return p.awaits != lossNone }) {
		s.other = nil
	}
}

// settleLevel finds out which of two levels a topic has whose change was under
// way.
func (h *history) settleLevel(s *subject, p *partition, l *log.Log) {
	level := l.Config().Durability
	if s.other != nil && level == s.other.Durability {
		s.config, s.other = *s.other, nil
	}
	if level != s.config.Durability {
		h.fail("%s opens with durability %s, which it never had", p.tp, level)
	}
	p.config = h.logConfig(s.config)
}

// settle compares a partition that was just opened with the model.
func (h *history) settle(p *partition, l *log.Log, lost loss) {
	h.count.Checks++
	f := l.Frontiers()
	safe := p.killSafe
	if lost == lossPower {
		safe = p.powerSafe
	}
	if p.truncateTo >= 0 {
		safe = min(safe, p.truncateTo)
	}
	h.tell("%s opened after %s: %+v; it had %d, safe %d, pending %d", p.tp, lost, f, p.end(), safe, len(p.pending))
	if f.LogEnd < safe {
		h.fail("%s ends at %d after %s, and %d was safe", p.tp, f.LogEnd, lost, safe)
	}
	for _, e := range p.pending {
		if e.next() <= f.LogEnd && e.header.BaseOffset == p.end() {
			p.push(e)
		}
	}
	if f.LogEnd > p.end() || !p.boundary(f.LogEnd) {
		h.fail("%s ends at %d, and it never did: it had batches up to %d", p.tp, f.LogEnd, p.end())
	}
	h.loses(p, p.log[p.index(f.LogEnd):])
	h.loses(p, slices.DeleteFunc(p.pending, func(e entry) bool { return e.next() <= f.LogEnd }))
	p.log = slices.Clone(p.log[:p.index(f.LogEnd)])
	p.refold()
	p.pending, p.flight = nil, nil
	if f.LogStart < p.start || f.LogStart > max(p.start, p.startMax) {
		h.fail("%s starts at %d, it was put to %d (or %d)", p.tp, f.LogStart, p.start, p.startMax)
	}
	p.start, p.startMax = f.LogStart, 0
	if f.Durable != f.LogEnd || !p.replicated && f.HighWatermark != f.LogEnd {
		h.fail("%s was opened with %+v", p.tp, f)
	}
	p.killSafe, p.powerSafe = f.Durable, f.Durable
	p.seen, p.inLife = min(p.seen, p.end()), f.HighWatermark
	clear(p.verified)
	if !p.settleEpochs(l.Epochs(), p.start) {
		h.fail("%s has leader epochs %+v, the model %+v", p.tp, l.Epochs(), p.epochs)
	}
	p.truncateTo = -1
	h.observe(p, l)
	h.scan(p, l)
	h.checkState(p, l)
}

// observe compares the frontiers with the model and notes what they promise.
func (h *history) observe(p *partition, l *log.Log) {
	f := l.Frontiers()
	if h.dead() || l.Failed() != nil {
		return
	}
	h.arrive(p, l)
	if f.LogEnd != p.end() {
		h.fail("%s ends at %d, the model at %d", p.tp, f.LogEnd, p.end())
	}
	if f.LogStart < p.start || f.LogStart > max(p.start, p.startMax) {
		h.fail("%s starts at %d, it was put to %d (or %d)", p.tp, f.LogStart, p.start, p.startMax)
	}
	if f.HighWatermark < p.inLife || p.replicated && f.HighWatermark != p.inLife || f.HighWatermark > f.LogEnd || f.Durable > f.LogEnd || f.LogStart > f.HighWatermark && !p.replicated {
		h.fail("%s has frontiers %+v; the high watermark was %d", p.tp, f, p.inLife)
	}
	if stable := p.lastStable(f.LogStart, f.HighWatermark); f.LastStable != stable {
		h.fail("%s has frontiers %+v, and the last stable offset should be %d", p.tp, f, stable)
	}
	p.inLife = f.HighWatermark
	p.powerSafe = max(p.powerSafe, f.Durable)
	if !p.replicated {
		p.seen = max(p.seen, f.HighWatermark)
		if p.config.Durability == log.DurabilityFsync {
			p.powerSafe = max(p.powerSafe, f.HighWatermark)
		}
	}
	p.killSafe = max(p.killSafe, p.powerSafe, f.HighWatermark)
}

// arrive notes that an append that is being made is in the log.
func (h *history) arrive(p *partition, l *log.Log) {
	if len(p.flight) == 0 || l.Frontiers().LogEnd != p.flight[len(p.flight)-1].next() {
		return
	}
	for _, e := range p.flight {
		h.publishedNow(p, &e)
		p.push(e)
	}
	p.flight = nil
}

// arriveAll notes all appends that are in their logs. It is called before
// anything else is let in.
func (h *history) arriveAll() {
	for _, p := range h.partitions() {
		if len(p.flight) == 0 {
			continue
		}
		if l, err := h.sys.partition(p.tp); err == nil {
			h.arrive(p, l)
		}
	}
}

// reopened compares a partition with the model that was opened again.
func (h *history) reopened(p *partition, l *log.Log) {
	h.order.opens()
	lost := p.awaits
	if !h.bare {
		h.settleLevel(h.find(p.tp.Topic), p, l)
	}
	h.settle(p, l, lost)
	p.awaits = lossNone
	if !h.bare {
		h.find(p.tp.Topic).settled()
	}
	h.checkClosure()
}

// scan reads the whole log, and once more what read_committed shows of it.
func (h *history) scan(p *partition, l *log.Log) {
	at := max(p.start, l.Frontiers().LogStart)
	for at < p.end() {
		next, ok := h.read(p, l, at, log.ReadOptions{Replica: true})
		if !ok {
			return
		}
		if next == at {
			h.fail("%s shows nothing at %d, and it ends at %d", p.tp, at, p.end())
		}
		at = next
	}
}

// read reads once and compares. It is false if that was not possible because
// of a failure.
func (h *history) read(p *partition, l *log.Log, from int64, o log.ReadOptions) (next int64, ok bool) {
	f, err := l.Read(from, o)
	if err != nil {
		if !h.expected(err) {
			h.fail("%s cannot be read from %d: %v", p.tp, from, err)
		}
		return from, false
	}
	defer f.Close()
	bound := f.HighWatermark
	switch {
	case o.Replica:
		bound = f.LogEnd
	case o.Isolation == log.ReadCommitted:
		bound = f.LastStable
	}
	i := p.index(from)
	if f.NextOffset() == from && i < len(p.log) && p.log[i].next() <= bound && from >= f.LogStart {
		h.fail("%s shows nothing at %d, up to %d", p.tp, from, bound)
	}
	upper := from
	for b := range f.Batches() {
		if i == len(p.log) || !bytes.Equal(b, p.log[i].bytes) {
			h.fail("%s shows another batch at %d than was appended: %+v", p.tp, b.BaseOffset(), b.Header())
		}
		if b.NextOffset() > bound {
			h.fail("%s shows offset %d, its bound is %d", p.tp, b.LastOffset(), bound)
		}
		upper = b.NextOffset()
		i++
	}
	if o.Isolation == log.ReadCommitted && !o.Replica && upper > from {
		if !p.sameAborted(f.Aborted, from, upper, f.LogStart) {
			h.fail("%s names aborted transactions %+v in [%d, %d), and they are %+v", p.tp, f.Aborted, from, upper, p.state.aborted(from, upper))
		}
	}
	return f.NextOffset(), true
}

// checkState compares producers, transactions and lookups.
func (h *history) checkState(p *partition, l *log.Log) {
	h.checkProducers(p, l.Producers(), "")
	if found, err := l.Aborted(p.start, p.end()); err != nil {
		if !h.expected(err) {
			h.fail("%s: aborted transactions: %v", p.tp, err)
		}
	} else if start := l.Frontiers().LogStart; start < p.end() && !p.sameAborted(found, p.start, p.end(), start) {
		h.fail("%s has aborted transactions %+v, the model %+v", p.tp, found, p.state.aborted(p.start, p.end()))
	}
	h.checkTimes(p, l)
	h.retryAll(p, l)
}

// checkProducers compares what is known of producers.
func (h *history) checkProducers(p *partition, found []producerstate.Info, how string) {
	slices.SortFunc(found, func(a, b producerstate.Info) int { return cmp.Compare(a.Producer.ID, b.Producer.ID) })
	if len(found) != len(p.state.producers) {
		h.fail("%s%s knows %d producers, the model %d", p.tp, how, len(found), len(p.state.producers))
	}
	for _, i := range found {
		s := p.state.producers[i.Producer.ID]
		if s == nil {
			h.fail("%s%s knows producer %d, the model does not", p.tp, how, i.Producer.ID)
		}
		want := producerstate.Info{
			Producer: batch.Producer{ID: i.Producer.ID, Epoch: s.epoch}, LastSequence: batch.None, LastOffset: batch.None,
			CoordinatorEpoch: s.coordinator, LastTimestamp: s.time, TxnFirst: batch.None, Batches: i.Batches,
		}
		if n := len(s.batches); n > 0 {
			b := s.batches[n-1]
			want.LastSequence, want.LastOffset, want.OffsetDelta = b.last, b.end, int32(b.end-b.base)
		}
		if s.open >= 0 {
			want.TxnFirst = p.state.transactions[s.open].first
		}
		sure := 0
		for _, b := range s.batches {
			if b.sure {
				sure++
			}
		}
		if i != want || i.Batches > len(s.batches) || i.Batches < sure {
			h.fail("%s%s knows of producer %d: %+v, the model: %+v, %d to %d batches", p.tp, how, i.Producer.ID, i, want, sure, len(s.batches))
		}
	}
}

// checkTimes compares lookups by time.
func (h *history) checkTimes(p *partition, l *log.Log) {
	f := l.Frontiers()
	for _, isolation := range []log.Isolation{log.ReadUncommitted, log.ReadCommitted} {
		bound := f.HighWatermark
		if isolation == log.ReadCommitted {
			bound = f.LastStable
		}
		ms := h.now + int64(h.rng.IntN(20000)) - 15000
		got, err := l.OffsetForTime(ms, isolation)
		if want := p.atTime(ms, f.LogStart, bound); err == nil && got != want {
			h.fail("%s finds %+v for time %d (%s), the model %+v", p.tp, got, ms, isolation, want)
		}
		last, e := l.MaxTimestamp(isolation)
		if want := p.youngest(f.LogStart, bound); e == nil && last != want {
			h.fail("%s finds %+v as youngest (%s), the model %+v", p.tp, last, isolation, want)
		}
		if err := errors.Join(err, e); err != nil && !h.expected(err) {
			h.fail("%s: lookup by time: %v", p.tp, err)
		}
	}
}

// retryAll sends the last batch of every producer once more.
func (h *history) retryAll(p *partition, l *log.Log) {
	for _, id := range h.ids() {
		s := p.state.producers[id]
		if s == nil || len(s.batches) == 0 || isCoordinator(id) {
			continue
		}
		b := s.batches[len(s.batches)-1]
		if e := h.producerBatch(p, batch.Producer{ID: id, Epoch: s.epoch}, b.first, int(b.end-b.base)+1, isTransactional(id)); !h.dead() {
			h.append(p, l, e, log.AppendOptions{NoWait: h.disk.inside})
		}
	}
}

// garbage looks for files of unfinished work after a clean close.
func (h *history) garbage() {
	for _, p := range h.partitions() {
		path := filepath.Join(dir, p.tp.String())
		entries, err := h.disk.mem.ReadDir(path)
		if err != nil {
			h.fail("%s: %v", p.tp, err)
		}
		for _, e := range entries {
			for _, suffix := range []string{".deleted", ".cleaned", ".swap", ".tmp", "oncelog.next"} {
				if strings.HasSuffix(e.Name(), suffix) {
					h.fail("%s: a clean close leaves %s", p.tp, e.Name())
				}
			}
		}
	}
}
