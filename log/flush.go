package log

import (
	"context"
	"errors"
	"runtime"

	"github.com/oncelog/oncelog/internal/plant"
)

// flushDueBytes and the delay of Workers bound how long a published append
// stays invisible at DurabilityFsync when nobody waits for it.
const flushDueBytes = 1 << 20

// flush brings everything published (of a journaled log: what the journal
// holds) into its files and syncs them, waiting for a flush under way.
func (l *Log) flush() error {
	l.flushMu.Lock()
	err := l.flushLocked()
	l.unlockFlush()
	if err != nil {
		return l.refused(err)
	}
	return nil
}

// unlockFlush gives flushMu back, from whatever it was taken for. Those who came
// meanwhile for a flush could not take it and wait: one of them goes next.
func (l *Log) unlockFlush() {
	l.flushMu.Unlock()
	l.lead()
}

// flushLocked is flush with flushMu held, for what is published when it
// collects. One sync at a time a file: of two, only one would hear of an error.
// A failed one is final and latches the log; the caller tells (refused), with
// flushMu released. ErrClosed once the log is: its files are closed with flushMu
// held.
func (l *Log) flushLocked() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if err := l.latched(); err != nil {
		return err
	}
	if l.waitingCount.Load() > 1 {
		runtime.Gosched() // those just released come back with their next append
	}
	l.unflushed.Store(0)
	at := l.settled()
	if l.filed.Load() >= at.next && !l.dirUnsync.Load() {
		return nil
	}
	if err := l.syncSegments(at); err != nil {
		return l.latch("flush", err)
	}
	// The name of a new segment must be durable before anything in it counts.
	if l.dirUnsync.Swap(false) && !(plant.Enabled && plant.Is(plant.NameNotSynced)) {
		if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
			return l.latch("sync the directory of", err)
		}
	}
	l.metrics.flushes.Add(1)
	if at.next > l.filed.Load() {
		l.filed.Store(at.next)
	}
	l.flushed(at.next)
	return nil
}

// syncSegments makes the files durable as far as at.
func (l *Log) syncSegments(at reach) error {
	v := l.view.Load()
	for i := max(v.find(l.filed.Load()), 0); i < len(v.segments); i++ {
		if plant.Enabled && plant.Is(plant.AcknowledgedEarly) {
			continue
		}
		s := v.segments[i]
		size := s.Size()
		if at.segment >= 0 {
			if s.Base > at.segment {
				break
			}
			if s.Base == at.segment {
				size = at.pos
			}
		}
		if err := s.SyncTo(size); err != nil {
			return err
		}
	}
	return nil
}

// latchAndTell latches outside of appendMu.
func (l *Log) latchAndTell(deed string, cause error) error { return l.refused(l.latch(deed, cause)) }

// flushIfDue asks the workers for a flush that an append of size bytes at the
// given level needs, beside those of the log's own, and nobody waits for. The journal sees
// to that itself.
func (l *Log) flushIfDue(level Durability, size int) {
	if max(level, l.level()) != DurabilityFsync || l.o.Workers == nil || l.journal() != nil {
		return
	}
	if !l.queued.Load() && l.queued.CompareAndSwap(false, true) {
		l.o.Workers.flushDue(l)
	}
	if l.unflushed.Add(int64(size)) >= flushDueBytes {
		l.o.Workers.flushNow()
	}
}

// Sync returns once everything appended before the call, and not truncated
// meanwhile, is on the device.
func (l *Log) Sync(ctx context.Context) error {
	if err := l.writable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		p := l.upTo()
		if l.durable.Load() >= p.offset && !l.dirUnsync.Load() {
			return nil
		}
		err := l.waitDurable(ctx, p)
		if !errors.Is(err, ErrTruncated) { // else there is less to wait for
			return err
		}
	}
}
