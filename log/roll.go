package log

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// sealingMax is how many rolled segments may wait to be sealed. They take memory
// and open files, and recovery would have to check them; so the append that would
// roll one more seals them first.
const sealingMax = 16

// errUnsealed says that too many segments wait to be sealed; nothing happened.
var errUnsealed = errors.New("log: too many segments to seal")

func (l *Log) mayRollLocked() error {
	if len(l.sealing) < sealingMax {
		return nil
	}
	if w := l.o.Workers; w != nil && w.manual {
		// By hand an append can come between the steps of a seal, or of a flush,
		// which it would then wait for in vain.
		if !l.maintainMu.TryLock() {
			return nil
		}
		flushes := !l.flushMu.TryLock()
		if !flushes {
			l.flushMu.Unlock()
		}
		l.maintainMu.Mutex.Unlock() // tells nothing, with appendMu held
		if flushes {
			return nil
		}
	}
	return errUnsealed
}

// relieve seals what waits for it, beside the workers. The journal goes first:
// what it does not hold whole cannot be sealed.
func (l *Log) relieve(ctx context.Context) error {
	if j := l.journal(); j != nil {
		for !l.sealable() {
			if err := l.writable(); err != nil {
				return err
			}
			if j.TryFlush() {
				continue
			}
			if err := l.settleJournal(ctx, j); err != nil {
				return err
			}
		}
	}
	return l.maintain()
}

// sealable tells whether the segment that was rolled first can be sealed.
func (l *Log) sealable() bool {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return len(l.sealing) == 0 || l.sealing[0].end <= l.settled().next
}

// rollLocked makes a new active segment at base, with room for what is to be
// appended. Its predecessor is sealed later, off the append lock; only the
// producer state's snapshot is begun here, since it must be that of exactly
// this offset. A full disk changes nothing: ErrNoSpace. Any other failure
// latches: a file of the new segment may be there, and appends that went on in
// the old one would run into it.
func (l *Log) rollLocked(base, now, room int64) error {
	last := l.active
	err := l.activateLocked(base, now, room)
	if errors.Is(err, ErrNoSpace) {
		l.dirUnsync.Store(true) // a file came and went
		return err
	}
	if err == nil {
		last.EndMemory()
		err = last.EndTimes()
	}
	if err != nil {
		return l.latch("roll", err)
	}
	old := sealing{segment: last, end: base}
	if !l.snapshotting && !slices.ContainsFunc(l.sealing, func(s sealing) bool { return s.snapshot != nil }) {
		old.snapshot = l.table.BeginSnapshot()
	}
	l.sealing = append(l.sealing, old)
	l.unsealed.Add(1)
	l.metrics.rolls.Add(1)
	if l.o.Workers != nil {
		l.o.Workers.submit(l)
	}
	return nil
}

// activateLocked makes the segment at base and puts it at the end of the list.
func (l *Log) activateLocked(base, now, room int64) error {
	c := l.config.Load()
	s, err := segment.Create(l.env, base, c.SegmentBytes, c.IndexIntervalBytes, l.prepared, room)
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
	var err error
	for again := true; again; {
		l.lockAppend()
		if err = l.writable(); err == nil && l.active.Size() > 0 {
			err = l.mayRollLocked()
			if err == nil {
				err = l.rollLocked(l.logEnd.Load(), l.o.Now().UnixMilli(), 0)
			}
		}
		l.appendMu.Unlock()
		again, err = l.again(context.Background(), err)
	}
	if err != nil {
		return l.refused(err)
	}
	return nil
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

// releasePrepared gives the room of the prepared segment back, for what makes
// more room. maintainMu is held.
func (l *Log) releasePrepared() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if !l.prepared {
		return nil
	}
	l.prepared = false
	return segment.Unprepare(l.env)
}

// sealAll seals the segments that are rolled now, oldest first, with maintainMu
// held; those that are rolled meanwhile are for the next time, and so are those
// that the journal does not hold whole yet: it may wait for maintainMu. On a
// full disk it gives ErrNoSpace and can be called again.
func (l *Log) sealAll() error {
	l.appendMu.Lock()
	due := slices.Clone(l.sealing)
	l.appendMu.Unlock()
	settled := l.settled()
	for _, next := range due {
		if next.end > settled.next {
			break
		}
		if err := l.seal(next); err != nil {
			return err
		}
		l.appendMu.Lock()
		l.sealing = slices.Delete(l.sealing, 0, 1)
		l.unsealed.Add(-1)
		l.appendMu.Unlock()
	}
	return nil
}

// seal makes a rolled segment whole on the device: the log up to its end,
// then its indexes, then the snapshot, which is never ahead of the synced log.
func (l *Log) seal(s sealing) error {
	l.flushMu.Lock()
	err := l.flushLocked()
	if err == nil {
		err = s.segment.Trim()
	}
	l.unlockFlush()
	if err == nil {
		err = s.segment.Seal()
	}
	if err == nil {
		// The recovery point may be behind this segment already, so that
		// recovery would believe an older index file of it.
		err = l.o.FS.SyncDir(l.o.Dir)
	}
	if errors.Is(err, ErrNoSpace) && l.latched() == nil {
		return l.refused(err)
	}
	if err == nil && s.snapshot != nil {
		// Without room the log does without this one, as it does when rolls
		// follow each other quickly.
		if err = l.writeSnapshot(s.snapshot, s.end); errors.Is(err, ErrNoSpace) {
			err = nil
		}
	}
	if err != nil && l.latched() == nil {
		err = l.latch("seal a segment of", err)
	}
	if err != nil {
		return l.refused(err)
	}
	return nil
}

// snapshotPiece is how many producers are copied under the append lock at once.
const snapshotPiece = 512

// snapshotsKept is how many snapshots stay at least: the newest, and the one
// before in case the newest is damaged.
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
	if plant.Enabled && plant.Is(plant.SnapshotAhead) {
		file = l.table.AppendSnapshot(nil)
	}
	producerstate.Seal(file)
	return l.storeSnapshot(file, offset)
}

func (l *Log) storeSnapshot(file []byte, offset int64) error {
	path := l.snapshotPath(offset)
	if err := vfs.Replace(l.o.FS, path, file); err != nil {
		// What a full disk has of it takes room; a leftover does no harm.
		_ = l.o.FS.Remove(path + ".tmp")
		return segment.NoSpace(err)
	}
	i, found := slices.BinarySearch(l.snapshots, offset)
	if !found {
		l.snapshots = slices.Insert(l.snapshots, i, offset)
	}
	for _, at := range l.spareSnapshots() {
		if err := l.removeSnapshot(at); err != nil {
			return err
		}
		l.snapshots = slices.DeleteFunc(l.snapshots, func(s int64) bool { return s == at })
	}
	return nil
}

// spareSnapshots are the snapshots that are not needed: all but the newest two,
// and the newest from which recovery (it starts at the recovery point) or a
// truncation (it ends at or above the high watermark) would go on. One from
// before the head of the log is of no use to them; where there is none between,
// it is the oldest behind: nobody has the batches any more that came before it.
func (l *Log) spareSnapshots() (spare []int64) {
	return spareOf(l.snapshots, l.view.Load().segments[0].Base, min(l.recoveryPoint, l.truncatedFrom()))
}

// truncatedFrom is where a truncation may end at the earliest, now and after a
// crash. maintainMu is held.
func (l *Log) truncatedFrom() int64 {
	highWatermark := l.highWatermark.Load()
	if l.o.Replicated { // what completed above it is unstable after a crash
		return min(highWatermark, l.markRecorded)
	}
	return highWatermark
}

func spareOf(snapshots []int64, head, needed int64) (spare []int64) {
	first, _ := slices.BinarySearch(snapshots, head)
	after, _ := slices.BinarySearch(snapshots, needed+1)
	keep := after - 1
	if head > 0 {
		keep = max(keep, first)
	}
	for i, at := range snapshots[:max(len(snapshots)-snapshotsKept, 0)] {
		if i != keep {
			spare = append(spare, at)
		}
	}
	return spare
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

// snapshotNow writes a snapshot at the log end, or at the last sealed one if
// appends are too quick. maintainMu is held.
func (l *Log) snapshotNow() error {
	if err := l.sealAll(); err != nil {
		return err
	}
	l.appendMu.Lock()
	if len(l.sealing) > 0 { // with a snapshot of its own under way
		base := l.sealing[0].segment.Base
		l.appendMu.Unlock()
		return l.snapshotAt(base)
	}
	end := l.logEnd.Load()
	if settled := l.settled(); settled.next < end {
		l.appendMu.Unlock()
		return l.snapshotAt(settled.next)
	}
	s := l.table.BeginSnapshot()
	l.snapshotting = true // a roll meanwhile makes none
	l.appendMu.Unlock()
	err := l.flush()
	if err == nil {
		err = l.writeSnapshot(s, end)
	}
	l.appendMu.Lock()
	s.Discard()
	l.snapshotting = false
	l.appendMu.Unlock()
	if err != nil {
		return fmt.Errorf("snapshot of producers at offset %d: %w", end, err)
	}
	return nil
}

// snapshotAt writes a snapshot at an offset below the log end, from an older
// one and the log. maintainMu is held, and all below offset is on the device.
func (l *Log) snapshotAt(offset int64) error {
	p := &loadPlan{listing: segment.SnapshotsOnly(l.o.Dir, l.snapshots)}
	table, at, err := l.newestSnapshot(p, l.view.Load().segments[0].Base, offset)
	if err != nil {
		return err
	}
	if err := l.replay(table, at, offset, ignoreCompleted); err != nil {
		return err
	}
	return l.storeSnapshot(table.AppendSnapshot(nil), offset)
}
