package groupoffsets

import (
	"context"
	"errors"
	"slices"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Committed is what is committed for a partition.
type Committed struct {
	Partition   topic.Partition
	Offset      int64  // -1: none. 0 is an offset like any other
	LeaderEpoch int32  // -1: not known
	Metadata    string // that was committed with it
	CommitMs    int64  // when, in ms since 1970; -1 with none
	// Err is ErrUnstable where stable offsets were asked for and an open
	// transaction holds one: then the rest says none.
	Err error
}

// FetchOptions of Fetch and FetchAll.
type FetchOptions struct {
	// RequireStable answers ErrUnstable for a partition that an open transaction
	// holds an offset of; otherwise what is committed is answered meanwhile. Who
	// goes on from a committed offset after somebody else wants this: an offset
	// that is pending may be committed after all.
	RequireStable bool
}

// Fetch appends to dst, for each partition in turn, what a group has committed:
// all that was committed, or ended as part of a transaction, before the call. It
// allocates nothing in steady state if dst has room.
//
// Errors: *DamageError, those of ctx and of the log.
func (s *Store) Fetch(ctx context.Context, dst []Committed, group string, partitions []topic.Partition, o FetchOptions) ([]Committed, error) {
	g, p, l, err := s.group(ctx, group)
	if err != nil {
		return dst, err
	}
	if p == nil {
		for _, tp := range partitions {
			dst = append(dst, told(tp, &none))
		}
		return dst, nil
	}
	defer p.mu.Unlock()
	staged, err := p.staged(l, group, o)
	if err != nil {
		return dst, err
	}
	for _, tp := range partitions {
		var e *entry
		if g != nil {
			e = g.entry(tp.Topic, tp.Index)
		}
		switch {
		case o.RequireStable && (e != nil && e.pending != nil || slices.Contains(staged, tp)):
			dst = append(dst, unstable(tp))
		case e != nil:
			dst = append(dst, told(tp, &e.committed))
		default:
			dst = append(dst, told(tp, &none))
		}
	}
	return dst, nil
}

// FetchAll appends to dst all that a group has committed, by partition. As in
// Kafka a partition that has only a pending offset is left out.
func (s *Store) FetchAll(ctx context.Context, dst []Committed, group string, o FetchOptions) ([]Committed, error) {
	g, p, l, err := s.group(ctx, group)
	if err != nil || p == nil {
		return dst, err
	}
	defer p.mu.Unlock()
	staged, err := p.staged(l, group, o)
	if err != nil || g == nil {
		return dst, err
	}
	for _, t := range g.sorted() {
		for _, e := range t.entries {
			tp := topic.Partition{Topic: t.name, Index: e.partition}
			switch {
			case !e.isCommitted():
			case o.RequireStable && (e.pending != nil || slices.Contains(staged, tp)):
				dst = append(dst, unstable(tp))
			default:
				dst = append(dst, told(tp, &e.committed))
			}
		}
	}
	return dst, nil
}

// group finds a group, nil if it is not known, and returns with p.mu held unless p
// is nil: there are no committed offsets at all.
func (s *Store) group(ctx context.Context, group string) (*groupState, *partition, *log.Log, error) {
	p, err := s.of(group)
	if errors.Is(err, ErrNoPartitions) {
		return nil, nil, nil, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := s.follow(ctx, p)
	if err != nil {
		return nil, nil, nil, err
	}
	return p.fold.groups[group], p, l, nil
}

// staged are the partitions for which transactions have published an offset that
// is not folded yet: whoever commits it has shown before that he may, so that
// nobody may go on behind his back. With mu held.
func (p *partition) staged(l *log.Log, group string, o FetchOptions) (staged []topic.Partition, err error) {
	if !o.RequireStable || l.Frontiers().LogEnd <= p.cursor {
		return nil, nil
	}
	err = p.above(l, true, func(k *key) {
		if string(k.group) == group {
			staged = append(staged, topic.Partition{Topic: string(k.topic), Index: k.partition})
		}
	})
	return staged, err
}

func told(tp topic.Partition, v *value) Committed {
	return Committed{Partition: tp, Offset: v.offset, LeaderEpoch: v.leaderEpoch, Metadata: v.metadata, CommitMs: v.commitMs}
}

func unstable(tp topic.Partition) Committed {
	c := told(tp, &none)
	c.Err = ErrUnstable
	return c
}
