package catalog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// commit makes a manifest durable, with changeMu held (or in Open). When that
// fails the old one is put back. If that fails too the change is in doubt: the
// error wraps log.ErrOutcomeUnknown, and settle ends it.
func (c *Catalog) commit(m *manifest) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, ManifestFile)
	if err := vfs.WriteTemp(c.fs, path+".tmp", b); err != nil {
		return fmt.Errorf("write the manifest: %w%s", err, advice(err))
	}
	if err = c.fs.Rename(path+".tmp", path); err == nil {
		err = c.fs.SyncDir(c.dir)
	}
	if err == nil {
		c.manifest = m
		c.unsure.Store(false)
		return nil
	}
	err = fmt.Errorf("write the manifest: %w%s", err, advice(err))
	c.unsure.Store(true)
	if e := c.settle(); e != nil {
		err = fmt.Errorf("%w: %w", log.ErrOutcomeUnknown, err)
	}
	return err
}

// settle ends the doubt of changes that failed: the file says again what
// memory does. changeMu is held.
func (c *Catalog) settle() error {
	if c.unsure.Load() {
		b, err := c.manifest.encode()
		if err == nil {
			err = vfs.Replace(c.fs, filepath.Join(c.dir, ManifestFile), b)
		}
		if err != nil {
			return fmt.Errorf("write the manifest: %w%s", err, advice(err))
		}
		c.unsure.Store(false)
	}
	c.abandonLeaving()
	return nil
}

// changeable is asked before every change of structure; changeMu is held. No
// change is built on one that is in doubt.
func (c *Catalog) changeable() error {
	c.mu.RLock()
	closed := c.closed.Load()
	c.mu.RUnlock()
	switch {
	case closed:
		return log.ErrClosed
	case c.o.ReadOnly:
		return log.ErrReadOnly
	}
	return c.settle()
}

// CreateTopic makes a topic; on return it is durable, empty and takes appends.
// Errors: topic.ErrInvalidName, ErrInvalidConfig, ErrTopicExists,
// ErrInternalTopic for more than one partition of such a topic, those of the
// file system; then there is no topic, and what is left of it is removed later,
// or with log.ErrOutcomeUnknown a crash may bring it, empty, before the
// manifest is written again (with the next tick of maintenance, change, or
// Close).
func (c *Catalog) CreateTopic(ctx context.Context, name string, config TopicConfig) error {
	if config.Partitions == 0 {
		config.Partitions = 1
	}
	err := topic.CheckName(name)
	if err == nil && name == topic.ClusterMetadata {
		err = fmt.Errorf("%w: it is Kafka's own", topic.ErrInvalidName)
	}
	if err == nil {
		err = c.o.validate(config)
	}
	if err == nil && (topic.Partition{Topic: name}).Internal() && config.Partitions != 1 {
		err = fmt.Errorf("%w: made here it has one partition, not %d", ErrInternalTopic, config.Partitions)
	}
	if err != nil {
		return fmt.Errorf("create topic %q: %w", name, err)
	}
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	if err := c.createLocked(ctx, name, config); err != nil {
		return fmt.Errorf("create topic %q: %w%s", name, err, advice(err))
	}
	return nil
}

func (c *Catalog) createLocked(ctx context.Context, name string, config TopicConfig) error {
	if err := errors.Join(c.changeable(), ctx.Err()); err != nil {
		return err
	}
	if _, found := c.manifest.find(name); found {
		return ErrTopicExists
	}
	for _, t := range c.manifest.topics {
		if topic.Collide(t.name, name) {
			return fmt.Errorf("%w: it collides with topic %q, as '.' and '_' are one in Kafka's metrics", topic.ErrInvalidName, t.name)
		}
	}
	if err := c.finishDeletions(name); err != nil {
		return err
	}
	t := manifestTopic{name: name, partitions: int32(config.Partitions), compacted: config.Cleanup&CleanupCompact != 0}
	if _, err := rand.Read(t.id[:]); err != nil {
		return err
	}
	config.Partitions = 0 // it is counted in one place
	t.config = &config
	return c.grow(ctx, t, 0)
}

// AddPartitions makes a topic have total partitions. Errors:
// ErrUnknownPartition, ErrInvalidConfig if it has as many already,
// ErrInternalTopic.
func (c *Catalog) AddPartitions(ctx context.Context, name string, total int) error {
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	if err := c.addLocked(ctx, name, total); err != nil {
		return fmt.Errorf("add partitions to topic %q: %w%s", name, err, advice(err))
	}
	return nil
}

func (c *Catalog) addLocked(ctx context.Context, name string, total int) error {
	if err := errors.Join(c.changeable(), ctx.Err()); err != nil {
		return err
	}
	i, found := c.manifest.find(name)
	if !found {
		return ErrUnknownPartition
	}
	t := c.manifest.topics[i]
	switch {
	case (topic.Partition{Topic: name}).Internal():
		return fmt.Errorf("%w: its number of partitions never changes", ErrInternalTopic)
	case total <= int(t.partitions) || total > PartitionsMax:
		return fmt.Errorf("%w: it has %d partitions, want more than that and at most %d", ErrInvalidConfig, t.partitions, PartitionsMax)
	}
	from := t.partitions
	t.partitions = int32(total)
	return c.grow(ctx, t, from)
}

// grow makes the partitions of a topic from an index on: directories first,
// then the manifest, then the logs.
func (c *Catalog) grow(ctx context.Context, t manifestTopic, from int32) error {
	var members []member
	for i := from; i < t.partitions; i++ {
		members = append(members, member{partition: topic.Partition{Topic: t.name, Index: i}, topic: t})
	}
	if err := c.makeDirs(members); err != nil {
		c.unmakeDirs(members)
		return err
	}
	before := c.manifest
	if err := c.commit(before.with(t)); err != nil {
		if !c.unsure.Load() { // else the file may name them
			c.unmakeDirs(members)
		}
		return err
	}
	for _, m := range members {
		c.book.add(m.partition, log.Points{})
	}
	list, err := c.openMembers(ctx, members)
	if err != nil {
		return errors.Join(err, c.undoGrow(before, t, from, members, err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics[t.name] = t
	c.placeLocked(list...)
	return nil
}

// makeDirs makes the directories of new partitions, durably.
func (c *Catalog) makeDirs(members []member) error {
	err := sideBySide(len(members), c.o.Parallelism, func(i int) error { return c.makeDir(members[i]) })
	if err != nil {
		return err
	}
	return c.fs.SyncDir(c.dir)
}

func (c *Catalog) makeDir(m member) error {
	dir := filepath.Join(c.dir, m.partition.String())
	if err := c.fs.Mkdir(dir, 0o755); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// What an unfinished creation left is taken over; anything else is not.
		segments, e := hasSegments(c.fs, dir)
		if e != nil {
			return e
		}
		if segments {
			return fmt.Errorf("%w: its directory %s holds segments; move it away", ErrTopicExists, dir)
		}
	}
	path := filepath.Join(dir, checkpoint.PartitionMetadataFile)
	if m.topic.id == (checkpoint.TopicID{}) { // Kafka's, and old: its partitions have no such file
		return removeFile(c.fs, path)
	}
	return vfs.Replace(c.fs, path, checkpoint.AppendPartitionMetadata(nil, checkpoint.PartitionMetadata{TopicID: m.topic.id}))
}

// unmakeDirs removes directories without segments, as far as it goes: what
// stays is skipped by Open and taken over by a later creation.
func (c *Catalog) unmakeDirs(members []member) {
	for _, m := range members {
		dir := filepath.Join(c.dir, m.partition.String())
		if segments, err := hasSegments(c.fs, dir); err != nil || segments {
			continue
		}
		_ = removeTree(c.fs, dir)
	}
}

// openMembers opens the logs of new partitions.
func (c *Catalog) openMembers(ctx context.Context, members []member) ([]*partition, error) {
	list := make([]*partition, len(members))
	err := sideBySide(len(list), c.o.Parallelism, func(i int) error {
		l, err := log.Load(c.logOptions(members[i], log.Points{}, false))
		if err != nil {
			return err
		}
		list[i] = &partition{Partition: members[i].partition, log: l}
		_, err = l.Recover(ctx)
		return err
	})
	if err != nil {
		for _, p := range list {
			if p != nil {
				err = errors.Join(err, p.log.Abandon())
			}
		}
		return nil, err
	}
	return list, nil
}

// undoGrow takes partitions back whose logs did not open with cause: a new
// topic is deleted, another is as large as before. If that cannot be written,
// the partitions are there and refuse, and Reopen tries again.
func (c *Catalog) undoGrow(before *manifest, t manifestTopic, from int32, members []member, cause error) error {
	back := before
	if from == 0 {
		back = c.manifest.without(t.name)
	}
	if err := c.commit(back); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.topics[t.name] = t
		for _, m := range members {
			c.placeLocked(&partition{Partition: m.partition, err: cause})
		}
		return fmt.Errorf("take it back: %w", err)
	}
	if from == 0 {
		return c.finishDeletions(t.name)
	}
	for _, m := range members {
		c.book.drop([]topic.Partition{m.partition})
		if err := removeTree(c.fs, filepath.Join(c.dir, m.partition.String())); err != nil {
			return err
		}
	}
	return c.fs.SyncDir(c.dir)
}

// AlterTopic stores a new configuration for a topic, which replaces the one it
// had, and works by it from then on. Partitions must be 0 or what it is.
//
// A new level of durability holds for every append that begins after the
// return. Appends of the topic wait meanwhile; what was appended before is on
// the device before the level changes. If a change of the level ends with
// log.ErrOutcomeUnknown, the partitions refuse until Reopen.
func (c *Catalog) AlterTopic(ctx context.Context, name string, config TopicConfig) error {
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	if err := c.alterLocked(ctx, name, config); err != nil {
		return fmt.Errorf("alter topic %q: %w%s", name, err, advice(err))
	}
	return nil
}

func (c *Catalog) alterLocked(ctx context.Context, name string, config TopicConfig) error {
	if err := errors.Join(c.changeable(), ctx.Err(), c.o.validate(config)); err != nil {
		return err
	}
	i, found := c.manifest.find(name)
	if !found {
		return ErrUnknownPartition
	}
	t := c.manifest.topics[i]
	if config.Partitions != 0 && config.Partitions != int(t.partitions) {
		return fmt.Errorf("%w: it has %d partitions; AddPartitions changes that", ErrInvalidConfig, t.partitions)
	}
	config.Partitions = 0
	old := c.o.logConfig(name, t.config)
	t.config, t.compacted = &config, t.compacted || config.Cleanup&CleanupCompact != 0
	wanted := c.o.logConfig(name, t.config)
	list := slices.DeleteFunc(c.all(), func(p *partition) bool { return p.Topic != name || p.log == nil || p.log.Failed() != nil })
	levelChanges := old.Durability != wanted.Durability
	if levelChanges {
		// Recovery goes by the level that the manifest names: what was appended
		// at the old one is in the segments and recorded before it names another.
		for _, p := range list {
			p.log.Freeze()
			defer p.log.Thaw()
		}
		if err := c.emptyMemory(ctx, list); err != nil {
			return err
		}
	}
	if err := c.commit(c.manifest.with(t)); err != nil {
		if levelChanges && c.unsure.Load() {
			c.refuse(list, err)
		}
		return err
	}
	c.mu.Lock()
	c.topics[name] = t
	c.mu.Unlock()
	for _, p := range list {
		p.log.SetConfig(wanted)
	}
	return nil
}

// refuse takes the logs of partitions, frozen and with nothing in memory, out of
// service until Reopen: recovery may go by another level of durability than
// theirs, so it might not find what they would acknowledge.
func (c *Catalog) refuse(list []*partition, cause error) {
	var final log.Metrics
	for _, p := range list {
		// All of it is durable: an error of closing the files loses nothing.
		_ = p.log.Abandon()
		addCounters(&final, p.log.Metrics())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range list {
		c.placeLocked(&partition{Partition: p.Partition, err: fmt.Errorf("change the level of durability: %w; reopen the partition", cause)})
	}
	c.retireLocked(final)
}

// emptyMemory brings everything of these partitions, whose appends wait, into
// their segments, records it, and leaves nothing of them in journal and tail.
func (c *Catalog) emptyMemory(ctx context.Context, list []*partition) error {
	if j := c.backing.running(); j != nil {
		if err := c.drainJournal(ctx, j); err != nil {
			return err
		}
		if err := c.freeJournal(ctx); err != nil { // or the half could not be closed
			return err
		}
		j.CloseHalf()
		if err := c.freeJournal(ctx); err != nil {
			return err
		}
	}
	if err := c.checkpointAll(ctx, list); err != nil {
		return err
	}
	return sideBySide(len(list), c.o.Parallelism, func(i int) error { return list[i].log.Unseat() })
}

// Reopen opens a partition again that an I/O error latched, or that refused
// when the store was opened and was repaired since: it is read from its
// recovery point on, written again in place and synced. Handles of its old log
// answer log.ErrClosed. A partition that serves is left alone.
func (c *Catalog) Reopen(ctx context.Context, tp topic.Partition) error {
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	if err := c.reopenLocked(ctx, tp); err != nil {
		return fmt.Errorf("reopen %s: %w%s", tp, err, advice(err))
	}
	return nil
}

func (c *Catalog) reopenLocked(ctx context.Context, tp topic.Partition) error {
	if err := errors.Join(c.changeable(), ctx.Err()); err != nil {
		return err
	}
	c.mu.RLock()
	p := c.partitions[tp]
	c.mu.RUnlock()
	if p == nil {
		return ErrUnknownPartition
	}
	if p.log != nil {
		if p.log.Failed() == nil {
			return nil
		}
		// The journal forgets the log when it is abandoned. What is queued of it
		// goes in before: other logs have what was published later.
		if j := c.backing.running(); j != nil {
			if !plant.Enabled || !plant.Is(plant.QueueDropped) {
				if err := c.drainJournal(ctx, j); err != nil {
					return err
				}
			}
			if err := c.rescue([]topic.Partition{tp}); err != nil {
				return err
			}
		}
	}
	var err error
	if c.recalled, err = c.backing.recall(); err != nil {
		return err
	}
	defer func() { c.recalled = nil }()
	var final log.Metrics
	if p.log != nil {
		// Its files were written by a log that stopped: an error of closing
		// them adds nothing to that.
		_ = p.log.Abandon()
		final = p.log.Metrics()
	}
	i, _ := c.manifest.find(tp.Topic)
	l, err := c.reload(ctx, member{partition: tp, topic: c.manifest.topics[i]})
	if err == nil && c.recalled != nil {
		// What was set aside would come back over a later truncation.
		if err = c.dropRescued(c.recalled, tp); err != nil {
			err, l = errors.Join(err, l.Abandon()), nil
		}
	}
	if err == nil {
		c.backing.reclaim(c.keyOf(tp))
	}
	c.mu.Lock()
	c.placeLocked(&partition{Partition: tp, log: l, err: err, missing: errors.Is(err, fs.ErrNotExist)})
	c.retireLocked(final)
	c.mu.Unlock()
	return err
}

// reload loads and recovers one log.
func (c *Catalog) reload(ctx context.Context, m member) (*log.Log, error) {
	d := directory{partition: m.partition}
	if err := d.inspect(c.fs, c.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrPartitionMissing, err)
	} else if err != nil {
		return nil, err
	}
	if d.contradicts(m.topic.id) {
		return nil, d.belongsElsewhere(m.topic.id)
	}
	l, err := log.Load(c.logOptions(m, c.book.get(m.partition), false))
	if err != nil {
		return nil, err
	}
	if _, err = l.Recover(ctx); err == nil {
		err = c.book.Record(ctx, m.partition, l.Points())
	}
	if err != nil {
		return nil, errors.Join(err, l.Abandon())
	}
	return l, nil
}
