package oncelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/groupoffsets"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// OffsetCommit is an offset to be committed: where a group goes on in a partition.
// OffsetOf makes one.
type OffsetCommit = groupoffsets.Commit

// OffsetCommitted is what a group committed for a partition.
type OffsetCommitted = groupoffsets.Committed

// GroupInfo is what is known of a group.
type GroupInfo = groupoffsets.Group

// GroupDescription is all that is known of a group.
type GroupDescription = groupoffsets.Description

// What Groups refuse with.
var (
	ErrUnstable        = groupoffsets.ErrUnstable        // an open transaction commits an offset there; ask again once it has ended
	ErrInvalidGroup    = groupoffsets.ErrInvalidGroup    // no record can name the group
	ErrUnknownGroup    = groupoffsets.ErrUnknownGroup    // nothing is known of it
	ErrInvalidCommit   = groupoffsets.ErrInvalidCommit   // an offset that cannot be committed
	ErrMetadataTooLong = groupoffsets.ErrMetadataTooLong // the text beside an offset
	ErrOffsetsDamaged  = groupoffsets.ErrDamaged         // the log of committed offsets cannot be read
)

// OffsetOf commits that a group wants the record at an offset next.
func OffsetOf(tp TopicPartition, next int64) OffsetCommit {
	return OffsetCommit{Partition: tp, Offset: next, LeaderEpoch: batch.None}
}

// Groups are the offsets that consumer groups committed, in Kafka's own records in
// __consumer_offsets. All methods are safe for concurrent use.
type Groups struct {
	store   *Store
	offsets *groupoffsets.Store
}

// Groups gives the committed offsets.
func (s *Store) Groups() *Groups { return s.groups }

// CommitOptions of Commit; the zero value waits for the level of __consumer_offsets.
type CommitOptions struct {
	Durability Durability // strengthens what the return promises
	NoWait     bool       // returns once the commit is published; readers see it when it is safe
}

// Commit commits offsets of a group, all or none. On return they are safe, and Fetch
// answers them.
//
// Errors: ErrInvalidGroup; ErrInvalidCommit and ErrMetadataTooLong, which name the
// partition; ErrUnknownPartition; ErrOffsetsDamaged; those of Append.
func (g *Groups) Commit(ctx context.Context, group string, offsets []OffsetCommit, o CommitOptions) error {
	if err := g.prepare(ctx, offsets); err != nil {
		return err
	}
	_, err := g.offsets.Commit(ctx, group, offsets, log.AppendOptions{Durability: o.Durability, NoWait: o.NoWait})
	return err
}

// TransactionalCommit is a commit of offsets with the transaction of a producer.
type TransactionalCommit struct {
	Group           string
	TransactionalID string
	Producer        batch.Producer
	// Verify is for producers that said before, with Transactions().AddOffsets, that
	// the group is part of the transaction; else this call makes it so.
	Verify  bool
	Offsets []OffsetCommit
}

// CommitTransactional commits offsets with a transaction: they count when that
// commits, and are pending until then. Txn.SendOffsets does it for those that use it.
//
// It is published on return, not waited for: no decision of the transaction can be
// safe without it. Errors: as Commit; ErrNoTransactionalID; those of
// Transactions().Enlist and Verify; ErrFenced.
func (g *Groups) CommitTransactional(ctx context.Context, c TransactionalCommit) error {
	if err := g.prepare(ctx, c.Offsets); err != nil {
		return err
	}
	tp, err := g.offsets.PartitionOf(c.Group)
	if err != nil {
		return err
	}
	l, err := g.store.Partition(tp)
	if err != nil {
		return err
	}
	for i := range c.Offsets { // nothing is part of a transaction that will be refused
		if err := g.offsets.Check(&c.Offsets[i]); err != nil {
			return err
		}
	}
	guard, err := g.store.enlist(ctx, l, tp, c.Producer, batch.None, &AppendOptions{TransactionalID: c.TransactionalID, Verify: c.Verify})
	if err != nil {
		return err
	}
	_, err = g.offsets.CommitTransactional(ctx, c.Group, c.Producer, c.Offsets, log.AppendOptions{Guard: guard, NoWait: true})
	return err
}

// prepare makes the topic of offsets if it is not there, and tells of partitions that
// are not.
func (g *Groups) prepare(ctx context.Context, offsets []OffsetCommit) error {
	for i := range offsets {
		if _, err := g.store.Partition(offsets[i].Partition); errors.Is(err, ErrUnknownPartition) {
			return fmt.Errorf("commit an offset: %w", err)
		}
	}
	if g.store.catalog.Total(topic.ConsumerOffsets) > 0 {
		return nil
	}
	return g.store.participants.Create(ctx, topic.ConsumerOffsets)
}

// Fetch appends to dst, for each partition in turn, what a group committed before the
// call; −1 is none. With stable a partition for which an open transaction holds an
// offset says ErrUnstable: whoever goes on where another one stopped wants that, since
// the other may be about to commit.
//
// Errors: ErrOffsetsDamaged, that of ctx, ErrClosed.
func (g *Groups) Fetch(ctx context.Context, dst []OffsetCommitted, group string, partitions []TopicPartition, stable bool) ([]OffsetCommitted, error) {
	if g.store.catalog.Total(topic.ConsumerOffsets) == 0 {
		for _, tp := range partitions {
			dst = append(dst, OffsetCommitted{Partition: tp, Offset: -1, LeaderEpoch: batch.None, CommitMs: -1})
		}
		return dst, nil
	}
	return g.offsets.Fetch(ctx, dst, group, partitions, groupoffsets.FetchOptions{RequireStable: stable})
}

// FetchAll appends all that a group has committed, by partition. Errors: as Fetch.
func (g *Groups) FetchAll(ctx context.Context, dst []OffsetCommitted, group string, stable bool) ([]OffsetCommitted, error) {
	if g.store.catalog.Total(topic.ConsumerOffsets) == 0 {
		return dst, nil
	}
	return g.offsets.FetchAll(ctx, dst, group, groupoffsets.FetchOptions{RequireStable: stable})
}

// List tells of all groups, by name. What cannot be read the error tells, beside the
// groups of the other partitions.
func (g *Groups) List(ctx context.Context) ([]GroupInfo, error) { return g.offsets.Groups(ctx) }

// Describe tells of one group. Errors: ErrUnknownGroup, ErrOffsetsDamaged.
func (g *Groups) Describe(ctx context.Context, group string) (GroupDescription, error) {
	if g.store.catalog.Total(topic.ConsumerOffsets) == 0 {
		return GroupDescription{}, fmt.Errorf("%w: %q", ErrUnknownGroup, group)
	}
	return g.offsets.Describe(ctx, group)
}

// Delete forgets a group with all it committed, in open transactions too. Whether it
// has live members its caller knows. Errors: ErrUnknownGroup, ErrOffsetsDamaged, those
// of Append.
func (g *Groups) Delete(ctx context.Context, group string) error {
	if g.store.catalog.Total(topic.ConsumerOffsets) == 0 {
		return fmt.Errorf("%w: %q", ErrUnknownGroup, group)
	}
	return g.offsets.DeleteGroup(ctx, group)
}

// DeleteOffsets forgets what a group committed for partitions, and answers for how many
// there was something. Errors: ErrOffsetsDamaged, those of Append.
func (g *Groups) DeleteOffsets(ctx context.Context, group string, partitions []TopicPartition) (int, error) {
	if g.store.catalog.Total(topic.ConsumerOffsets) == 0 {
		return 0, nil
	}
	return g.offsets.Delete(ctx, group, partitions)
}

// Expire forgets offsets that are older than Options.OffsetsRetention, of groups
// without members, unless an open transaction commits there. The store does it by
// itself every ten minutes.
func (g *Groups) Expire(ctx context.Context) (int, error) {
	return g.offsets.Expire(ctx, groupoffsets.ExpireOptions{})
}

// offsetLogs are the partitions of __consumer_offsets.
type offsetLogs struct{ store *Store }

// OffsetsPartitions implements groupoffsets.Logs.
func (o offsetLogs) OffsetsPartitions() int { return o.store.catalog.Total(topic.ConsumerOffsets) }

// Partition implements groupoffsets.Logs.
func (o offsetLogs) Partition(tp TopicPartition) (*log.Log, error) { return o.store.Partition(tp) }
