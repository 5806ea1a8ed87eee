package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// DeleteTopic deletes a topic with all its records and producer state. It is
// gone for good once the manifest is written; whoever waits on one of its logs
// is woken. Files that cannot be removed now are removed later (an event says
// so), and always before a topic of that name is made again.
//
// Errors: ErrUnknownPartition, ErrInternalTopic, those of the file system;
// then the topic is still there. But with log.ErrOutcomeUnknown it is gone from
// this store, and for good once the manifest can be written (it is tried with
// every tick of maintenance, the next change, and Close); a crash before that
// may bring it back as it was.
func (c *Catalog) DeleteTopic(ctx context.Context, name string) error {
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	if err := c.deleteLocked(ctx, name); err != nil {
		return fmt.Errorf("delete topic %q: %w%s", name, err, advice(err))
	}
	return nil
}

func (c *Catalog) deleteLocked(ctx context.Context, name string) error {
	if err := errors.Join(c.changeable(), ctx.Err()); err != nil {
		return err
	}
	if _, found := c.manifest.find(name); !found {
		return ErrUnknownPartition
	}
	if (topic.Partition{Topic: name}).Internal() {
		return fmt.Errorf("%w: it holds the state of transactions or groups", ErrInternalTopic)
	}
	next := c.manifest.without(name)
	doubt := c.commit(next)
	if doubt != nil && !c.unsure.Load() {
		return doubt
	}
	// In doubt it goes forward: nothing may be acknowledged to a topic that a
	// crash may take, and this is what the caller wants.
	c.manifest = next
	c.mu.Lock()
	delete(c.topics, name)
	var gone []*partition
	for tp, p := range c.partitions {
		if tp.Topic == name {
			delete(c.partitions, tp)
			if p.log != nil {
				gone = append(gone, p)
			}
		}
	}
	c.roster.remove(name)
	c.leaving = gone // there was none: changeable settled what was in doubt
	c.mu.Unlock()
	for _, p := range gone {
		p.log.StopAppends()
	}
	if doubt != nil {
		return doubt
	}
	c.abandonLeaving()
	if err := c.finishDeletions(name); err != nil {
		c.event(Event{Kind: EventDeletionPending, File: name, Err: err})
	}
	return nil
}

// abandonLeaving closes the logs of deleted topics, once they cannot come back:
// until then what they have in memory must stay recoverable.
func (c *Catalog) abandonLeaving() {
	if len(c.leaving) == 0 {
		return
	}
	var final log.Metrics
	for _, p := range c.leaving {
		// The files go: an error of closing them loses nothing.
		_ = p.log.Abandon()
		c.backing.reclaim(journal.Key{Topic: p.log.TopicID(), Partition: p.Index})
		addCounters(&final, p.log.Metrics())
	}
	c.mu.Lock()
	c.leaving = nil
	c.retireLocked(final)
	c.mu.Unlock()
}

// finishDeletions carries out what the manifest notes, of one topic or ("") of
// all. Every step may be killed and is done again.
func (c *Catalog) finishDeletions(name string) error {
	for _, d := range c.manifest.deletions {
		if name != "" && d.name != name {
			continue
		}
		if err := c.finishDeletion(d); err != nil {
			err = fmt.Errorf("remove deleted topic %q: %w", d.name, err)
			if name != "" {
				return err
			}
			// A topic that cannot be removed keeps no store from opening.
			c.event(Event{Kind: EventDeletionPending, File: d.name, Err: err})
		}
	}
	return nil
}

func (c *Catalog) finishDeletion(d manifestDeletion) error {
	partitions := make([]topic.Partition, d.partitions)
	for i := range partitions {
		partitions[i] = topic.Partition{Topic: d.name, Index: int32(i)}
	}
	for _, tp := range partitions {
		if err := c.setAside(tp, d); err != nil {
			return err
		}
	}
	if err := c.fs.SyncDir(c.dir); err != nil {
		return err
	}
	if _, again := c.manifest.find(d.name); !again { // else Kafka made one of that name
		c.book.drop(partitions)
		if err := c.book.write(c.background, true); err != nil {
			return err
		}
		if err := dropCleaner(c.fs, c.dir, d.name); err != nil {
			return err
		}
	}
	err := sideBySide(len(partitions), c.o.Parallelism, func(i int) error {
		return removeTree(c.fs, filepath.Join(c.dir, deletedName(partitions[i], d.id)))
	})
	if err != nil {
		return err
	}
	if err := c.fs.SyncDir(c.dir); err != nil {
		return err
	}
	return c.commit(c.manifest.deleted(d))
}

// setAside renames the directory of a deleted partition, if it is that
// topic's.
func (c *Catalog) setAside(tp topic.Partition, d manifestDeletion) error {
	found := directory{partition: tp}
	if err := found.inspect(c.fs, c.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if found.contradicts(d.id) {
		return nil
	}
	return c.fs.Rename(filepath.Join(c.dir, tp.String()), filepath.Join(c.dir, deletedName(tp, d.id)))
}

// deletionInPlace tells whether the directory of a deleted partition still has
// its name: its log is as after a crash, and a clean mark would vouch for it.
func (c *Catalog) deletionInPlace() bool {
	for _, d := range c.manifest.deletions {
		for i := range d.partitions {
			found := directory{partition: topic.Partition{Topic: d.name, Index: i}}
			err := found.inspect(c.fs, c.dir)
			if !errors.Is(err, fs.ErrNotExist) && (err != nil || !found.contradicts(d.id)) {
				return true
			}
		}
	}
	return false
}
