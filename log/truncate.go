package log

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/tail"
)

// Truncate takes the suffix of the log from offset on away: files, indexes,
// leader epochs, producer state and transactions go back to what they were.
// offset must be the base offset of a batch (ErrNotBatchBoundary), at or above
// the high watermark (ErrBelowHighWatermark); at or behind the log end no batch
// goes, but epochs that began there and have none do. On return it is durable.
// Appends wait meanwhile; those that were taken away before they were safe end
// with ErrTruncated. An I/O error in the middle latches the log.
func (l *Log) Truncate(ctx context.Context, offset int64) error {
	if err := l.writable(); err != nil {
		return err
	}
	// The journal may hold what a log of this partition appended before it was
	// opened again: it must hear of the truncation too.
	if l.o.Backing != nil && l.backed.Load() == nil && l.level() == DurabilityFsync {
		if err := l.back(); err != nil {
			return l.refused(err)
		}
	}
	l.Freeze()
	defer l.Thaw()
	if err := l.truncate(ctx, offset); err != nil {
		return l.refused(err)
	}
	return nil
}

// truncate is Truncate with appends kept out. No lock is held while the journal
// takes the truncation: it may have to wait for a checkpoint of this log first.
func (l *Log) truncate(ctx context.Context, offset int64) error {
	if j := l.journal(); j != nil && l.o.Workers.manual {
		if err := l.settleJournal(ctx, j); err != nil {
			return err
		}
		if err := l.journalRoom(j); err != nil {
			return err
		}
	}
	base, pos, err := l.beginTruncation(ctx, offset)
	if err != nil || pos < 0 {
		return err
	}
	if b := l.backed.Load(); b != nil && b.handle != nil {
		if err := b.handle.Truncate(offset, base, pos); err != nil {
			return l.latch("truncate", err)
		}
		l.frontierMu.Lock()
		l.journaled = reach{base, pos, offset}
		l.frontierMu.Unlock()
	}
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	l.flushMu.Lock()
	defer l.unlockFlush()
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.closed.Load() {
		return ErrClosed
	}
	v := l.view.Load()
	if err := l.truncateLocked(v, v.find(base), offset, pos); err != nil {
		return l.latch("truncate", err)
	}
	return nil
}

// beginTruncation checks that the log may be cut at offset, finds the place,
// and lowers what says that there is more: first of all the recorded recovery
// point, above which nothing on disk is believed, so that a crash on the way
// finds either end. pos is -1 if there is nothing to cut.
func (l *Log) beginTruncation(ctx context.Context, offset int64) (base, pos int64, err error) {
	if err := l.lockSealed(ctx); err != nil {
		return 0, -1, err
	}
	defer l.maintainMu.Unlock()
	l.flushMu.Lock()
	defer l.unlockFlush()
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if err := l.writable(); err != nil {
		return 0, -1, err
	}
	switch f := l.Frontiers(); {
	case offset >= f.LogEnd:
		return 0, -1, l.dropEpochs(max(f.LogEnd, f.LogStart+1))
	case offset < f.LogStart:
		return 0, -1, &OffsetError{Requested: offset, LogStart: f.LogStart, LogEnd: f.LogEnd}
	}
	if err := l.holdHighWatermark(offset); err != nil {
		return 0, -1, err
	}
	defer l.freeHighWatermark()
	v := l.view.Load()
	s := v.segments[v.find(offset)]
	if pos, err = batchStart(s, offset); err != nil {
		return 0, -1, err
	}
	// A full disk has changed nothing yet.
	points := l.points()
	points.RecoveryPoint = min(points.RecoveryPoint, offset)
	if err := l.record(ctx, points); errors.Is(err, ErrNoSpace) {
		return 0, -1, err
	} else if err != nil {
		return 0, -1, l.latch("truncate", err)
	}
	l.recoveryPoint = points.RecoveryPoint
	l.frontierMu.Lock()
	l.logEnd.Store(offset)
	l.durable.Store(min(l.durable.Load(), offset))
	l.frontierMu.Unlock()
	l.endEraLocked(offset)
	l.wakeAll()
	return s.Base, pos, nil
}

// holdHighWatermark keeps the high watermark, which is moved from outside, from
// passing the offset of a truncation while that begins; from then on the log end
// does. ErrBelowHighWatermark if it has passed it already.
func (l *Log) holdHighWatermark(offset int64) error {
	l.frontierMu.Lock()
	defer l.frontierMu.Unlock()
	if seen := l.highWatermark.Load(); offset < seen {
		return fmt.Errorf("%w: truncation to %d, readers have seen up to %d", ErrBelowHighWatermark, offset, seen)
	}
	l.cutting, l.cutAt = true, offset
	return nil
}

func (l *Log) freeHighWatermark() {
	l.frontierMu.Lock()
	l.cutting = false
	l.frontierMu.Unlock()
}

// lockSealed locks maintainMu with no rolled segment left to seal. Appends are
// kept out.
func (l *Log) lockSealed(ctx context.Context) error {
	for {
		l.maintainMu.Lock()
		err := l.sealAll()
		if err == nil && l.unsealed.Load() == 0 {
			return nil
		}
		l.maintainMu.Unlock()
		if err != nil {
			return err
		}
		if j := l.journal(); j != nil { // it does not hold them whole yet
			if err := l.settleJournal(ctx, j); err != nil {
				return err
			}
		}
	}
}

// settleSlots makes sure that no power loss brings back what was cut from the
// mapped tail.
func (l *Log) settleSlots() error {
	if b := l.backed.Load(); b != nil {
		if slots, ok := b.source.(*tail.Slots); ok {
			return slots.Settle()
		}
	}
	return nil
}

// dropEpochs forgets the epochs without a batch, from offset on: behind the log
// end, but not the one that holds the log start, whose batches were deleted. On
// a full disk nothing happens: were they forgotten here and not on disk, they
// would be back over the batches that follow. appendMu is held.
func (l *Log) dropEpochs(offset int64) error {
	before := l.Epochs()
	l.epochs.truncateEnd(offset)
	switch err := l.epochs.write(l.o.FS, l.o.Dir); {
	case errors.Is(err, ErrNoSpace):
		l.epochs.restore(before)
		return err
	case err != nil:
		return l.latch("write the leader epochs of", err)
	}
	return nil
}

// batchStart is the byte position of the batch that begins at offset.
func batchStart(s *segment.Segment, offset int64) (int64, error) {
	h, err := s.Acquire()
	if err != nil {
		return 0, err
	}
	defer h.Release()
	if offset == s.Base {
		return 0, nil
	}
	scan := segment.NewScanner(h.File, s.Seek(h, offset-1), s.Size(), false)
	defer scan.Close()
	for scan.Next() {
		if b := scan.Batch(); b.BaseOffset() == offset {
			return scan.Pos(), nil
		} else if b.LastOffset() >= offset {
			return 0, fmt.Errorf("%w: %d, in the batch from %d to %d", ErrNotBatchBoundary, offset, b.BaseOffset(), b.LastOffset())
		}
	}
	if scan.Err() != nil {
		return 0, damaged(s, scan.Err())
	}
	return 0, fmt.Errorf("%w: %d", ErrNotBatchBoundary, offset)
}

// truncateLocked cuts at a batch start, below which the recorded recovery point
// lies. What stays is brought into the files first, so that no memory is needed
// any more. Readers go on meanwhile: the list that they find never has a segment
// that is retired.
func (l *Log) truncateLocked(v *view, i int, offset, pos int64) error {
	for j, s := range v.segments {
		below := s.Size()
		if j == i {
			below = pos
		}
		if j > i {
			below = 0
		}
		if err := s.WriteBack(below, 0); err != nil {
			return err
		}
		s.Cut(below)
	}
	if err := l.settleSlots(); err != nil {
		return err
	}
	l.frontierMu.Lock()
	l.logEnd.Store(offset)
	l.durable.Store(min(l.durable.Load(), offset))
	l.filed.Store(min(l.filed.Load(), offset))
	l.frontierMu.Unlock()
	l.recoveryPoint = min(l.recoveryPoint, offset)
	if err := l.removeSnapshotsAbove(offset); err != nil {
		return err
	}
	l.view.Store(&view{v.segments[:i+1]})
	cut := slices.Clone(v.segments[i+1:])
	slices.Reverse(cut) // the last goes first: no hole, ever
	for _, s := range cut {
		if err := s.Retire(); err != nil {
			return err
		}
	}
	if err := segment.Remove(l.env, cut...); err != nil {
		return err
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil { // snapshots
		return err
	}
	c := l.config.Load()
	active, err := v.segments[i].Truncated(offset, pos, c.SegmentBytes, c.IndexIntervalBytes)
	if err != nil {
		return err
	}
	old, segments := v.segments[i], append(v.segments[:i:i], active)
	l.view.Store(&view{segments})
	l.active, l.rollAfter = active, l.o.Now().UnixMilli()
	if err := old.Retire(); err != nil {
		return err
	}
	if start := l.logStart.Load(); start > 0 {
		// The epoch that holds the log start stays: its batches were deleted, and
		// a leader must not fall behind it.
		l.epochs.truncateEnd(max(offset, start+1))
	} else {
		l.epochs.truncateEnd(offset)
	}
	if err := l.epochs.write(l.o.FS, l.o.Dir); err != nil {
		return err
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil { // indexes
		return err
	}
	return l.rebuildProducers(offset)
}

func (l *Log) removeSnapshotsAbove(offset int64) error {
	kept := l.snapshots[:0]
	for _, at := range l.snapshots {
		if at <= offset {
			kept = append(kept, at)
		} else if err := l.removeSnapshot(at); err != nil {
			return err
		}
	}
	l.snapshots = kept
	return nil
}

// rebuildProducers makes the producer state of the cut log anew. Until then the
// transactions whose marker was cut bound the last stable offset as completed
// ones: none of those markers was below the high watermark.
func (l *Log) rebuildProducers(end int64) error {
	p := &loadPlan{listing: segment.SnapshotsOnly(l.o.Dir, l.snapshots)}
	table, at, err := l.newestSnapshot(p, l.view.Load().segments[0].Base, end)
	if err != nil {
		return err
	}
	if err := l.replay(table, at, end, ignoreCompleted); err != nil {
		return err
	}
	l.table = table
	undecided, open := table.FirstUndecided()
	if !open {
		undecided = undecidedNone
	}
	l.frontierMu.Lock()
	l.undecided = undecided
	l.completed.truncate(end)
	l.deriveLocked()
	l.frontierMu.Unlock()
	l.wake()
	return nil
}

// truncate forgets transactions whose marker was cut. What a later one had
// replaced needs no return: that one is open again, or was cut with it.
func (c *completed) truncate(offset int64) {
	for len(c.queue) > c.head && c.queue[len(c.queue)-1].marker >= offset {
		c.queue = c.queue[:len(c.queue)-1]
	}
}
