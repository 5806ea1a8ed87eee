package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// memoryID is what names a topic in journal and tail: its id, or if Kafka gave
// it none, a hash of its name that is no id.
func memoryID(name string, id checkpoint.TopicID) (key [16]byte) {
	if id != (checkpoint.TopicID{}) {
		return id
	}
	binary.BigEndian.PutUint64(key[8:], xxhash.Sum64String(name))
	return key
}

// journalFull asks the maintenance loop for the checkpoints that free half of
// the journal.
func (c *Catalog) journalFull() {
	select {
	case c.full <- struct{}{}:
	default:
	}
}

// freeJournal makes the checkpoints that free the half of the journal that is
// due, if one is. What cannot be checkpointed because its partition is latched
// is set aside. On a full disk the half stays as it is, to be tried again; any
// other failure ends the journal, and with it appends of the whole store.
func (c *Catalog) freeJournal(ctx context.Context) error {
	j := c.backing.running()
	if j == nil || c.drained.Load() {
		return nil
	}
	for {
		// Nor is anything set aside then: its last run may be in the page cache only.
		if err := j.Err(); err != nil {
			return err
		}
		handles, mark, due := j.Due()
		if !due {
			return nil
		}
		list, lost := c.owners(handles)
		if plant.Enabled && plant.Is(plant.HalfReused) {
			list = nil
		}
		failed := c.checkpointSome(ctx, list)
		var errs error
		for tp, err := range failed {
			c.mu.RLock()
			p := c.partitions[tp]
			c.mu.RUnlock()
			if p != nil && p.log != nil && p.log.Failed() == nil && !errors.Is(err, log.ErrClosed) {
				errs = errors.Join(errs, err)
				continue
			}
			lost = append(lost, tp)
		}
		if errs == nil {
			errs = c.rescue(lost)
		}
		if errs == nil && c.unsure.Load() {
			// What it holds of a topic whose deletion is in doubt may be needed.
			return fmt.Errorf("free half of the journal: %w: the manifest is in doubt", log.ErrOutcomeUnknown)
		}
		if errs != nil {
			switch {
			case errors.Is(segment.NoSpace(errs), log.ErrNoSpace):
				j.Block()
			case ctx.Err() == nil:
				errs = j.Fail("free half of the journal", errs)
			}
			return errs
		}
		if err := j.Free(mark); err != nil {
			return err
		}
	}
}

// owners finds the partitions that frames belong to: those that serve, and
// those that do not and so cannot write what the journal holds of them. Frames
// of deleted topics belong to nobody.
func (c *Catalog) owners(handles []*journal.Handle) (serving []*partition, lost []topic.Partition) {
	wanted := make(map[journal.Key]bool, len(handles))
	for _, h := range handles {
		wanted[h.Key()] = true
	}
	for _, p := range c.all() {
		if !wanted[c.keyOf(p.Partition)] {
			continue
		}
		if p.log != nil && p.log.Failed() == nil {
			serving = append(serving, p)
		} else {
			lost = append(lost, p.Partition)
		}
	}
	return serving, lost
}

func (c *Catalog) keyOf(tp topic.Partition) journal.Key {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return journal.Key{Topic: memoryID(tp.Topic, c.topics[tp.Topic].id), Partition: tp.Index}
}
