package groupoffsets

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Delete forgets what a group has committed for partitions, and what is pending
// for them in open transactions, which then commit nothing there. Where there is
// nothing it does nothing. What is committed while it runs may stay. It returns how
// many partitions had something, once their removal is safe.
//
// Errors: *DamageError, those of log.Log.Append.
func (s *Store) Delete(ctx context.Context, group string, partitions []topic.Partition) (int, error) {
	p, err := s.settled(ctx, group)
	if err != nil || p == nil {
		return 0, err
	}
	next := 0
	return s.remove(ctx, p, []string{group}, func(g *groupState, r *removal) {
		for ; next < len(partitions) && !r.full(); next++ {
			if e := g.entry(partitions[next].Topic, partitions[next].Index); e != nil {
				r.offset(e)
			}
		}
		r.more = next < len(partitions)
	})
}

// DeleteGroup forgets a group: its offsets, those that are pending, and the
// records of the group itself. Whether it has live members its caller knows.
//
// Errors: ErrUnknownGroup, *DamageError, those of log.Log.Append.
func (s *Store) DeleteGroup(ctx context.Context, group string) error {
	p, err := s.settled(ctx, group)
	if err != nil {
		return err
	}
	known := false
	if p != nil {
		_, err = s.remove(ctx, p, []string{group}, func(g *groupState, r *removal) {
			known = true
			if r.offsets(g, func(*entry) bool { return true }); !r.more {
				r.group(g)
			}
		})
	}
	if err == nil && !known {
		return ErrUnknownGroup
	}
	return err
}

// DeleteTopic forgets what all groups have committed for a topic, and what is
// pending for it: it was deleted, and in another of its name offsets mean nothing.
// It returns how many offsets went. An error of one partition does not keep it
// from the others.
func (s *Store) DeleteTopic(ctx context.Context, name string) (n int, err error) {
	for i := range s.logs.OffsetsPartitions() {
		p := s.at(i)
		e := s.settle(ctx, p)
		if e == nil {
			var names []string
			if names, e = s.names(ctx, p, func(g *groupState) bool { return g.topics[name] != nil }); e == nil {
				var removed int
				removed, e = s.remove(ctx, p, names, func(g *groupState, r *removal) { r.topic(g, name) })
				n += removed
			}
		}
		err = errors.Join(err, e)
	}
	return n, err
}

// settled is the partition of a group once everything published before is below
// its high watermark; nil: there are no committed offsets at all.
func (s *Store) settled(ctx context.Context, group string) (*partition, error) {
	if err := validGroup(group); err != nil {
		return nil, err
	}
	p, err := s.of(group)
	if errors.Is(err, ErrNoPartitions) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p, s.settle(ctx, p)
}

func (s *Store) settle(ctx context.Context, p *partition) error {
	l, err := s.follow(ctx, p)
	if err != nil {
		return err
	}
	p.mu.Unlock()
	if end := l.Frontiers().LogEnd; end > l.Frontiers().HighWatermark {
		return l.Await(ctx, end, log.DurabilityDefault)
	}
	return nil
}

// names are the groups that are wanted, sorted.
func (s *Store) names(ctx context.Context, p *partition, wanted func(*groupState) bool) ([]string, error) {
	if _, err := s.follow(ctx, p); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	var names []string
	for _, g := range p.fold.groups {
		if wanted(g) {
			names = append(names, g.name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// removalMax is how many records one batch of a removal has at most.
const removalMax = 4096

// removal is one batch of tombstones in the making.
type removal struct {
	w       *writer
	at      int64                // ms
	bytes   int                  // that the batch may have
	count   int                  // records
	gone    int                  // offsets
	touched map[touched]struct{} // by what is published and not folded
	active  map[string]struct{}  // groups of those
	more    bool                 // the group at hand is not done
}

// touched names a partition of a group.
type touched struct {
	group     string
	partition topic.Partition
}

// full tells whether the batch has enough, which is never nothing.
func (r *removal) full() bool {
	return r.count > 0 && (r.count >= removalMax || r.w.builder.Len() >= r.bytes)
}

func (r *removal) offset(e *entry) {
	r.w.key = appendOffsetKey(r.w.key[:0], e.topic.group.name, e.topic.name, e.partition)
	r.key()
	r.gone++
}

// offsets adds the entries of a group that are chosen, until the batch is full.
func (r *removal) offsets(g *groupState, chosen func(*entry) bool) {
	for _, t := range g.topics {
		if r.topicWhere(t, chosen); r.more {
			return
		}
	}
}

func (r *removal) topic(g *groupState, name string) {
	if t := g.topics[name]; t != nil {
		r.topicWhere(t, func(*entry) bool { return true })
	}
}

func (r *removal) topicWhere(t *topicEntries, chosen func(*entry) bool) {
	for _, e := range t.entries {
		if !chosen(e) {
			continue
		}
		if r.full() {
			r.more = true
			return
		}
		r.offset(e)
	}
}

// group adds what takes the records of a group itself away, in the order in which
// Kafka writes it.
func (r *removal) group(g *groupState) {
	for _, member := range slices.Sorted(maps.Keys(g.members)) {
		if r.full() {
			r.more = true
			return
		}
		for _, v := range [...]keyVersion{keyCurrentAssignment, keyTargetAssignment, keyMember} {
			r.w.key = appendString(appendGroupKey(r.w.key[:0], v, g.name), member)
			r.key()
		}
	}
	if g.consumer || len(g.members) > 0 {
		for _, v := range [...]keyVersion{keyAssignmentEpoch, keyTopics, keyConsumer} {
			r.w.key = appendGroupKey(r.w.key[:0], v, g.name)
			r.key()
		}
	}
	if g.classic != nil {
		r.w.key = appendGroupKey(r.w.key[:0], keyClassic, g.name)
		r.key()
	}
}

// key adds a record that takes away what the writer's key names.
func (r *removal) key() {
	r.w.builder.Add(r.at, r.w.key, nil)
	r.count++
}

// remove has choose add tombstones for each of the groups, in as many batches as
// it takes, each of which is safe before the next. choose is called again for a
// group while it leaves more set, by then without what went before; for a group
// that is not known it is not called. It returns how many offsets went.
func (s *Store) remove(ctx context.Context, p *partition, names []string, choose func(*groupState, *removal)) (gone int, err error) {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	for len(names) > 0 {
		r := removal{w: w, at: s.o.Now().UnixMilli()}
		if err := p.take(ctx); err != nil {
			return gone, err
		}
		l, left, done, err := s.removeSome(ctx, p, &r, names, choose)
		p.give()
		if err != nil {
			return gone, err
		}
		if done.End != unknown {
			if err := l.Await(ctx, done.End, log.DurabilityDefault); err != nil {
				return gone, err
			}
		}
		names, gone = left, gone+r.gone
	}
	return gone, nil
}

// removeSome publishes one batch, with the turn held.
func (s *Store) removeSome(ctx context.Context, p *partition, r *removal, names []string, choose func(*groupState, *removal)) (*log.Log, []string, Published, error) {
	l, err := s.follow(ctx, p)
	if err != nil {
		return nil, names, Published{}, err
	}
	names, err = p.choose(l, r, names, choose)
	p.mu.Unlock()
	if err != nil || r.count == 0 {
		return l, names, Published{End: unknown}, err
	}
	b, err := r.w.finish()
	if err != nil {
		return nil, names, Published{}, err
	}
	done, err := p.appendInTurn(ctx, l, b, log.AppendOptions{})
	return l, names, done, err
}

// choose fills one batch, with mu held, and tells what groups are left.
func (p *partition) choose(l *log.Log, r *removal, names []string, choose func(*groupState, *removal)) ([]string, error) {
	r.w.reset(batch.Plain)
	r.bytes = l.Config().BatchBytesMax / 2
	r.touched, r.active = map[touched]struct{}{}, map[string]struct{}{}
	err := p.above(l, false, func(k *key) {
		t := touched{string(k.group), topic.Partition{Topic: string(k.topic), Index: k.partition}}
		r.touched[t] = struct{}{}
		r.active[t.group] = struct{}{}
	})
	for err == nil && len(names) > 0 && !r.full() {
		if g := p.fold.groups[names[0]]; g != nil {
			if choose(g, r); r.more {
				break
			}
		}
		names = names[1:]
	}
	return names, err
}
