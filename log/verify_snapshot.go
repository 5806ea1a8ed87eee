package log

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/vfs"
)

// readSnapshot reads a snapshot; nil if it cannot be used, which is told.
func (v *verifier) readSnapshot(offset int64) ([]producerstate.Info, *producerstate.Table) {
	path := v.snapshotPath(offset)
	b, err := vfs.ReadFile(v.o.FS, path, snapshotMax)
	if err == nil {
		var infos []producerstate.Info
		var table *producerstate.Table
		if infos, table, err = parseSnapshot(b); err == nil {
			return infos, table
		}
	}
	if errors.Is(err, fs.ErrNotExist) && !v.o.Clean {
		v.replay.removed = true // meanwhile: the directory is in use
		return nil, nil
	}
	v.find(Finding{v.must(offset, SeverityWarning), FindingSnapshot, path, -1, offset, fmt.Sprintf("the snapshot cannot be read: %v", err)})
	return nil, nil
}

func parseSnapshot(b []byte) ([]producerstate.Info, *producerstate.Table, error) {
	table, err := producerstate.LoadSnapshot(producerstate.Options{}, b, 0, 0)
	if err != nil {
		return nil, nil, err
	}
	infos, err := producerstate.ReadSnapshot(b)
	if infos == nil {
		infos = []producerstate.Info{}
	}
	return infos, table, err
}

// snapshot compares the snapshot at offset with the state there.
func (r *replay) snapshot(v *verifier, offset int64, last bool) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	infos, table := v.readSnapshot(offset)
	if infos == nil {
		return nil
	}
	r.newest = offset
	if r.unknown(offset) {
		return nil // it is of a place that was not seen
	}
	c := snapshotCheck{v: v, r: r, offset: offset, name: v.snapshotPath(offset), last: last}
	if c.compare(infos, table); c.differs || !r.complete {
		r.adopt(table)
	}
	return nil
}

// snapshotCheck compares one snapshot with the replayed state.
type snapshotCheck struct {
	v       *verifier
	r       *replay
	offset  int64
	name    string
	last    bool // it stands at the log end
	differs bool // some producer does
	expired int
}

// compare tells of every producer that snapshot and replay do not agree on.
func (c *snapshotCheck) compare(infos []producerstate.Info, table *producerstate.Table) {
	for i := range infos {
		c.producer(&infos[i])
	}
	for e := range c.r.table.All() {
		if _, known := table.Info(e.Producer.ID); known {
			continue
		}
		if e.TxnFirst >= 0 {
			c.complain(c.last, "producer %d has an open transaction from offset %d, the snapshot does not know the producer", e.Producer.ID, e.TxnFirst)
			continue
		}
		c.expired++
	}
	if c.expired > 0 && c.r.complete && !c.v.compacted && c.v.memoryEnd < 0 {
		c.v.find(Finding{SeverityNote, FindingSnapshot, c.name, -1, c.offset, fmt.Sprintf("%d producers of the log are not in the snapshot: they were idle, and expired", c.expired)})
	}
}

// complain tells of a contradiction; unless certain, compaction explains it.
func (c *snapshotCheck) complain(certain bool, format string, args ...any) {
	c.differs = true
	f := Finding{SeverityDamage, FindingSnapshot, c.name, -1, c.offset, fmt.Sprintf(format, args...)}
	if certain {
		c.v.find(f)
	} else {
		c.v.findUnlessCompacted(f)
	}
}

// producer compares what the snapshot says of one producer.
func (c *snapshotCheck) producer(s *producerstate.Info) {
	id := s.Producer.ID
	if s.LastOffset >= c.offset || s.TxnFirst >= c.offset {
		c.complain(true, "producer %d has last offset %d and an open transaction from %d, at or behind the snapshot's offset", id, s.LastOffset, s.TxnFirst)
		return
	}
	e, known := c.r.table.Info(id)
	e.Batches = min(e.Batches, 1)
	switch {
	case known && e == *s || !known && c.beforeReplay(s):
	case !known:
		// What is gone may have expired since; the last batch of a producer
		// that is known at the log end is kept by compaction.
		c.complain(c.last && s.Batches > 0, "producer %d with last offset %d is not in the log", id, s.LastOffset)
	case c.explained(s, &e):
	default:
		newer := e.Producer.Epoch == s.Producer.Epoch && e.Batches > 0 && e.LastOffset > s.LastOffset
		older := c.last && s.Batches > 0 && e.LastOffset != s.LastOffset
		moved := e.Producer.Epoch == s.Producer.Epoch && s.LastSequence >= 0 && e.LastSequence == s.LastSequence && e.LastOffset != s.LastOffset
		c.complain(newer || older || moved, "producer %d: the snapshot says %s, the log says %s", id, describe(s), describe(&e))
	}
}

// beforeReplay tells whether all that the snapshot knows of a producer may lie
// before what was replayed.
func (c *snapshotCheck) beforeReplay(s *producerstate.Info) bool {
	return !c.r.complete && (s.Batches == 0 || c.r.unknown(s.LastOffset))
}

// explained tells whether a difference comes from what happened before the
// replay began, or from a producer that expired and came back.
func (c *snapshotCheck) explained(s, e *producerstate.Info) bool {
	equal := *e
	if s.CoordinatorEpoch == -1 || e.CoordinatorEpoch == -1 && !c.r.complete {
		equal.CoordinatorEpoch = s.CoordinatorEpoch
	}
	if s.TxnFirst >= 0 && c.r.unknown(s.TxnFirst) && (e.TxnFirst >= 0 || e.Batches == 0) {
		equal.TxnFirst = s.TxnFirst
	}
	if e.Batches == 0 && s.Batches > 0 && c.r.unknown(s.LastOffset) {
		equal.Batches, equal.LastOffset, equal.LastSequence, equal.OffsetDelta = s.Batches, s.LastOffset, s.LastSequence, s.OffsetDelta
	}
	return equal == *s
}

func describe(i *producerstate.Info) string {
	return fmt.Sprintf("epoch %d, last sequence %d at offset %d (batch of %d), timestamp %d, coordinator epoch %d, open transaction from %d",
		i.Producer.Epoch, i.LastSequence, i.LastOffset, i.OffsetDelta+1, i.LastTimestamp, i.CoordinatorEpoch, i.TxnFirst)
}
