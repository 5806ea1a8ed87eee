package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/vfs"
)

// The longest files that are read whole: a snapshot of 20 million producers,
// a checkpoint of 200 000 partitions with the longest names.
const (
	snapshotFileMax = 1 << 30
	textFileMax     = 64 << 20
)

// small reads a file of at most limit bytes and begins its part of the output.
func (d *dumper) small(path string, limit int64) ([]byte, error) {
	b, err := vfs.ReadFile(d.fs, path, limit)
	if err != nil {
		return nil, cannotLook(path, err)
	}
	d.progress.add(path, int64(len(b)))
	d.out.file(path)
	return b, nil
}

// textDamage shows what is wrong with a text file; its lines take the place of
// byte positions.
func (d *dumper) textDamage(err error) {
	line := 0
	if f, ok := errors.AsType[*checkpoint.FormatError](err); ok {
		line = f.Line
	}
	d.damaged = true
	d.out.begin("damage_line")
	d.out.int("line", int64(line))
	d.out.string("reason", err.Error())
	d.out.end()
}

// snapshot shows the producers of a .snapshot file.
func (d *dumper) snapshot(path string) error {
	b, err := d.small(path, snapshotFileMax)
	if err != nil {
		return err
	}
	producers, err := producerstate.ReadSnapshot(b)
	if err != nil {
		pos := int64(0)
		if s, ok := errors.AsType[*producerstate.SnapshotError](err); ok {
			pos = s.Pos
		}
		d.damage(damageSnapshot, pos, int64(len(b))-pos, err.Error())
		return nil
	}
	o := d.out
	for i := range producers {
		p := &producers[i]
		o.begin("producer")
		o.int("producer_id", p.Producer.ID)
		o.int("epoch", int64(p.Producer.Epoch))
		o.int("first_sequence", int64(p.FirstSequence()))
		o.int("last_sequence", int64(p.LastSequence))
		o.int("last_offset", p.LastOffset)
		o.int("offset_delta", int64(p.OffsetDelta))
		o.int("last_timestamp", p.LastTimestamp)
		o.int("coordinator_epoch", int64(p.CoordinatorEpoch))
		o.int("txn_start", p.TxnFirst)
		o.end()
	}
	d.summary(len(producers), int64(len(b)))
	return nil
}

// offsets shows a file with one offset for each partition.
func (d *dumper) offsets(path string) error {
	b, err := d.small(path, textFileMax)
	if err != nil {
		return err
	}
	entries, err := checkpoint.ReadOffsets(b)
	if err != nil {
		d.textDamage(err)
		return nil
	}
	for _, e := range entries {
		d.out.begin("partition_offset")
		d.out.string("topic", e.Partition.Topic)
		d.out.int("partition", int64(e.Partition.Index))
		d.out.int("offset", e.Offset)
		d.out.end()
	}
	d.summary(len(entries), int64(len(b)))
	return nil
}

// epochs shows a leader-epoch-checkpoint.
func (d *dumper) epochs(path string) error {
	b, err := d.small(path, textFileMax)
	if err != nil {
		return err
	}
	entries, err := checkpoint.ReadEpochs(b)
	if err != nil {
		d.textDamage(err)
		return nil
	}
	for _, e := range entries {
		d.out.begin("leader_epoch")
		d.out.int("leader_epoch", int64(e.Epoch))
		d.out.int("start_offset", e.Start)
		d.out.end()
	}
	d.summary(len(entries), int64(len(b)))
	return nil
}

// partitionMetadata shows a partition.metadata file.
func (d *dumper) partitionMetadata(path string) error {
	b, err := d.small(path, textFileMax)
	if err != nil {
		return err
	}
	m, err := checkpoint.ReadPartitionMetadata(b)
	if err != nil {
		d.textDamage(err)
		return nil
	}
	d.out.begin("partition_metadata")
	d.out.int("version", int64(m.Version))
	d.out.string("topic_id", m.TopicID.String())
	d.out.end()
	return nil
}

// meta shows a meta.properties file, all of its properties.
func (d *dumper) meta(path string) error {
	b, err := d.small(path, textFileMax)
	if err != nil {
		return err
	}
	m, err := checkpoint.ReadMeta(b)
	if err != nil {
		d.textDamage(err)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Properties)) {
		d.out.begin("property")
		d.out.string("name", name)
		d.out.string("value", m.Properties[name])
		d.out.end()
	}
	d.summary(len(m.Properties), int64(len(b)))
	return nil
}

// cleanShutdown shows the mark of a clean stop.
func (d *dumper) cleanShutdown(path string) error {
	b, err := d.small(path, textFileMax)
	if err != nil {
		return err
	}
	c, err := checkpoint.ReadCleanShutdown(b)
	if err != nil {
		d.textDamage(err)
		return nil
	}
	d.out.begin("clean_shutdown")
	d.out.int("version", int64(c.Version))
	d.out.int("broker_epoch", c.BrokerEpoch)
	d.out.end()
	return nil
}
