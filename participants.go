package oncelog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
	"github.com/oncelog/oncelog/txn"
)

// participants are the partitions of a store as its coordinator sees them.
type participants struct {
	catalog *catalog.Catalog
	level   Durability // of the topics that say nothing else

	mu     sync.Mutex
	looked bool  // seen is known
	seen   int64 // the greatest producer id of any log when it was first asked for; −1: none
}

// Partition implements txn.Participants.
func (p *participants) Partition(tp TopicPartition) (*log.Log, error) {
	l, err := p.catalog.Partition(tp)
	if errors.Is(err, ErrUnknownPartition) {
		return nil, fmt.Errorf("%w: %w", txn.ErrPartitionGone, err)
	}
	return l, err
}

// All implements txn.Participants.
func (p *participants) All() iter.Seq[TopicPartition] {
	return func(yield func(TopicPartition) bool) {
		stopped := false
		p.catalog.Each(func(tp TopicPartition, l *log.Log, _ error) {
			stopped = stopped || l != nil && !yield(tp)
		})
	}
}

// StatePartitions implements txn.Participants.
func (p *participants) StatePartitions() int { return max(p.catalog.Total(topic.TransactionState), 1) }

// OffsetsPartitions implements txn.Participants.
func (p *participants) OffsetsPartitions() int { return max(p.catalog.Total(topic.ConsumerOffsets), 1) }

// Create implements txn.Participants. The internal topics are at the strongest level
// that any topic has: what they say of a transaction must not be lost before it.
func (p *participants) Create(ctx context.Context, name string) error {
	level := p.level
	for _, t := range p.catalog.Topics() {
		level = max(level, t.Config.Durability)
	}
	err := p.catalog.CreateTopic(ctx, name, TopicConfig{Cleanup: CleanupCompact, Durability: level})
	if errors.Is(err, ErrTopicExists) {
		return nil // somebody was quicker
	}
	return err
}

// raise makes the internal topics as strong as one that comes, or is changed.
func (p *participants) raise(ctx context.Context, level Durability) error {
	for _, name := range []string{topic.TransactionState, topic.ConsumerOffsets} {
		l, err := p.catalog.Partition(TopicPartition{Topic: name})
		if err != nil || l.Config().Durability >= level {
			continue
		}
		for _, t := range p.catalog.Topics() {
			if t.Name != name {
				continue
			}
			t.Config.Durability = level
			if err := p.catalog.AlterTopic(ctx, name, t.Config); err != nil {
				return err
			}
		}
	}
	return nil
}

// Barrier implements txn.Participants. What the commit journal orders needs none.
// Logs kept at DurabilityOS are flushed for the sake of others that are not: if all
// are, nothing is promised over the end of the machine, and the order in which they
// were written holds over the end of the process.
func (p *participants) Barrier(ctx context.Context, set []TopicPartition) error {
	strongest := DurabilityOS
	for _, tp := range set {
		if l, err := p.catalog.Partition(tp); err == nil {
			strongest = max(strongest, l.Config().Durability)
		}
	}
	if strongest == DurabilityOS {
		return nil
	}
	for _, tp := range set {
		l, err := p.catalog.Partition(tp)
		if err != nil || l.Config().Durability == DurabilityFsync && l.Ordered() {
			continue // a partition that is gone, or does not serve, has nothing to wait for
		}
		if err := l.Sync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ReserveIDs implements txn.Participants: above every id that any log knows.
func (p *participants) ReserveIDs(ctx context.Context, n int) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.looked {
		p.seen = -1
		p.catalog.Each(func(_ TopicPartition, l *log.Log, _ error) {
			if l == nil {
				return
			}
			for _, info := range l.Producers() {
				p.seen = max(p.seen, info.Producer.ID)
			}
		})
		p.looked = true
	}
	return p.catalog.ReserveIDs(ctx, n, p.seen)
}

// Reserved implements txn.Participants.
func (p *participants) Reserved(id int64) bool {
	first, end := p.catalog.ReservedIDs()
	return first <= id && id < end
}

// torn tells of a partition that may have lost what was published in it.
func (p *participants) torn(tp TopicPartition) bool {
	if p.catalog.SetAside() {
		return true
	}
	if !p.catalog.PowerLost() {
		return false
	}
	l, err := p.catalog.Partition(tp)
	return err == nil && l.Config().Durability == DurabilityOS
}
