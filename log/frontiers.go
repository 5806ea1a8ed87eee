package log

import (
	"math"

	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/producerstate"
)

// Frontier names one of the offsets that bound a log.
type Frontier uint8

const (
	FrontierLogStart Frontier = iota
	FrontierLastStable
	FrontierHighWatermark
	FrontierLogEnd
	FrontierDurable
)

// Frontiers are the offsets that bound a log. All but LogStart are exclusive.
type Frontiers struct {
	LogStart      int64 // first offset that may be read
	LastStable    int64 // read_committed stops here
	HighWatermark int64 // every reader stops here
	LogEnd        int64 // offset of the next append
	Durable       int64 // below, everything is on the device
}

// Of gives one of them.
func (f Frontiers) Of(which Frontier) int64 {
	switch which {
	case FrontierLogStart:
		return f.LogStart
	case FrontierLastStable:
		return f.LastStable
	case FrontierHighWatermark:
		return f.HighWatermark
	case FrontierLogEnd:
		return f.LogEnd
	default:
		return f.Durable
	}
}

// Frontiers loads them. The last stable offset is loaded before the high
// watermark, and that before the log end, so that the order between them
// holds although they move meanwhile.
func (l *Log) Frontiers() Frontiers {
	var f Frontiers
	f.LogStart = l.logStart.Load()
	f.LastStable = l.lastStable.Load()
	f.Durable = l.durable.Load()
	f.HighWatermark = l.highWatermark.Load()
	f.LogEnd = l.logEnd.Load()
	return f
}

// undecidedNone stands for "no open transaction".
const undecidedNone = math.MaxInt64

// completed are the transactions whose marker is not yet below the high
// watermark, reduced to what can bound the last stable offset: a transaction
// that began at or after a later completed one never does, as that one is
// both earlier and longer open. So first and marker both increase.
type completed struct {
	queue []completedTxn
	head  int
}

type completedTxn struct{ first, marker int64 }

func (c *completed) push(first, marker int64) {
	for len(c.queue) > c.head && c.queue[len(c.queue)-1].first >= first {
		c.queue = c.queue[:len(c.queue)-1]
	}
	if c.head > 0 && len(c.queue) == cap(c.queue) {
		c.queue = c.queue[:copy(c.queue, c.queue[c.head:])]
		c.head = 0
	}
	c.queue = append(c.queue, completedTxn{first, marker})
}

// settle forgets those whose marker is below the high watermark.
func (c *completed) settle(highWatermark int64) {
	for c.head < len(c.queue) && c.queue[c.head].marker < highWatermark {
		c.head++
	}
	if c.head == len(c.queue) {
		c.queue, c.head = c.queue[:0], 0
	}
}

func (c *completed) min() int64 {
	if c.head == len(c.queue) {
		return undecidedNone
	}
	return c.queue[c.head].first
}

// publishLocked moves the log end, with appendMu held, after the bytes below
// it are visible in their segment.
func (l *Log) publishLocked(end int64, done producerstate.CompletedTxn, isDone bool) {
	undecided, open := l.table.FirstUndecided()
	if !open {
		undecided = undecidedNone
	}
	l.frontierMu.Lock()
	l.undecided = undecided
	if isDone {
		l.completed.push(done.First, done.Last)
	}
	l.logEnd.Store(end)
	// What the journal holds was queued before it is published, so the flush that
	// made it durable may be over already, and nobody tells of it again.
	if safe := min(l.journaled.next, end); safe > l.durable.Load() && l.journal() != nil {
		l.durableLocked(safe)
	}
	if !l.o.Replicated && (l.level() == DurabilityOS || plant.Enabled && plant.Is(plant.WatermarkEarly)) {
		l.raiseLocked(end)
	} else {
		l.deriveLocked()
	}
	l.frontierMu.Unlock()
	l.wake()
}

// raiseLocked moves the high watermark up, with frontierMu held.
func (l *Log) raiseLocked(highWatermark int64) {
	highWatermark = min(highWatermark, l.logEnd.Load())
	if l.cutting {
		highWatermark = min(highWatermark, l.cutAt)
	}
	if highWatermark > l.highWatermark.Load() {
		l.highWatermark.Store(highWatermark)
	}
	l.deriveLocked()
}

// deriveLocked computes the last stable offset, with frontierMu held. A
// transaction that began below the log start bounds it at the log start: what
// is left of it comes after.
func (l *Log) deriveLocked() {
	highWatermark := l.highWatermark.Load()
	l.completed.settle(highWatermark)
	unstable := max(min(l.undecided, l.completed.min()), l.logStart.Load())
	l.lastStable.Store(min(highWatermark, unstable))
}

// flushed moves the durable frontier, and before it the high watermark where the
// level asks for it: whoever sees that an append is durable can read it.
func (l *Log) flushed(end int64) {
	l.frontierMu.Lock()
	// What is not published yet becomes durable when it is; what a truncation cuts is
	// durable perhaps, but not for long.
	l.durableLocked(min(end, l.logEnd.Load()))
	l.frontierMu.Unlock()
	l.wake()
}

// durableLocked is flushed with frontierMu held.
func (l *Log) durableLocked(end int64) {
	if !l.o.Replicated && l.level() == DurabilityFsync {
		l.raiseLocked(end)
	}
	if end > l.durable.Load() {
		l.durable.Store(end)
	}
}

// AdvanceHighWatermark moves the high watermark of a replicated log up to
// offset, at most to the log end, or where a truncation has begun. It never
// moves back.
func (l *Log) AdvanceHighWatermark(offset int64) {
	l.frontierMu.Lock()
	l.raiseLocked(offset)
	l.frontierMu.Unlock()
	l.wake()
}

// level is the durability of the topic as it is now.
func (l *Log) level() Durability { return l.config.Load().Durability }
