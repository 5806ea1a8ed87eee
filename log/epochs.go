package log

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// EpochsName is Kafka's name of the file that holds the leader epochs.
const EpochsName = "leader-epoch-checkpoint"

// epochCache maps leader epochs to the offsets at which they began: both
// strictly increasing. Its file is a cache of what the batches say, but for
// epochs that began without a batch.
type epochCache struct {
	mu      sync.Mutex // leaf
	entries []checkpoint.EpochEntry
	dirty   bool // the file lacks something

	newest atomic.Pointer[checkpoint.EpochEntry] // the last of entries, nil if there are none
}

func (c *epochCache) latest() (checkpoint.EpochEntry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) == 0 {
		return checkpoint.EpochEntry{}, false
	}
	return c.entries[len(c.entries)-1], true
}

// changed ends a change.
func (c *epochCache) changed() {
	n := len(c.entries)
	if n == 0 {
		c.newest.Store(nil)
	} else if old := c.newest.Load(); old == nil || *old != c.entries[n-1] {
		newest := c.entries[n-1]
		c.newest.Store(&newest)
	}
	c.mu.Unlock()
}

// appended is the epoch that a leader stamps into a batch at offset: the
// latest, or 0 from here on if there is none.
func (c *epochCache) appended(offset int64) (int32, error) {
	if newest := c.newest.Load(); newest != nil {
		return newest.Epoch, nil
	}
	c.assign(0, offset)
	return 0, nil
}

// assign enters that epoch begins at offset. Entries that contradict it are
// dropped from the tail; an epoch that began already stays.
func (c *epochCache) assign(epoch int32, offset int64) {
	c.mu.Lock()
	defer c.changed()
	if epoch < 0 || offset < 0 {
		return
	}
	n := len(c.entries)
	if n > 0 && c.entries[n-1].Epoch == epoch && c.entries[n-1].Start <= offset {
		return
	}
	for n > 0 && (c.entries[n-1].Epoch >= epoch || c.entries[n-1].Start >= offset) {
		n--
	}
	// A new slice: Epochs may have handed the old one out.
	c.entries = append(c.entries[:n:n], checkpoint.EpochEntry{Epoch: epoch, Start: offset})
	c.dirty = true
}

// learn enters what a batch that stands in the log says, at loading. What the
// file says stays as far as the batch does not contradict it: also epochs that
// began later, without a batch.
func (c *epochCache) learn(epoch int32, offset int64) {
	c.mu.Lock()
	defer c.changed()
	i := 0
	for i < len(c.entries) && c.entries[i].Start <= offset {
		i++
	}
	if epoch < 0 || i > 0 && c.entries[i-1].Epoch >= epoch {
		return
	}
	after := i
	for after < len(c.entries) && c.entries[after].Epoch <= epoch {
		after++
	}
	if i > 0 && c.entries[i-1].Start == offset {
		i--
	}
	c.entries = slices.Concat(c.entries[:i], []checkpoint.EpochEntry{{Epoch: epoch, Start: offset}}, c.entries[after:])
	c.dirty = true
}

// scanEpochs learns the leader epochs from all batches, for a log whose file of
// them is lost.
func (l *Log) scanEpochs() error {
	for _, s := range l.view.Load().segments {
		h, err := s.Acquire()
		if err != nil {
			return err
		}
		scan := segment.NewScanner(h.File, 0, s.Size(), false)
		for scan.Next() {
			l.epochs.learn(scan.Batch().LeaderEpoch(), scan.Batch().BaseOffset())
		}
		err = damaged(s, scan.Err())
		scan.Close()
		if err := errors.Join(err, h.Release()); err != nil {
			return err
		}
	}
	return nil
}

// emptyEpochs tells whether the file of leader epochs has none although the
// newest batches carry one: then it was lost.
func (l *Log) emptyEpochs(p *loadPlan) (bool, error) {
	if !p.epochsEmpty {
		return false, nil
	}
	for _, f := range slices.Backward(p.kept) {
		if f.Size < batch.HeaderSize {
			continue
		}
		file, err := l.o.FS.Open(f.Paths[segment.KindLog])
		if err != nil {
			return false, err
		}
		var head [batch.HeaderSize]byte
		_, err = file.ReadAt(head[:], 0)
		return batch.Batch(head[:]).LeaderEpoch() >= 0, errors.Join(err, file.Close())
	}
	return false, nil
}

// truncateEnd drops epochs that began at or after offset.
func (c *epochCache) truncateEnd(offset int64) {
	c.mu.Lock()
	defer c.changed()
	n := len(c.entries)
	for n > 0 && c.entries[n-1].Start >= offset {
		n--
	}
	if n < len(c.entries) {
		c.entries, c.dirty = c.entries[:n:n], true
	}
}

// restore undoes a change.
func (c *epochCache) restore(entries []checkpoint.EpochEntry) {
	c.mu.Lock()
	defer c.changed()
	c.entries, c.dirty = entries, true
}

// truncateStart drops epochs that ended at or before offset; the one that
// holds it begins there.
func (c *epochCache) truncateStart(offset int64) {
	c.mu.Lock()
	defer c.changed()
	n := 0
	for n < len(c.entries) && c.entries[n].Start <= offset {
		n++
	}
	if n == 0 || n == 1 && c.entries[0].Start == offset {
		return
	}
	kept := []checkpoint.EpochEntry{{Epoch: c.entries[n-1].Epoch, Start: offset}}
	c.entries, c.dirty = append(kept, c.entries[n:]...), true
}

// write makes the file say what the cache says, durably, if it does not.
func (c *epochCache) write(fsys vfs.FS, dir string) error {
	c.mu.Lock()
	entries, dirty := c.entries, c.dirty
	c.dirty = false
	c.mu.Unlock()
	if !dirty {
		return nil
	}
	name := filepath.Join(dir, EpochsName)
	err := vfs.Replace(fsys, name, checkpoint.AppendEpochs(nil, entries))
	if err != nil {
		_ = fsys.Remove(name + ".tmp") // it may take room; a leftover does no harm
		c.mu.Lock()
		c.dirty = true
		c.mu.Unlock()
	}
	return segment.NoSpace(err)
}

// EpochEnd is the answer to where a leader epoch ends: Epoch is the greatest
// known one at or below the asked one and EndOffset where it ends; both -1 if
// unknown.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// EpochEnd tells where a leader epoch ends in this log.
func (l *Log) EpochEnd(epoch int32) EpochEnd {
	end := l.logEnd.Load()
	l.epochs.mu.Lock()
	defer l.epochs.mu.Unlock()
	entries := l.epochs.entries
	if epoch < 0 || len(entries) == 0 || epoch > entries[len(entries)-1].Epoch {
		return EpochEnd{Epoch: -1, EndOffset: -1}
	}
	if epoch == entries[len(entries)-1].Epoch {
		return EpochEnd{Epoch: epoch, EndOffset: end}
	}
	if epoch < entries[0].Epoch {
		return EpochEnd{Epoch: epoch, EndOffset: entries[0].Start}
	}
	i := 0
	for entries[i+1].Epoch <= epoch {
		i++
	}
	return EpochEnd{Epoch: entries[i].Epoch, EndOffset: entries[i+1].Start}
}

// EpochFor is the leader epoch of an offset, -1 if unknown.
func (l *Log) EpochFor(offset int64) int32 {
	l.epochs.mu.Lock()
	defer l.epochs.mu.Unlock()
	epoch := int32(-1)
	for _, e := range l.epochs.entries {
		if e.Start > offset {
			break
		}
		epoch = e.Epoch
	}
	return epoch
}

// Epochs are the known leader epochs and where they began, ascending. The
// slice must not be modified.
func (l *Log) Epochs() []checkpoint.EpochEntry {
	l.epochs.mu.Lock()
	defer l.epochs.mu.Unlock()
	return l.epochs.entries
}

// BeginEpoch starts a leader epoch at the log end, durably: batches appended
// from now on carry it. Beginning the current one again changes nothing; an
// older one is ErrStaleLeaderEpoch. After ErrNoSpace the epoch is in force
// here, and beginning it again makes it durable.
func (l *Log) BeginEpoch(epoch int32) error {
	if err := l.writable(); err != nil {
		return err
	}
	l.lockAppend()
	latest, ok := l.epochs.latest()
	if ok && epoch < latest.Epoch || epoch < 0 {
		l.appendMu.Unlock()
		return ErrStaleLeaderEpoch
	}
	if err := l.writable(); err != nil {
		l.appendMu.Unlock()
		return err
	}
	begin := l.upTo()
	l.epochs.assign(epoch, begin.offset)
	l.appendMu.Unlock()
	// An epoch that begins behind the end of what a crash leaves is forgotten.
	if err := l.waitDurable(context.Background(), begin); err != nil {
		return err
	}
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if err := l.epochs.write(l.o.FS, l.o.Dir); err != nil {
		return l.unwritten("write the leader epochs of", err)
	}
	return nil
}
