package groupoffsets

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/oncelog/oncelog/internal/topic"
)

// Kind is the protocol that a group's records speak of.
type Kind uint8

// The kinds.
const (
	KindSimple   Kind = iota // offsets only
	KindClassic              // JoinGroup and SyncGroup
	KindConsumer             // KIP-848
)

// String is for tools.
func (k Kind) String() string {
	return [...]string{"simple", "classic", "consumer"}[k]
}

// Group is what is known of a group.
type Group struct {
	Name         string
	Kind         Kind
	ProtocolType string // of a classic group: "consumer" of consumers
	Generation   int32  // of a classic group; -1: none
	StateMs      int64  // since when a classic group is in its state, in ms since 1970; -1: not known
	// Members that records tell of, -1: the record cannot be read. Whether they live
	// is not known here.
	Members      int
	Offsets      int // committed
	Pending      int // in open transactions
	Transactions int // open ones that have written to the group
}

// Pending is an offset in an open transaction.
type Pending struct {
	Partition  topic.Partition
	ProducerID int64
	Offset     int64
	CommitMs   int64 // when it was sent, in ms since 1970
}

// Description is all that is known of a group.
type Description struct {
	Group
	Committed []Committed // by partition
	Pending   []Pending   // by partition and producer id
}

// Groups tells of all groups, by name. What cannot be read is told of by the
// error, beside the groups of the other partitions.
func (s *Store) Groups(ctx context.Context) (all []Group, err error) {
	for n := range s.logs.OffsetsPartitions() {
		p := s.at(n)
		if _, e := s.follow(ctx, p); e != nil {
			err = errors.Join(err, e)
			continue
		}
		for _, g := range p.fold.groups {
			all = append(all, g.describe())
		}
		p.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// Describe tells of one group. Errors: ErrUnknownGroup, *DamageError.
func (s *Store) Describe(ctx context.Context, group string) (Description, error) {
	g, p, _, err := s.group(ctx, group)
	if err != nil {
		return Description{}, err
	}
	if p == nil {
		return Description{}, ErrUnknownGroup
	}
	defer p.mu.Unlock()
	if g == nil {
		return Description{}, ErrUnknownGroup
	}
	d := Description{Group: g.describe()}
	for _, t := range g.sorted() {
		for _, e := range t.entries {
			tp := topic.Partition{Topic: t.name, Index: e.partition}
			if e.isCommitted() {
				d.Committed = append(d.Committed, told(tp, &e.committed))
			}
			from := len(d.Pending)
			for q := e.pending; q != nil; q = q.next {
				d.Pending = append(d.Pending, Pending{Partition: tp, ProducerID: q.of.producer, Offset: q.offset, CommitMs: q.commitMs})
			}
			slices.SortFunc(d.Pending[from:], func(a, b Pending) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
		}
	}
	return d, nil
}

func (g *groupState) describe() Group {
	d := Group{Name: g.name, Generation: unknown, StateMs: unknown, Members: g.membersRecorded(), Transactions: g.open}
	if c := g.classic; c != nil {
		d.Kind, d.ProtocolType, d.Generation, d.StateMs = KindClassic, c.protocolType, c.generation, c.stateMs
	}
	if g.consumer {
		d.Kind = KindConsumer
	}
	for _, t := range g.topics {
		for _, e := range t.entries {
			if e.isCommitted() {
				d.Offsets++
			}
			for q := e.pending; q != nil; q = q.next {
				d.Pending++
			}
		}
	}
	return d
}
