package log

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/segment"
)

// Checkpoint brings the directory up to date without stopping appends, so
// that recovery after a crash starts here: everything published is synced,
// then the indexes, then the leader epochs. It returns the points to record;
// the caller makes them durable (Checkpoints, or its own way) before it
// believes in them.
func (l *Log) Checkpoint(ctx context.Context) (p Points, err error) {
	err = l.CheckpointTo(ctx, func(now Points) { p = now })
	return p, err
}

// CheckpointTo is Checkpoint for who keeps the points of several logs: enter is
// given them before anything else can move them. Entered later, they might take
// back a log start or a truncation that was recorded meanwhile. It must not call
// the log.
func (l *Log) CheckpointTo(ctx context.Context, enter func(Points)) error {
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	if err := l.writable(); err != nil && !(l.closing.Load() && !l.closed.Load() && l.latched() == nil) {
		return err
	}
	p, err := l.checkpoint(ctx)
	if err == nil {
		enter(p)
	}
	return err
}

func (l *Log) checkpoint(ctx context.Context) (Points, error) {
	if err := ctx.Err(); err != nil {
		return Points{}, err
	}
	if err := l.sealAll(); err != nil {
		return Points{}, err
	}
	// Segments that were rolled and are not sealed may not lie below the point:
	// recovery would believe their files. So it lies in the first of them, or at
	// its end; no lower, since who frees the journal counts on a point above all
	// that the journal held before.
	l.appendMu.Lock()
	last, end := l.active, l.logEnd.Load()
	if len(l.sealing) > 0 {
		last, end = l.sealing[0].segment, l.sealing[0].end
	}
	l.appendMu.Unlock()
	// In a journaled log the point follows the journal and waits for nothing of
	// it: it may be full, and this checkpoint what it waits for.
	if !plant.Enabled || !plant.Is(plant.PointAhead) {
		end = min(end, l.settled().next)
	}
	if err := l.mendIndexes(); err != nil {
		return Points{}, l.unwritten("write the indexes of", err)
	}
	if end <= l.recoveryPoint && !l.dirUnsync.Load() {
		return l.points(), nil
	}
	if err := l.flush(); err != nil {
		return Points{}, err
	}
	wrote, err := l.checkpointIndexes(last)
	if err != nil {
		return Points{}, l.unwritten("write the indexes of", err)
	}
	if err := l.epochs.write(l.o.FS, l.o.Dir); err != nil {
		return Points{}, l.unwritten("write the leader epochs of", err)
	}
	if wrote {
		if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
			return Points{}, l.latchAndTell("sync the directory of", err)
		}
	}
	l.recoveryPoint = max(l.recoveryPoint, end)
	l.metrics.checkpoints.Add(1)
	p := l.points()
	l.markRecorded, l.markOffered = l.markOffered, p.HighWatermark
	return p, nil
}

// indexLagMax is how much of a journaled log may lack in its index files, which
// recovery then makes anew.
const indexLagMax = 16 << 20

// checkpointIndexes brings the index files of the segment up to date in which the
// recovery point will lie. The checkpoints that free the journal come often and
// over many partitions, so offsets and times may lag there: recovery looks at
// what they lack. What an index of aborted transactions lacks below the recovery
// point it would not.
func (l *Log) checkpointIndexes(s *segment.Segment) (wrote bool, err error) {
	if !s.Unsealed() {
		return false, nil
	}
	size := s.Size()
	if lag := size - l.indexed[s.Base]; l.journal() != nil && lag >= 0 && lag < indexLagMax {
		return s.FlushTxnIndex()
	}
	// Written in part, offsets would be there without the times before them: the
	// next checkpoint writes the rest before its point covers it.
	clear(l.indexed)
	l.indexed[s.Base] = -indexLagMax
	if err := s.FlushIndexes(); err != nil {
		return false, err
	}
	l.indexed[s.Base] = size
	return true, nil
}

// unwritten is the error of writing what only saves work: on a full disk it can
// be done later, any other failure latches.
func (l *Log) unwritten(deed string, cause error) error {
	if errors.Is(cause, ErrNoSpace) {
		return l.refused(fmt.Errorf("%s %s: %w", deed, l.o.Partition, cause))
	}
	return l.latchAndTell(deed, cause)
}

// points are what a crash would have to start from, with maintainMu held.
func (l *Log) points() Points {
	p := Points{RecoveryPoint: l.recoveryPoint, LogStart: l.logStart.Load(), HighWatermark: l.highWatermark.Load()}
	if !l.opened.Load() && !l.o.Clean { // nobody synced what was loaded
		p.RecoveryPoint = min(p.RecoveryPoint, l.o.Points.RecoveryPoint)
	}
	return p
}

// Points are the positions to record for this log. Before Recover the recovery
// point is the one it was loaded with.
func (l *Log) Points() Points {
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	return l.points()
}

// record makes points durable, with maintainMu held.
func (l *Log) record(ctx context.Context, p Points) error {
	if l.o.Checkpoints == nil {
		return nil
	}
	err := segment.NoSpace(l.o.Checkpoints.Record(ctx, l.o.Partition, p))
	if err == nil {
		l.markRecorded, l.markOffered = p.HighWatermark, p.HighWatermark
	}
	return err
}

// Close ends the log cleanly: everything is flushed, the active segment
// trimmed, indexes, producer snapshot and leader epochs are written and
// synced. It returns the points to record. A latched or read-only log only
// closes its files; the error says so for the former. Waiters get ErrClosed.
func (l *Log) Close(ctx context.Context) (Points, error) {
	err := l.stopAppends(ctx)
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	if l.closed.Load() {
		return l.points(), ErrClosed
	}
	if err == nil && l.opened.Load() {
		err = l.closeCleanly()
	}
	l.leaveJournal()
	l.flushMu.Lock()
	defer l.unlockFlush()
	l.appendMu.Lock()
	l.closed.Store(true)
	l.appendMu.Unlock()
	l.wakeAll()
	return l.points(), joinClose(err, l.view.Load())
}

// StopAppends refuses what comes from now on, with ErrClosed: Close comes next.
func (l *Log) StopAppends() {
	l.lockAppend()
	l.closing.Store(true)
	l.appendMu.Unlock()
}

// stopAppends refuses what comes from now on; what was admitted is in, and the
// journal holds it on return.
func (l *Log) stopAppends(ctx context.Context) error {
	if !l.opened.Load() || l.closed.Load() {
		return nil
	}
	l.StopAppends()
	if j := l.journal(); j != nil && l.latched() == nil {
		return l.settleJournal(ctx, j)
	}
	return nil
}

func (l *Log) closeCleanly() error {
	if err := l.latched(); err != nil {
		return err
	}
	if err := segment.Unprepare(l.env); err != nil { // first: it may make the room that the rest needs
		return err
	}
	if err := l.sealAll(); err != nil {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.removeLeftover(); err != nil {
		return err
	}
	if err := l.mendIndexes(); err != nil {
		return err
	}
	end := l.logEnd.Load()
	if err := l.active.EndTimes(); err != nil {
		return err
	}
	if err := l.active.Trim(); err != nil {
		return l.latchAndTell("trim", err)
	}
	if err := l.active.FlushIndexes(); err != nil {
		return err
	}
	// A log that never held a record gets no snapshot, as in Kafka.
	l.appendMu.Lock() // against who asks for producers or metrics
	var snapshot []byte
	if end > 0 || l.table.Len() > 0 {
		snapshot = l.table.AppendSnapshot(nil)
	}
	l.appendMu.Unlock()
	if snapshot != nil {
		if err := l.storeSnapshot(snapshot, end); err != nil {
			return err
		}
	}
	if err := l.epochs.write(l.o.FS, l.o.Dir); err != nil {
		return err
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return err
	}
	l.recoveryPoint = end
	return nil
}

// leaveJournal ends the log's part in the journal: what is queued is dropped.
func (l *Log) leaveJournal() {
	if b := l.backed.Load(); b != nil && b.handle != nil {
		b.handle.Leave()
	}
	if l.o.Workers != nil {
		l.o.Workers.released(l)
	}
}

// Abandon closes the files and writes nothing more, as after an I/O error or
// before the directory is removed. Waiters get ErrClosed.
func (l *Log) Abandon() error {
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	l.flushMu.Lock()
	defer l.unlockFlush()
	l.appendMu.Lock()
	already := l.closed.Swap(true)
	l.appendMu.Unlock()
	l.wakeAll()
	if already {
		return nil
	}
	l.leaveJournal()
	return joinClose(nil, l.view.Load())
}
