package sim

import (
	"errors"
	"math"
	"slices"
	"syscall"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// step does one thing, sometimes with a failure in it.
func (h *history) step() {
	h.count.Steps++
	h.now += int64(1 + h.rng.IntN(2000))
	if h.chance(0.02) {
		h.now += int64(h.rng.IntN(200_000))
	}
	if h.chance(0.05) {
		h.armFailure(8)
	}
	h.act()
	if h.disk.disarm() {
		h.count.Failures++
	}
}

// armFailure lets one operation of the next n or so fail.
func (h *history) armFailure(n int) {
	effect := []faultfs.Effect{faultfs.Fail, faultfs.Fail, faultfs.Short, faultfs.Torn, faultfs.Lose}[h.rng.IntN(5)]
	var kinds []faultfs.Kind
	err := error(syscall.EIO)
	switch {
	case effect == faultfs.Lose:
		kinds = []faultfs.Kind{faultfs.Sync}
	case effect != faultfs.Fail:
		kinds = []faultfs.Kind{faultfs.Write}
	case h.chance(0.3):
		kinds = []faultfs.Kind{faultfs.Sync, faultfs.SyncDir}
	}
	h.tell("a failure is due: effect %d of %v", effect, kinds)
	h.disk.failIn(h.rng.IntN(n), effect, err, kinds...)
}

// act draws what to do.
func (h *history) act() {
	list := h.partitions()
	if len(list) == 0 || !h.bare && h.chance(0.02) {
		h.changeTopics()
		return
	}
	switch h.rng.IntN(40) {
	case 0, 1:
		h.checkpoint()
		return
	case 2, 3:
		h.tell("background")
		h.sys.work()
		h.observeAll()
		return
	case 4:
		h.syncAll()
		return
	case 5:
		h.tell("the kernel writes back")
		h.disk.mem.WriteBack(vfs.CrashOptions{Rand: h.rng, KeepUnsynced: h.rng.Float64()})
		return
	case 6:
		if !h.full && h.chance(0.3) {
			h.full = true
			h.disk.mem.SetCapacity(max(h.disk.mem.Used()+int64(h.rng.IntN(100_000)), 1))
			h.tell("the disk is full")
		}
		return
	case 7:
		h.makeRoom()
		return
	}
	p := list[h.rng.IntN(len(list))]
	l := h.log(p)
	if l == nil || h.dead() {
		return
	}
	h.actOn(p, l)
	if l, _ = h.sys.partition(p.tp); l == nil {
		return // it did not open again
	}
	// A truncation on its way cannot wait for room.
	if h.full && l.Failed() != nil && !h.disk.failed && !h.dead() && p.truncateTo < 0 {
		h.fail("%s: a full disk latches the log: %v", p.tp, l.Failed())
	}
	h.observe(p, l)
}

func (h *history) actOn(p *partition, l *log.Log) {
	switch k := h.rng.IntN(60); {
	case k < 40:
		h.appendAny(p, l)
	case k < 44:
		h.tell("%s roll", p.tp)
		h.allow(p, "roll", l.Roll())
	case k < 46:
		points, err := l.Checkpoint(ctx)
		h.tell("%s checkpoint: %+v, %v", p.tp, points, err)
		if err == nil {
			err = h.sys.record(p.tp, points)
		}
		h.allow(p, "checkpoint", err)
	case k < 48:
		err := l.Sync(ctx)
		h.tell("%s sync: %v", p.tp, err)
		h.allow(p, "sync", err)
	case k < 50:
		h.retain(p, l)
	case k < 52:
		h.deleteRecords(p, l)
	case k < 54:
		h.truncate(p, l)
	case k < 55:
		h.beginEpoch(p, l)
	case k < 57 && p.replicated:
		h.advance(p, l)
	case k < 58:
		h.reopenWell(p)
	default:
		h.look(p, l)
	}
}

// allow fails the history unless the error is one that a failure explains.
func (h *history) allow(p *partition, what string, err error) bool {
	if err == nil || h.dead() {
		return err == nil
	}
	if !h.expected(err) {
		h.fail("%s: %s: %v", p.tp, what, err)
	}
	h.tell("%s: %s: %v", p.tp, what, err)
	return false
}

// look reads somewhere.
func (h *history) look(p *partition, l *log.Log) {
	f := l.Frontiers()
	o := log.ReadOptions{BytesMax: 1 + h.rng.IntN(6000), Replica: h.chance(0.2), Unchecked: h.chance(0.2)}
	if h.chance(0.5) {
		o.Isolation = log.ReadCommitted
	}
	h.read(p, l, f.LogStart+h.rng.Int64N(f.LogEnd-f.LogStart+1), o)
	if h.chance(0.3) {
		h.checkTimes(p, l)
	}
}

// meanwhile is what others do during a sync.
func (h *history) meanwhile() {
	if !h.chance(0.1) {
		return
	}
	list := h.partitions()
	for range 1 + h.rng.IntN(3) {
		p := list[h.rng.IntN(len(list))]
		l, err := h.sys.partition(p.tp)
		if err != nil || l.Failed() != nil || h.dead() {
			return
		}
		h.observe(p, l)
		h.tell("%s meanwhile", p.tp)
		if h.chance(0.7) {
			h.appendAny(p, l)
		} else {
			h.look(p, l)
		}
	}
}

// alone keeps others out: f holds what an append needs.
func (h *history) alone(f func()) {
	inside := h.disk.inside
	h.disk.inside = true
	f()
	h.disk.inside = inside
}

func (h *history) checkpoint() {
	err := h.sys.checkpoint()
	h.tell("checkpoint of all: %v", err)
	if err != nil && !h.expected(err) && !h.anyLatched() {
		h.fail("checkpoint of all: %v", err)
	}
	h.observeAll()
}

func (h *history) syncAll() {
	err := h.sys.sync()
	h.tell("sync of all: %v", err)
	if h.dead() {
		return
	}
	if err != nil && !h.expected(err) && !h.anyLatched() {
		h.fail("sync of all: %v", err)
	}
	h.observeAll()
	for _, p := range h.partitions() {
		if l, e := h.sys.partition(p.tp); e == nil && err == nil && !h.disk.failed && l.Frontiers().Durable < l.Frontiers().LogEnd && !h.full {
			// Appends that came meanwhile need not be covered.
			h.tell("%s is synced to %d of %d", p.tp, l.Frontiers().Durable, p.end())
		}
	}
}

func (h *history) observeAll() {
	for _, p := range h.partitions() {
		if l, err := h.sys.partition(p.tp); err == nil {
			h.observe(p, l)
		}
	}
}

func (h *history) anyLatched() bool {
	return slices.ContainsFunc(h.partitions(), func(p *partition) bool {
		l, err := h.sys.partition(p.tp)
		return err != nil || l.Failed() != nil
	})
}

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
		p.truncateTo = offset
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
	h.settle(p, l, lossNone)
}

// quiet ends all transactions and waits: then everything is stable.
func (h *history) quiet() {
	h.makeRoom()
	h.disk.between = nil
	for _, p := range h.partitions() {
		l := h.log(p)
		if l == nil {
			h.fail("%s does not serve in the last life", p.tp)
		}
		for _, id := range h.ids() {
			if s := p.state.producers[id]; s != nil && s.open >= 0 {
				m := batch.Marker{Producer: batch.Producer{ID: id, Epoch: s.epoch}, CoordinatorEpoch: max(s.coordinator, 0), Timestamp: h.now}
				h.appendMarker(p, l, h.stamped(p, batch.AppendMarker(nil, m), &m, []int64{h.now}, p.end()), log.MarkerOptions{})
			}
		}
	}
	h.syncAll()
	for _, p := range h.partitions() {
		l := h.log(p)
		if p.replicated {
			p.inLife = p.end()
			l.AdvanceHighWatermark(p.end())
		}
		h.observe(p, l)
		if f := l.Frontiers(); f.LastStable != f.LogEnd || f.HighWatermark != f.LogEnd {
			h.fail("%s does not go quiet: %+v", p.tp, f)
		}
	}
}
