package log

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// rollLocked makes a new active segment at base. Its predecessor is sealed
// later, off the append lock; only the producer state's snapshot is begun
// here, since it must be that of exactly this offset.
func (l *Log) rollLocked(base, now int64) error {
	if err := l.active.EndTimes(); err != nil {
		return err
	}
	if err := l.activateLocked(base, now); err != nil {
		return err
	}
	v := l.view.Load().segments
	old := sealing{segment: v[len(v)-2], end: base}
	if !slices.ContainsFunc(l.sealing, func(s sealing) bool { return s.snapshot != nil }) {
		old.snapshot = l.table.BeginSnapshot()
	}
	l.sealing = append(l.sealing, old)
	l.metrics.rolls.Add(1)
	if l.o.Workers != nil {
		l.o.Workers.submit(l)
	}
	return nil
}

// activateLocked makes the segment at base and puts it at the end of the list.
func (l *Log) activateLocked(base, now int64) error {
	c := l.config.Load()
	s, err := segment.Create(l.env, base, c.SegmentBytes, c.IndexIntervalBytes, l.prepared)
	l.prepared = false
	if err != nil {
		return err
	}
	l.active, l.rollAfter = s, now
	l.dirUnsync.Store(true)
	var segments []*segment.Segment
	if v := l.view.Load(); v != nil {
		segments = slices.Clone(v.segments)
	}
	l.view.Store(&view{append(segments, s)})
	return nil
}

// Roll seals the active segment unless it is empty; the next append starts a
// new one.
func (l *Log) Roll() error {
	if err := l.writable(); err != nil {
		return err
	}
	l.appendMu.Lock()
	var err error
	if l.active.Size() > 0 {
		err = l.rollLocked(l.logEnd.Load(), l.o.Now().UnixMilli())
	}
	l.appendMu.Unlock()
	return err
}

// maintain does what rolling left to do: seal, write the snapshot, prepare the
// next segment. The workers call it; a checkpoint does too.
func (l *Log) maintain() error {
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if err := l.sealAll(); err != nil {
		return err
	}
	return l.prepare()
}

// prepare makes the file of the next segment, for a log that rolls: a log
// that never filled a segment costs nothing. A full disk is no error here:
// the roll itself will meet it.
func (l *Log) prepare() error {
	l.appendMu.Lock()
	needed := !l.prepared && len(l.view.Load().segments) > 1
	l.appendMu.Unlock()
	if !needed {
		return nil
	}
	size := min(l.config.Load().SegmentBytes, segment.PreparedBytes)
	err := segment.Prepare(l.env, size)
	if errors.Is(err, ErrNoSpace) {
		return nil
	}
	if err == nil {
		l.appendMu.Lock()
		l.prepared = true
		l.appendMu.Unlock()
	}
	return err
}

// sealAll seals the rolled segments, oldest first, with maintainMu held.
func (l *Log) sealAll() error {
	for {
		l.appendMu.Lock()
		if len(l.sealing) == 0 {
			l.appendMu.Unlock()
			return nil
		}
		next := l.sealing[0]
		l.appendMu.Unlock()
		if err := l.seal(next); err != nil {
			return err
		}
		l.appendMu.Lock()
		l.sealing = slices.Delete(l.sealing, 0, 1)
		l.appendMu.Unlock()
	}
}

// seal makes a rolled segment whole on the device: the log up to its end,
// then its indexes, then the snapshot, which is never ahead of the synced log.
func (l *Log) seal(s sealing) error {
	l.flushMu.Lock()
	err := l.flushLocked()
	if err == nil {
		err = s.segment.Trim()
	}
	l.flushMu.Unlock()
	l.lead()
	if err == nil {
		err = s.segment.Seal()
	}
	if err == nil {
		// The recovery point may be behind this segment already, so that
		// recovery would believe an older index file of it.
		err = l.o.FS.SyncDir(l.o.Dir)
	}
	if err == nil && s.snapshot != nil {
		err = l.writeSnapshot(s.snapshot, s.end)
	}
	if err != nil && l.latched() == nil {
		err = l.latchAndTell("seal a segment of", err)
	}
	return err
}

// snapshotPiece is how many producers are copied under the append lock at once.
const snapshotPiece = 512

// snapshotsKept is how many snapshots of our own making stay: the newest, and
// the one before in case the newest is damaged.
const snapshotsKept = 2

// writeSnapshot writes a snapshot under way, which shows the producer state at
// offset, and removes older ones. maintainMu is held; what lies below offset
// is on the device.
func (l *Log) writeSnapshot(s *producerstate.Snapshot, offset int64) error {
	var file []byte
	for more := true; more; {
		l.appendMu.Lock()
		file, more = s.Next(file, snapshotPiece)
		l.appendMu.Unlock()
	}
	producerstate.Seal(file)
	return l.storeSnapshot(file, offset)
}

func (l *Log) storeSnapshot(file []byte, offset int64) error {
	if err := vfs.Replace(l.o.FS, l.snapshotPath(offset), file); err != nil {
		return err
	}
	i, found := slices.BinarySearch(l.snapshots, offset)
	if !found {
		l.snapshots = slices.Insert(l.snapshots, i, offset)
	}
	for len(l.snapshots) > snapshotsKept {
		if err := l.removeSnapshot(l.snapshots[0]); err != nil {
			return err
		}
		l.snapshots = slices.Delete(l.snapshots, 0, 1)
	}
	return nil
}

func (l *Log) snapshotPath(offset int64) string {
	return filepath.Join(l.o.Dir, segment.FileName(offset, segment.KindSnapshot))
}

func (l *Log) removeSnapshot(offset int64) error {
	err := l.o.FS.Remove(l.snapshotPath(offset))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// snapshotNow writes a snapshot at the log end, with maintainMu held.
func (l *Log) snapshotNow() error {
	if err := l.sealAll(); err != nil {
		return err
	}
	l.appendMu.Lock()
	end := l.logEnd.Load()
	s := l.table.BeginSnapshot()
	l.appendMu.Unlock()
	if err := l.flush(); err != nil {
		l.appendMu.Lock()
		s.Discard()
		l.appendMu.Unlock()
		return err
	}
	if err := l.writeSnapshot(s, end); err != nil {
		return fmt.Errorf("snapshot of producers at offset %d: %w", end, err)
	}
	return nil
}
