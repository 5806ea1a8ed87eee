package log

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/tail"
)

// Backing is what the logs of a store share, so that appends land in memory
// and still survive: the commit journal with a pool of plain memory for logs
// at DurabilityFsync, the mapped tail for those at DurabilityOS. Its methods
// are called before the first append of a log, and may work on files.
type Backing interface {
	// Journal starts the journal if it does not run.
	Journal() (*journal.Journal, error)
	Pool() *tail.Pool
	// Slots opens the mapped tail if it is not open; nil where the directory
	// lies on a file system that it cannot be trusted on.
	Slots() (*tail.Slots, error)
	// Help does, of a store that works by hand, what would be done at the side
	// for an append that waits for the journal or for memory.
	Help()
	// FreeJournal is the part of Help that flushes nothing.
	FreeJournal()
}

// largeBytes is from where an append at DurabilityFsync goes straight into the
// segment, and the journal only refers to it: writing it twice would cost more
// than the second flush.
const largeBytes = 256 << 10

// writeBackBytes is in what pieces memory is written into segments.
const writeBackBytes = 256 << 10

// backing is what appends of a log go through at its present level. It never
// changes.
type backing struct {
	source  tail.Source      // nil: straight to the file
	journal *journal.Journal // nil: flushes are the log's own
	handle  *journal.Handle
}

// direct is the backing of a log without any.
var direct = &backing{}

// seat is where an append goes.
type seat uint8

const (
	seatFile   seat = iota // one write into the segment
	seatMemory             // a copy
	seatSynced             // written and synced before it is published
)

// errNoMemory says that the append has to wait for memory; nothing happened.
var errNoMemory = errors.New("log: no memory for the append")

// errUnbacked says that the level changed, or that this is the first append.
var errUnbacked = errors.New("log: not backed")

// back makes the backing for the present level, before the first append at it.
func (l *Log) back() error {
	if l.o.Backing == nil {
		l.backed.CompareAndSwap(nil, direct)
		return nil
	}
	b := &backing{}
	if l.level() == DurabilityOS {
		slots, err := l.o.Backing.Slots()
		if err != nil {
			return err
		}
		if slots != nil {
			b.source = slots
		}
	} else {
		j, err := l.o.Backing.Journal()
		if err != nil {
			return err
		}
		b.journal, b.source = j, l.o.Backing.Pool()
	}
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.backed.Load() != nil || (l.level() == DurabilityOS) != (b.journal == nil) {
		return nil // somebody was quicker, or the level changed: the caller looks again
	}
	if err := l.writable(); err != nil {
		return err
	}
	if b.journal != nil {
		b.handle = b.journal.Join(l.o.TopicID, l.o.Partition.Index, member{l})
		l.frontierMu.Lock()
		l.journaled = reach{l.active.Base, l.active.Size(), l.logEnd.Load()}
		l.frontierMu.Unlock()
	}
	l.backed.Store(b)
	return nil
}

// journal is the journal that the log's appends go through, nil if none.
func (l *Log) journal() *journal.Journal {
	if b := l.backed.Load(); b != nil {
		return b.journal
	}
	return nil
}

// settleJournal lets the journal take what is queued. No lock of the log may be
// held that a checkpoint needs.
func (l *Log) settleJournal(ctx context.Context, j *journal.Journal) error {
	if !l.o.Workers.manual {
		return j.Flush(ctx)
	}
	for runs := int64(-1); !j.Settled() && j.Err() == nil && j.Stats().Runs != runs; {
		runs = j.Stats().Runs
		l.o.Backing.Help()
	}
	if j.Settled() {
		return j.Err()
	}
	return l.journalRoom(j)
}

// journalRoom makes room in the journal of a store that works by hand, where
// nobody else would.
func (l *Log) journalRoom(j *journal.Journal) error {
	l.o.Backing.FreeJournal()
	if err := j.Err(); err != nil {
		return err
	}
	if _, _, due := j.Due(); due {
		return fmt.Errorf("%w: the journal is full", ErrNoSpace)
	}
	return nil
}

// lockAppend locks appendMu once no append is under way outside of it.
func (l *Log) lockAppend() {
	l.enterAppend(false)
}

// enterAppend is lockAppend; one that only tries is turned away, without the
// lock, while others are kept out.
func (l *Log) enterAppend(try bool) bool {
	l.appendMu.Lock()
	for l.busy {
		if try {
			l.appendMu.Unlock()
			return false
		}
		l.idle.Wait()
	}
	return true
}

// Freeze keeps appends out until Thaw; they wait.
func (l *Log) Freeze() {
	l.lockAppend()
	l.busy = true
	l.appendMu.Unlock()
}

// Thaw ends a Freeze.
func (l *Log) Thaw() {
	l.appendMu.Lock()
	l.busy = false
	l.idle.Broadcast()
	l.appendMu.Unlock()
}

// seatLocked finds where an append of size bytes goes.
func (l *Log) seatLocked(offset int64, size int) (seat, error) {
	b := l.backed.Load()
	switch {
	case b == nil:
		return 0, errUnbacked
	case b.source == nil:
		return seatFile, nil
	case b.journal != nil && size > min(largeBytes, int(b.journal.BatchMax()), b.source.ChunkMax()):
		return seatSynced, nil
	case size > b.source.ChunkMax():
		return seatFile, nil
	case l.active.Seat(b.source, offset, size):
		if !l.holds {
			l.holds = true
			l.o.Workers.holds(l)
		}
		return seatMemory, nil
	case b.journal != nil:
		return 0, errNoMemory
	}
	l.o.Workers.pressed()
	return seatFile, nil
}

// waitMemory waits until there may be memory again.
func (l *Log) waitMemory(ctx context.Context) error {
	b := l.backed.Load()
	if b == nil || b.source == nil {
		return nil
	}
	l.metrics.memoryWaits.Add(1)
	l.o.Workers.memory.waiting.Add(1)
	defer l.o.Workers.memory.waiting.Add(-1)
	freed := b.source.Freed()
	if b.journal != nil {
		b.journal.TryFlush() // what it does not hold cannot be written back
	}
	l.o.Workers.pressed()
	if l.o.Workers.manual {
		return l.helpMemory(freed)
	}
	var stuck <-chan struct{}
	if b.journal != nil {
		stuck = b.journal.Stuck()
	}
	select {
	case <-freed:
		return l.latched()
	case <-stuck:
		return fmt.Errorf("%w: memory for appends is used up, and the journal, which is full, cannot take it", ErrNoSpace)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// helpMemory is waitMemory of a store that works by hand. After a shortage the
// journal has to be emptied before it takes what memory holds, and that has to be
// written back then: one step of help each.
func (l *Log) helpMemory(freed <-chan struct{}) error {
	for range 3 {
		l.o.Workers.pressed()
		l.o.Backing.Help()
		select {
		case <-freed:
			return l.latched()
		default:
		}
	}
	return fmt.Errorf("%w: memory for appends is used up", ErrNoSpace)
}

// storeLocked puts batches, whose seat was found, behind the published bytes.
func (l *Log) storeLocked(at seat, bufs [][]byte) error {
	switch at {
	case seatMemory:
		l.active.Hold(bufs, 0)
		return nil
	case seatSynced:
		return l.writeSynced(bufs)
	}
	return l.active.Write(bufs)
}

// writeSynced writes and syncs a large append before anything tells of it,
// with appendMu released and appends kept out meanwhile.
func (l *Log) writeSynced(bufs [][]byte) error {
	s := l.active
	l.busy, l.writing = true, true
	l.appendMu.Unlock()
	err := s.Write(bufs)
	if err == nil {
		l.flushMu.Lock() // one sync at a time a file
		if plant.Enabled && plant.Is(plant.LargeUnsynced) {
			err = nil
		} else if err = s.Datasync(); err == nil && l.dirUnsync.Swap(false) {
			err = l.o.FS.SyncDir(l.o.Dir)
		}
		l.unlockFlush()
	}
	l.appendMu.Lock()
	l.busy, l.writing = false, false
	l.idle.Broadcast()
	return err
}

// enqueueLocked hands the stored batch behind the published bytes to the
// journal, before readers see it.
func (l *Log) enqueueLocked(at seat, size int, first, next int64, crc uint32) {
	b := l.backed.Load()
	if b.journal == nil {
		return
	}
	from := l.active.Size()
	if at == seatSynced {
		b.handle.PublishLarge(l.active.Base, from, int64(size), first, next, crc)
	} else {
		b.handle.Publish(l.active.Base, from, from+int64(size), first, next)
	}
}

// reach is how far something goes in a log: to a byte of a segment, and the
// offset there.
type reach struct{ segment, pos, next int64 }

// settled is how far the files may be brought up, and a flush of them reaches:
// in a journaled log as far as the journal, else to the log end.
func (l *Log) settled() reach {
	if l.journal() == nil {
		return reach{segment: -1, next: l.logEnd.Load()}
	}
	l.frontierMu.Lock()
	defer l.frontierMu.Unlock()
	return l.journaled
}

// member is the log as the journal sees it.
type member struct{ *Log }

// Pieces is the memory of queued bytes.
func (m member) Pieces(dst [][]byte, segment, from, to int64) [][]byte {
	v := m.view.Load()
	return v.segments[v.find(segment)].Pieces(dst, from, to)
}

// Durable moves the durable frontier.
func (m member) Durable(segment, pos, next int64) {
	m.frontierMu.Lock()
	m.journaled = reach{segment, pos, next}
	m.frontierMu.Unlock()
	m.flushed(next)
	m.writeIfDue()
	m.o.Workers.flushed()
	if m.unsealed.Load() > 0 {
		m.o.Workers.submit(m.Log)
	}
}

// Fail latches the log with its store.
func (m member) Fail(err error) { _ = m.latch("journal", err) }

// writeIfDue asks the workers to write memory back, once there is a piece of
// it.
func (l *Log) writeIfDue() {
	if l.o.Workers == nil || l.writeQueued.Load() {
		return
	}
	segments := l.view.Load().segments
	s := segments[len(segments)-1]
	if s.Unwritten(s.Size()) >= writeBackBytes && l.writeQueued.CompareAndSwap(false, true) {
		l.o.Workers.writeDue(l)
	}
}

// writeBack writes what is in memory, and may be written, into the segments;
// whole pieces only unless all is asked for.
func (l *Log) writeBack(all bool) error {
	l.writeQueued.Store(false)
	if l.closed.Load() {
		return ErrClosed
	}
	if err := l.latched(); err != nil {
		return err
	}
	at, atLeast := l.settled(), writeBackBytes
	if all {
		atLeast = 0
	}
	v := l.view.Load()
	for i := max(v.find(l.filed.Load()), 0); i < len(v.segments); i++ {
		s := v.segments[i]
		below := s.Size()
		if at.segment >= 0 {
			if s.Base > at.segment {
				break
			}
			if s.Base == at.segment {
				below = at.pos
			}
		}
		if err := s.WriteBack(below, atLeast); err != nil {
			return l.latchAndTell("write", err)
		}
	}
	return nil
}

// Unseat writes everything back that may be, and gives the memory back if that
// was all.
func (l *Log) Unseat() error {
	if err := l.writeBack(true); err != nil {
		return err
	}
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if !l.closed.Load() && !l.writing && l.active.Unseat() && l.unsealed.Load() == 0 {
		l.holds = false
		l.o.Workers.released(l)
	}
	return nil
}
