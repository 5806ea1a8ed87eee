package sim

import (
	"errors"
	"math"
	"slices"

	"github.com/oncelog/oncelog/log"
)

func (h *history) retain(p *partition, l *log.Log) {
	before := l.Frontiers()
	limits, maybe := p.config.RetentionAge > 0 || p.config.RetentionBytes > 0, p.startMax
	if limits {
		p.startMax = math.MaxInt64 // what comes meanwhile may go, too
	}
	n, err := l.Retain(ctx)
	h.tell("%s retain: %d, %v", p.tp, n, err)
	if h.dead() || !h.allow(p, "retain", err) {
		return
	}
	f := l.Frontiers()
	h.started(p, f.LogStart)
	p.startMax = maybe
	if !limits && f.LogStart != before.LogStart {
		h.fail("%s: retention without limits moves the log start from %d to %d", p.tp, before.LogStart, f.LogStart)
	}
}

// started notes that the log start was put somewhere. An earlier attempt to put
// it elsewhere, that failed, may still show.
func (h *history) started(p *partition, start int64) {
	if start < p.start || start > max(p.start, p.startMax) {
		h.fail("%s starts at %d, the model at %d", p.tp, start, p.start)
	}
	p.start = start
	p.epochs = epochsFrom(p.epochs, start)
}

func (h *history) deleteRecords(p *partition, l *log.Log) {
	f := l.Frontiers()
	offset := f.LogStart + h.rng.Int64N(f.HighWatermark-min(f.LogStart, f.HighWatermark)+1)
	if h.chance(0.1) {
		offset = f.HighWatermark + 1
	}
	want := offset
	if offset <= f.HighWatermark {
		p.startMax = max(p.startMax, offset)
	}
	start, err := l.DeleteRecords(ctx, offset)
	h.tell("%s delete records below %d: %d, %v", p.tp, offset, start, err)
	if errors.Is(err, log.ErrOffsetOutOfRange) && offset > f.HighWatermark || h.dead() || !h.allow(p, "delete records", err) {
		return
	}
	if start != max(want, f.LogStart) {
		h.fail("%s: records below %d deleted, the log starts at %d", p.tp, want, start)
	}
	h.started(p, start)
}

func (h *history) truncate(p *partition, l *log.Log) {
	f := l.Frontiers()
	low := f.HighWatermark
	if p.replicated {
		low = max(low, p.seen)
	}
	low = max(low, f.LogStart)
	offset := low + h.rng.Int64N(f.LogEnd-min(low, f.LogEnd)+2)
	inside := offset < f.LogEnd && !p.boundary(offset)
	if !inside {
		p.truncateTo, p.truncateEpochs = offset, p.epochsEnd(offset)
	}
	var err error
	h.alone(func() { err = l.Truncate(ctx, offset) })
	h.tell("%s truncate to %d: %v", p.tp, offset, err)
	if h.dead() {
		return
	}
	if errors.Is(err, log.ErrBelowHighWatermark) && l.Frontiers().HighWatermark > offset {
		p.truncateTo = -1 // sealing what was rolled moved the high watermark
		return
	}
	if inside {
		if !errors.Is(err, log.ErrNotBatchBoundary) {
			h.allow(p, "truncate in the middle of a batch", err)
			if err == nil {
				h.fail("%s is truncated to %d, in the middle of a batch", p.tp, offset)
			}
		}
		return
	}
	if !h.allow(p, "truncate", err) {
		if l.Failed() == nil {
			p.truncateTo = -1
			h.adoptEpochs(p, l, offset)
		}
		return
	}
	p.truncateTo = -1
	p.epochs = dropEpochs(p.epochs, p.epochsEnd(offset))
	if offset < p.end() {
		p.cut(offset)
		clear(p.verified)
		p.killSafe, p.powerSafe = min(p.killSafe, offset), min(p.powerSafe, offset)
	}
	h.scan(p, l)
	h.checkState(p, l)
}

// adoptEpochs takes the leader epochs of a log in which a change of them
// failed. On disk both may be.
func (h *history) adoptEpochs(p *partition, l *log.Log, offset int64) {
	dropped := dropEpochs(p.epochs, p.epochsEnd(offset))
	if slices.Equal(l.Epochs(), entriesOf(dropped)) {
		if n := len(p.epochs); n > len(dropped) {
			p.epochMaybe = append(p.epochMaybe, p.epochs[n-1])
		}
		p.epochs = dropped
	}
}

func (h *history) beginEpoch(p *partition, l *log.Log) {
	e := p.epoch() + int32(h.rng.IntN(4)) - 1
	next := epoch{begun: true}
	next.Epoch, next.Start = e, p.end()
	known := len(p.epochs) > 0
	stale := e < 0 || known && e < p.epoch()
	if !stale {
		p.epochMaybe = append(p.epochMaybe[max(len(p.epochMaybe)-5, 0):], next)
	}
	before := p.epochs
	if !stale {
		if p.epochsBefore == nil {
			p.epochsBefore = before
		}
		p.epochs = assign(before, epoch{EpochEntry: next.EpochEntry}) // in force for appends meanwhile
	}
	err := l.BeginEpoch(e)
	h.tell("%s begin epoch %d at %d: %v", p.tp, e, next.Start, err)
	if stale {
		if !errors.Is(err, log.ErrStaleLeaderEpoch) {
			h.fail("%s begins epoch %d, it is at %d: %v", p.tp, e, p.epoch(), err)
		}
		return
	}
	if h.dead() {
		return
	}
	if !h.allow(p, "begin epoch", err) {
		return
	}
	for i := range p.epochs {
		if p.epochs[i].Epoch == e {
			p.epochs[i].begun = true
			p.epochMaybe = nil
		}
	}
	p.epochsBefore = nil
	// Else a later one came meanwhile, and may be lost with its batch.
}

// advance moves the high watermark of a replicated log, as a leader would tell.
func (h *history) advance(p *partition, l *log.Log) {
	f := l.Frontiers()
	bound := f.LogEnd
	if p.config.Durability == log.DurabilityFsync {
		bound = f.Durable
	}
	to := f.HighWatermark + h.rng.Int64N(max(bound-f.HighWatermark, 0)+1)
	p.inLife = to
	l.AdvanceHighWatermark(to)
	h.tell("%s high watermark to %d", p.tp, to)
	p.seen = max(p.seen, to)
	p.killSafe = max(p.killSafe, to)
	if p.config.Durability == log.DurabilityFsync {
		p.powerSafe = max(p.powerSafe, to)
	}
}

// reopenWell opens one partition again, of a history of bare logs.
func (h *history) reopenWell(p *partition) {
	if !h.bare {
		return
	}
	h.tell("%s opened again", p.tp)
	var err error
	h.alone(func() { err = h.sys.reopen(p.tp) })
	if h.dead() {
		return
	}
	if err != nil {
		h.allow(p, "reopen", err)
		return
	}
	l, err := h.sys.partition(p.tp)
	if err != nil {
		h.fail("%s: %v", p.tp, err)
	}
	h.reopened(p, l)
}
