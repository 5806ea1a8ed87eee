package sim

import (
	"errors"
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
		if h.chance(0.3) {
			h.writeBack()
		}
		h.changeTopics()
		h.crashSoon()
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
		h.writeBack()
		return
	case 9:
		h.burst(list)
		return
	case 10:
		if h.chance(0.3) {
			h.renew()
		}
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
		if h.chance(0.3) {
			h.mend()
		}
		return
	case 8:
		if h.scene.journaled() && h.disk.broken == "" && h.chance(0.2) {
			h.breakSegments(list[h.rng.IntN(len(list))])
			return
		}
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
	if h.full && l.Failed() != nil && !h.disk.failed && !errors.Is(l.Failed(), syscall.EIO) && !h.dead() && p.truncateTo < 0 {
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
		if h.chance(0.3) { // what is truncated is on the disk, though nobody synced it
			h.writeBack()
		}
		h.truncate(p, l)
		h.crashSoon()
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

// writeBack is what the kernel does at any time.
func (h *history) writeBack() {
	h.tell("the kernel writes back")
	h.disk.mem.WriteBack(vfs.CrashOptions{Rand: h.rng, KeepUnsynced: h.rng.Float64()})
}

// burst appends much to many partitions that nobody waits for: more than one run
// of the journal takes.
func (h *history) burst(list []*partition) {
	for range 4 + h.rng.IntN(12) {
		p := list[h.rng.IntN(len(list))]
		l := h.log(p)
		if l == nil || h.dead() {
			return
		}
		n := 1 + h.rng.IntN(3)
		h.append(p, l, h.batchOf(p, plainOptions(), n, h.rng.IntN(int(min(3000, p.config.SegmentBytes/2)))/n, nil), log.AppendOptions{NoWait: true})
		if h.dead() {
			return
		}
	}
	h.crashSoon()
	if h.chance(0.7) {
		h.syncAll()
	}
}

// crashSoon sometimes lets the process die soon after something rare.
func (h *history) crashSoon() {
	if !h.last && h.disk.crashAt == never && h.chance(0.25) {
		h.disk.crashSoon(20)
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
	h.arriveAll()
	if h.sys.starting() {
		return // an append would wait for that
	}
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
		if h.chance(0.7) && !h.mayWait(p) {
			h.appendAny(p, l)
		} else {
			h.look(p, l)
		}
	}
}

// mayWait tells whether an append to a partition may have to wait: for memory,
// and what it then does itself needs locks that the activity it came into
// holds; or for a large append, which is synced before it is published.
func (h *history) mayWait(p *partition) bool {
	return h.ordered(p) && h.scene.memory < roomyBytes || len(p.flight) > 0
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
	ends := map[*partition]int64{}
	for _, p := range h.partitions() {
		ends[p] = p.end()
	}
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
		if l, e := h.sys.partition(p.tp); err == nil && e == nil && l.Frontiers().Durable < ends[p] {
			h.fail("%s is synced and durable to %d only, it ended at %d", p.tp, l.Frontiers().Durable, ends[p])
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

// quiet ends all transactions and waits: then everything is stable.
func (h *history) quiet() {
	h.makeRoom()
	h.mend()
	h.disk.between = nil
	h.sys.work() // which empties a journal that was full
	// All of them first: one that is latched may have what others wait for.
	for _, p := range h.partitions() {
		l := h.log(p)
		if h.dead() {
			return
		}
		if l == nil {
			h.fail("%s does not serve in the last life", p.tp)
		}
	}
	for _, p := range h.partitions() {
		l := h.log(p)
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
		if h.dead() { // the journal had failed before it was needed
			return
		}
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
