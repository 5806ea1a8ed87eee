package oncelog

import (
	"context"
	"errors"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/groupoffsets"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
	"github.com/oncelog/oncelog/txn"
)

// Groups are the offsets that consumer groups committed, kept in __consumer_offsets as
// Kafka keeps them. Its methods are safe for concurrent use.
type Groups = groupoffsets.Offsets

// OffsetCommit is an offset to be committed; OffsetOf makes one.
type OffsetCommit = groupoffsets.Commit

// OffsetFetched is the offset that a group committed for a partition.
type OffsetFetched = groupoffsets.Fetched

// GroupDescription is what is known of a group.
type GroupDescription = groupoffsets.Description

// What Groups refuse with.
var (
	ErrUnstable        = groupoffsets.ErrUnstable        // an open transaction commits an offset there; retriable
	ErrInvalidGroup    = groupoffsets.ErrInvalidGroup    // no name, or too long
	ErrUnknownGroup    = groupoffsets.ErrUnknownGroup    // nothing is known of it
	ErrGroupNotEmpty   = groupoffsets.ErrNotEmpty        // it has members
	ErrMetadataTooLong = groupoffsets.ErrMetadataTooLong // more than 4096 bytes with an offset
	ErrInvalidOffset   = groupoffsets.ErrInvalidOffset   // below 0
)

// RefusedOffsetsError tells which offsets of a commit were refused.
type RefusedOffsetsError = groupoffsets.RefusedError

// OffsetOf commits that a group wants an offset of a partition next.
func OffsetOf(tp TopicPartition, next int64) OffsetCommit {
	return OffsetCommit{Partition: tp, Offset: next, LeaderEpoch: batch.None}
}

// Groups gives the committed offsets.
func (s *Store) Groups() *Groups { return s.groups }

// CommitOffsets commits offsets of a group with the transaction of a producer: they
// count when it commits. verify is for producers that said so before, with
// Transactions().AddOffsets; else the call makes them part of the transaction. Txn does
// it for those that use it.
//
// Errors: ErrInvalidGroup, *RefusedOffsetsError (what was not refused is part of the
// transaction), those of Append for a transactional batch.
func (s *Store) CommitOffsets(ctx context.Context, group, transactionalID string, p batch.Producer, verify bool, offsets ...OffsetCommit) error {
	return s.groups.CommitTransactional(ctx, group, p, offsets, func(ctx context.Context, l *log.Log, tp TopicPartition, sequence int32) (lo log.AppendOptions, err error) {
		o := AppendOptions{TransactionalID: transactionalID, Verify: verify}
		lo.Guard, err = s.enlist(ctx, l, tp, p, sequence, &o)
		return lo, err
	})
}

// Absent implements groupoffsets.Logs.
func (p *participants) Absent(err error) bool { return errors.Is(err, txn.ErrPartitionGone) }

// OffsetsPartition implements groupoffsets.Logs.
func (p *participants) OffsetsPartition(group string) TopicPartition {
	return TopicPartition{Topic: topic.ConsumerOffsets, Index: int32(txn.PartitionOf(group, p.OffsetsPartitions()))}
}
