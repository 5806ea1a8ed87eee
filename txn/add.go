package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
)

// AddPartitions makes partitions part of the transaction of a producer, and
// begins it with the first: for producers that say so before they write. It does
// not wait until that is safe, since nothing written afterwards can be safe
// without.
//
// Errors: ErrInvalidRequest, *UnknownPartitionsError (none was added),
// ErrInvalidIDMapping, ErrProducerFenced, ErrConcurrent, ErrTooManyPartitions,
// ErrUnavailable (the partition's own error, where one does not serve), ErrClosed.
func (c *Coordinator) AddPartitions(ctx context.Context, id string, p batch.Producer, partitions []topic.Partition) error {
	return c.add(ctx, id, p, partitions, false)
}

// Enlist is AddPartitions for a producer that just writes, and whose epoch rises
// with every transaction: the log that takes the first batch of a transaction
// asks for it.
func (c *Coordinator) Enlist(ctx context.Context, id string, p batch.Producer, partitions []topic.Partition) error {
	return c.add(ctx, id, p, partitions, true)
}

// AddOffsets makes the offsets of a group part of the transaction: the partition
// of __consumer_offsets that they are in. Errors: as AddPartitions.
func (c *Coordinator) AddOffsets(ctx context.Context, id string, p batch.Producer, group string) error {
	return c.add(ctx, id, p, []topic.Partition{c.OffsetsPartition(group)}, false)
}

// OffsetsPartition is where the committed offsets of a group are.
func (c *Coordinator) OffsetsPartition(group string) topic.Partition {
	return topic.Partition{Topic: topic.ConsumerOffsets, Index: int32(PartitionOf(group, c.p.OffsetsPartitions()))}
}

func (c *Coordinator) add(ctx context.Context, id string, p batch.Producer, list []topic.Partition, tv2 bool) error {
	if err := c.usable(ctx, id); err != nil {
		return err
	}
	if err := c.present(list); err != nil {
		return err
	}
	memory := partitionLists.Get().(*partitionList)
	d, _, err := c.change(ctx, id, func(s subject) (decision, error) {
		return decideAdd(s, p, list, tv2, c.now(), memory)
	})
	if err != nil || !d.log {
		partitionLists.Put(memory)
	}
	if err != nil {
		return err
	}
	// No data without the record that lists their partition: else nobody would
	// end that transaction. Somebody else may have added it just now, so this does
	// not depend on whether there was anything to log.
	if err := c.barrier(ctx, id, nil); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// present tells whether all partitions of a call are there.
func (c *Coordinator) present(list []topic.Partition) error {
	var absent []topic.Partition
	for _, tp := range list {
		switch _, err := c.p.Partition(tp); {
		case errors.Is(err, ErrPartitionGone):
			absent = append(absent, tp)
		case err != nil:
			return fmt.Errorf("%w: %s: %w", ErrUnavailable, tp, err)
		}
	}
	if len(absent) > 0 {
		return &UnknownPartitionsError{absent}
	}
	return nil
}

// Verify tells whether partitions are part of the open transaction of a
// producer: for logs that ask before they take its first batch.
//
// Errors: *PartitionsError, ErrInvalidIDMapping, ErrProducerFenced,
// ErrConcurrent, ErrUnavailable, ErrClosed.
func (c *Coordinator) Verify(ctx context.Context, id string, p batch.Producer, partitions []topic.Partition) error {
	if err := c.usable(ctx, id); err != nil {
		return err
	}
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return decideVerify(s.entries[id].subject(), id, p, partitions)
}
