package log

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/segment"
)

// Truncate takes the suffix of the log from offset on away: files, indexes,
// leader epochs, producer state and transactions go back to what they were.
// offset must be the base offset of a batch (ErrNotBatchBoundary), at or above
// the high watermark (ErrBelowHighWatermark); at or behind the log end nothing
// happens. On return it is durable. Appends wait meanwhile. An I/O error in
// the middle latches the log.
func (l *Log) Truncate(ctx context.Context, offset int64) error {
	if err := l.writable(); err != nil {
		return err
	}
	for {
		l.maintainMu.Lock()
		err := l.truncate(ctx, offset)
		l.maintainMu.Unlock()
		if errors.Is(err, journal.ErrFull) {
			err = l.journal().Flush(ctx) // with maintainMu released: what frees it needs that
			if err == nil {
				continue
			}
		}
		if err != nil {
			return l.refused(err)
		}
		return nil
	}
}

// truncate is Truncate with maintainMu held.
func (l *Log) truncate(ctx context.Context, offset int64) error {
	for {
		if err := l.sealAll(); err != nil {
			return err
		}
		l.flushMu.Lock()
		l.lockAppend()
		if len(l.sealing) == 0 {
			break
		}
		l.appendMu.Unlock()
		l.flushMu.Unlock()
		if l.journal() != nil { // which does not hold them yet
			return journal.ErrFull
		}
	}
	defer l.flushMu.Unlock()
	defer l.appendMu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	switch f := l.Frontiers(); {
	case offset >= f.LogEnd:
		return l.dropEpochs(max(f.LogEnd, f.LogStart+1))
	case offset < f.LogStart:
		return &OffsetError{Requested: offset, LogStart: f.LogStart, LogEnd: f.LogEnd}
	case offset < f.HighWatermark:
		return fmt.Errorf("%w: truncation to %d, readers have seen up to %d", ErrBelowHighWatermark, offset, f.HighWatermark)
	}
	v := l.view.Load()
	i := v.find(offset)
	pos, err := batchStart(v.segments[i], offset)
	if err != nil {
		return err
	}
	if err := l.truncateMemory(v, i, offset, pos); errors.Is(err, journal.ErrFull) {
		return err
	} else if err != nil {
		return l.latch("truncate", err)
	}
	// The recovery point goes first: above it nothing on disk is believed, so a
	// crash on the way finds either end. A full disk has changed nothing yet.
	points := l.points()
	points.RecoveryPoint = min(points.RecoveryPoint, offset)
	if err := l.record(ctx, points); errors.Is(err, ErrNoSpace) {
		return err
	} else if err != nil {
		return l.latch("truncate", err)
	}
	if err := l.truncateLocked(v, i, offset, pos); err != nil {
		return l.latch("truncate", err)
	}
	return nil
}

// truncateMemory tells the journal of the cut, durably, and brings what stays
// into the files, so that no memory is left of the segments that are cut.
func (l *Log) truncateMemory(v *view, i int, offset, pos int64) error {
	b := l.backed.Load()
	if b == nil || b.source == nil {
		return nil
	}
	base := v.segments[i].Base
	if b.handle != nil {
		if err := b.handle.Truncate(offset, base, pos); err != nil {
			return err
		}
		l.frontierMu.Lock()
		l.journaled = position{base, pos, offset}
		l.frontierMu.Unlock()
	}
	for _, s := range v.segments[:i] {
		if err := s.WriteBack(s.Size(), 0); err != nil {
			return err
		}
	}
	return v.segments[i].WriteBack(pos, 0)
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
// lies.
func (l *Log) truncateLocked(v *view, i int, offset, pos int64) error {
	l.frontierMu.Lock()
	l.logEnd.Store(offset)
	l.durable.Store(min(l.durable.Load(), offset))
	l.filed.Store(min(l.filed.Load(), offset))
	l.completed.truncate(offset)
	l.frontierMu.Unlock()
	l.recoveryPoint = min(l.recoveryPoint, offset)
	kept := l.snapshots[:0]
	for _, at := range l.snapshots {
		if at <= offset {
			kept = append(kept, at)
		} else if err := l.removeSnapshot(at); err != nil {
			return err
		}
	}
	l.snapshots = kept
	for _, s := range v.segments[i:] {
		if err := s.Forget(); err != nil {
			return err
		}
	}
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
	segments := append(v.segments[:i:i], active)
	l.view.Store(&view{segments})
	l.active, l.rollAfter = active, l.o.Now().UnixMilli()
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
	return l.rebuildProducers(offset)
}

// rebuildProducers makes the producer state of the cut log anew.
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
	l.deriveLocked()
	l.frontierMu.Unlock()
	return nil
}

// truncate forgets transactions whose marker was cut. What a later one had
// replaced needs no return: that one is open again, or was cut with it.
func (c *completed) truncate(offset int64) {
	for len(c.queue) > c.head && c.queue[len(c.queue)-1].marker >= offset {
		c.queue = c.queue[:len(c.queue)-1]
	}
}
