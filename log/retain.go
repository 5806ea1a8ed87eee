package log

import (
	"context"
	"fmt"

	"github.com/oncelog/oncelog/internal/segment"
)

// DeleteRecords raises the log start to offset, -1 meaning the high watermark,
// and answers the log start. On return it is durable: deleted records do not
// come back. The offset may lie inside a batch or a transaction; producer
// state is kept. Segments wholly below it are removed.
//
// Errors: *OffsetError above the high watermark, ErrNotDeletable where only
// compaction may remove records.
func (l *Log) DeleteRecords(ctx context.Context, offset int64) (int64, error) {
	if err := l.writable(); err != nil {
		return 0, err
	}
	if c := l.config.Load(); c.Compact && !c.Delete {
		return 0, ErrNotDeletable
	}
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	f := l.Frontiers()
	if offset == -1 {
		offset = f.HighWatermark
	}
	if offset < 0 || offset > f.HighWatermark {
		return f.LogStart, &OffsetError{Requested: offset, LogStart: f.LogStart, LogEnd: f.HighWatermark}
	}
	if offset <= f.LogStart {
		return f.LogStart, nil
	}
	if err := l.advanceStart(ctx, offset); err != nil {
		return l.logStart.Load(), err
	}
	return offset, nil
}

// Retain removes the oldest segments that the configuration no longer keeps:
// those below the log start, then by size, then by age. Nothing at or above
// the high watermark goes. It answers how many segments went; a second call
// with the same clock removes nothing.
func (l *Log) Retain(ctx context.Context) (int, error) {
	if err := l.writable(); err != nil {
		return 0, err
	}
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	before := len(l.view.Load().segments)
	start, all, err := l.retained()
	if err != nil {
		return 0, err
	}
	if all {
		// Everything goes: the log goes on in a new segment.
		if err := l.rollForRetention(); err != nil {
			return 0, err
		}
		before++
		start = l.logEnd.Load()
		start = min(start, l.active.Base)
	}
	if err := l.advanceStart(ctx, max(start, l.logStart.Load())); err != nil {
		return 0, err
	}
	return before - len(l.view.Load().segments), nil
}

func (l *Log) rollForRetention() error {
	l.appendMu.Lock()
	err := l.rollLocked(l.logEnd.Load(), l.o.Now().UnixMilli())
	l.appendMu.Unlock()
	if err != nil {
		return err
	}
	return l.sealAll()
}

// retained decides where the log starts after retention: the base of the first
// segment that stays. all says that none needs to.
func (l *Log) retained() (start int64, all bool, err error) {
	c, v := l.config.Load(), l.view.Load()
	start = l.logStart.Load()
	highWatermark, end := l.highWatermark.Load(), l.logEnd.Load()
	excess := int64(-1)
	if c.Delete && c.RetentionBytes > 0 {
		excess = -c.RetentionBytes
		for _, s := range v.segments {
			excess += s.Size()
		}
	}
	bySize := true // the first segment that size keeps ends what size removes
	now := l.o.Now().UnixMilli()
	for i, s := range v.segments {
		last := i == len(v.segments)-1
		next := end
		if !last {
			next = v.segments[i+1].Base
		}
		if next > highWatermark || last && s.Size() == 0 {
			return start, false, nil
		}
		bySize = bySize && excess-s.Size() >= 0
		old := false
		if c.Delete && c.RetentionAge > 0 {
			if old, err = l.older(s, now-c.RetentionAge.Milliseconds()); err != nil {
				return 0, false, err
			}
		}
		if below := !last && next <= start; !below && !bySize && !old {
			return start, false, nil
		}
		excess -= s.Size()
		start = max(start, next)
	}
	return start, true, nil
}

// older tells whether every record of a segment is older than a time; where no
// record has one, the file's own counts.
func (l *Log) older(s *segment.Segment, than int64) (bool, error) {
	times, err := s.Times()
	if err != nil {
		return false, err
	}
	if times.Max.Timestamp >= 0 {
		return times.Max.Timestamp < than, nil
	}
	info, err := l.o.FS.Stat(s.Path(segment.KindLog))
	if err != nil {
		return false, err
	}
	return info.ModTime().UnixMilli() < than, nil
}

// advanceStart raises the log start, durably, and then removes the segments
// that lie below it; never one above the recovery point, nor one after whose
// end no producer snapshot is durable: with the log gone it is the only memory
// of sequences. maintainMu is held.
func (l *Log) advanceStart(ctx context.Context, start int64) error {
	v := l.view.Load()
	n := 0
	for n < len(v.segments)-1 && v.segments[n+1].Base <= start {
		n++
	}
	if start == l.logStart.Load() && n == 0 {
		return nil
	}
	if _, err := l.checkpoint(ctx); err != nil {
		return err
	}
	if n > 0 {
		if err := l.ensureSnapshot(v.segments[n].Base); err != nil {
			return err
		}
	}
	l.startAt(start)
	if err := l.record(ctx); err != nil {
		return fmt.Errorf("record the log start %d: %w", start, err)
	}
	l.epochs.truncateStart(start)
	l.wake()
	if n == 0 {
		return nil
	}
	return l.removeSegments(n)
}

// startAt moves the log start, and with it the last stable offset if that lies
// below.
func (l *Log) startAt(start int64) {
	l.frontierMu.Lock()
	l.logStart.Store(start)
	l.deriveLocked()
	l.frontierMu.Unlock()
}

// ensureSnapshot makes sure that a snapshot at or above offset is durable.
func (l *Log) ensureSnapshot(offset int64) error {
	if k := len(l.snapshots); k > 0 && l.snapshots[k-1] >= offset {
		return nil
	}
	return l.snapshotNow()
}

// removeSegments takes the first n segments out of the list and deletes them.
func (l *Log) removeSegments(n int) error {
	l.appendMu.Lock()
	v := l.view.Load()
	gone := v.segments[:n]
	l.view.Store(&view{v.segments[n:]})
	l.appendMu.Unlock()
	bytes := int64(0)
	for _, s := range gone {
		bytes += s.Size()
		if err := s.Retire(); err != nil {
			return err
		}
		if err := s.Remove(); err != nil {
			return err
		}
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return err
	}
	l.event(Event{Kind: EventSegmentsDeleted, From: gone[0].Base, To: l.view.Load().segments[0].Base, Bytes: bytes, Count: n})
	return nil
}
