package log

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncelog/oncelog/internal/plant"
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
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	if err := l.writable(); err != nil {
		return 0, err
	}
	if c := l.config.Load(); c.Compact && !c.Delete {
		return 0, ErrNotDeletable
	}
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
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	if err := l.writable(); err != nil {
		return 0, err
	}
	before := len(l.view.Load().segments)
	start, all, err := l.retained()
	if err != nil {
		return 0, err
	}
	if all {
		// Everything goes: the log goes on in a new segment. What was appended
		// meanwhile may be worth keeping; else nobody is asked again, since
		// sealing was a change of the file.
		if err := l.rollForRetention(); err != nil {
			return 0, err
		}
		segments := l.view.Load().segments
		before = len(segments)
		if segments[before-1].Base != start {
			if start, _, err = l.retained(); err != nil {
				return 0, err
			}
		}
	}
	if err := l.advanceStart(ctx, max(start, l.logStart.Load())); err != nil {
		return 0, err
	}
	return before - len(l.view.Load().segments), nil
}

func (l *Log) rollForRetention() error {
	now := l.o.Now().UnixMilli()
	l.appendMu.Lock()
	if l.busy { // whoever keeps appends out may wait for maintainMu: another time
		l.appendMu.Unlock()
		return nil
	}
	err := l.writable()
	if err == nil && l.active.Size() > 0 {
		err = l.rollLocked(l.logEnd.Load(), now, 0)
	}
	l.appendMu.Unlock()
	if err != nil {
		return l.refused(err)
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
			if old, err = l.older(s, now, c.RetentionAge); err != nil {
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

// older tells whether every record of a segment is older than an age at the
// time now, in ms. Where no record has a timestamp, or one claims a time that
// has not come (and might be years away, or nanoseconds), the file's own counts.
func (l *Log) older(s *segment.Segment, now int64, age time.Duration) (bool, error) {
	than := now - age.Milliseconds()
	times, err := s.Times()
	if err != nil {
		return false, err
	}
	if times.Max.Timestamp >= 0 && times.Max.Timestamp <= now {
		return times.Max.Timestamp < than, nil
	}
	info, err := l.o.FS.Stat(s.Path(segment.KindLog))
	if err != nil {
		return false, err
	}
	return info.ModTime().UnixMilli() < than, nil
}

// advanceStart raises the log start, durably, and then removes the segments
// that lie below it. maintainMu is held.
func (l *Log) advanceStart(ctx context.Context, start int64) error {
	if start == l.logStart.Load() && l.below(start) == 0 {
		return nil
	}
	if err := l.settle(ctx); err != nil {
		return err
	}
	points := l.points()
	points.LogStart = start
	if plant.Enabled && plant.Is(plant.StartNotRecorded) {
		points.LogStart = l.logStart.Load()
	}
	if err := l.record(ctx, points); err != nil {
		return fmt.Errorf("record the log start %d: %w", start, err)
	}
	l.startAt(start)
	l.epochs.truncateStart(start)
	l.wake()
	for {
		n := l.below(start)
		if n == 0 {
			return nil
		}
		if err := l.ensureSnapshot(n); err != nil && !errors.Is(err, ErrNoSpace) {
			return err
		}
		// Without room for a new snapshot those go that need none, and make room
		// for it. Where there are none, they go another time.
		if n = l.covered(n); n == 0 {
			return nil
		}
		if err := l.removeSegments(n); err != nil {
			return err
		}
	}
}

// below is how many segments lie wholly below an offset, and on the device;
// never the last one.
func (l *Log) below(offset int64) (n int) {
	v := l.view.Load()
	offset = min(offset, l.durable.Load())
	for n < len(v.segments)-1 && v.segments[n+1].Base <= offset {
		n++
	}
	return n
}

// settle makes everything durable before some of it is removed. On a full disk
// that is done without a checkpoint, and with the room that was set aside:
// removing segments is the way out.
func (l *Log) settle(ctx context.Context) error {
	l.appendMu.Lock()
	full := l.noSpace
	l.appendMu.Unlock()
	if full {
		if err := l.releasePrepared(); err != nil {
			return err
		}
	}
	_, err := l.checkpoint(ctx)
	if errors.Is(err, ErrNoSpace) {
		return l.flush()
	}
	return err
}

// startAt moves the log start, and with it the last stable offset if that lies
// below.
func (l *Log) startAt(start int64) {
	l.frontierMu.Lock()
	l.logStart.Store(start)
	l.deriveLocked()
	l.frontierMu.Unlock()
}

// ensureSnapshot makes sure that the first n segments may go: with them goes
// the only other memory of sequences, so a producer snapshot made after their
// end must be durable, and not above the high watermark, so that no truncation
// takes it.
func (l *Log) ensureSnapshot(n int) error {
	if l.covered(n) == n {
		return nil
	}
	if l.truncatedFrom() < l.logEnd.Load() {
		return l.snapshotAt(l.view.Load().segments[n].Base)
	}
	return l.snapshotNow()
}

// covered is how many of the first n segments may go with the snapshots that
// there are.
func (l *Log) covered(n int) int {
	v, last := l.view.Load(), l.truncatedFrom()
	for ; n > 0; n-- {
		for _, at := range l.snapshots {
			if at >= v.segments[n].Base && at <= last {
				return n
			}
		}
	}
	return 0
}

// removeSegments takes the first n segments out of the list and deletes them.
func (l *Log) removeSegments(n int) error {
	l.appendMu.Lock()
	v := l.view.Load()
	gone := v.segments[:n]
	l.view.Store(&view{v.segments[n:]})
	l.sealing = slices.DeleteFunc(l.sealing, func(s sealing) bool { // not worth it any more
		found := slices.Contains(gone, s.segment)
		if found && s.snapshot != nil {
			s.snapshot.Discard()
		}
		if found {
			l.unsealed.Add(-1)
		}
		return found
	})
	l.appendMu.Unlock()
	bytes := int64(0)
	for _, s := range gone {
		bytes += s.Size()
		// The files go: an error of closing them loses nothing.
		_ = s.Retire()
	}
	l.leftover = append(l.leftover, gone...)
	if err := l.removeLeftover(); err != nil {
		return err
	}
	l.event(Event{Kind: EventSegmentsDeleted, From: gone[0].Base, To: l.view.Load().segments[0].Base, Bytes: bytes, Count: n})
	return nil
}

// removeLeftover removes the files of segments that left the list, in order: a
// failure leaves them to the next time, before any later one goes, so that the
// directory never has a hole. maintainMu is held.
func (l *Log) removeLeftover() error {
	if len(l.leftover) == 0 {
		return nil
	}
	if err := segment.Remove(l.env, l.leftover...); err != nil {
		return err
	}
	l.leftover = nil
	return nil
}
