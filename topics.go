package oncelog

import (
	"context"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/topic"
)

// TopicPartition names a partition. It is comparable.
type TopicPartition = topic.Partition

// TopicConfig is the configuration of a topic, stored in the directory. Its
// zero value is one partition with the store's defaults, from which nothing is
// ever removed.
type TopicConfig = catalog.TopicConfig

// TopicInfo describes a topic.
type TopicInfo = catalog.TopicInfo

// Cleanup says what may be removed from a topic; its zero value keeps
// everything.
type Cleanup = catalog.Cleanup

// Kinds of cleanup; they may be combined.
const (
	CleanupDelete  = catalog.CleanupDelete  // old segments go, by age and size
	CleanupCompact = catalog.CleanupCompact // records whose key has a newer one may go; keys are required. Nothing compacts yet: all stay
)

// CreateTopic makes a topic; on return it is durable, empty and takes appends.
// Errors: ErrInvalidTopicName, ErrInvalidConfig, ErrTopicExists,
// ErrInternalTopic (they have one partition), ErrReadOnly, ErrClosed, those of
// the file system. With ErrOutcomeUnknown a crash may bring the topic, empty,
// until the manifest can be written again, which is tried at once and every
// second; so for the other changes of topics.
func (s *Store) CreateTopic(ctx context.Context, name string, c TopicConfig) error {
	if err := s.participants.raise(ctx, c.Durability); err != nil {
		return err
	}
	return s.catalog.CreateTopic(ctx, name, c)
}

// AlterTopic replaces the configuration of a topic, also of one that Kafka
// made, and works by it from the return on. A new level of durability holds
// for the appends that begin after it. Errors: ErrUnknownPartition,
// ErrInvalidConfig and as CreateTopic.
func (s *Store) AlterTopic(ctx context.Context, name string, c TopicConfig) error {
	if err := s.participants.raise(ctx, c.Durability); err != nil {
		return err
	}
	return s.catalog.AlterTopic(ctx, name, c)
}

// AddPartitions makes a topic have total partitions. Errors:
// ErrUnknownPartition, ErrInvalidConfig if it has as many, ErrInternalTopic
// and as CreateTopic.
func (s *Store) AddPartitions(ctx context.Context, name string, total int) error {
	return s.catalog.AddPartitions(ctx, name, total)
}

// DeleteTopic deletes a topic with its records and producers; on return that
// is durable. Fetches that wait on it end with ErrUnknownPartition. A topic
// made again under the name starts empty. Errors: ErrUnknownPartition,
// ErrInternalTopic and as CreateTopic.
func (s *Store) DeleteTopic(ctx context.Context, name string) error {
	if err := s.catalog.DeleteTopic(ctx, name); err != nil {
		return err
	}
	// What is left if this fails expires.
	_, _ = s.groups.offsets.DeleteTopic(ctx, name)
	return nil
}

// Topics describes all topics, by name; after Close as they were then.
func (s *Store) Topics() []TopicInfo { return s.catalog.Topics() }
