package txn

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/invariant"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// shardCount is how many locks there are: enough that ids rarely meet in one.
const shardCount = 64

// shard is the transactional ids of one lock. The lock is held to change state
// only, never over I/O or waiting; what is under way for an id is guarded by its
// pending state.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is what is known of one transactional id. Guarded by the shard's lock.
type entry struct {
	id      string
	t       Transaction // as the log has it
	pending State       // where it is on its way to; pendingNone
	// memory is that of t.Partitions; nil: they have some of their own. Whoever
	// has them without the lock has changed the pending state, or claimed the
	// decision.
	memory *partitionList
	// left are the partitions of a decision that have no marker yet.
	left []topic.Partition
	// carried says that somebody carries the decision out: nobody else does, or
	// the second to say Complete might say it of the next transaction.
	carried bool
	told    bool // of a marker that failed
	// settled is closed when pending ends; nil: nobody waits.
	settled chan struct{}
}

// partitionList is memory that is used again.
type partitionList struct{ list []topic.Partition }

var partitionLists = sync.Pool{New: func() any { return new(partitionList) }}

// hold has the partitions of the state lie in m from now on.
func (e *entry) hold(m *partitionList) {
	if e.memory != nil && e.memory != m {
		clear(e.memory.list)
		partitionLists.Put(e.memory)
	}
	e.memory = m
}

func (e *entry) subject() subject {
	if e == nil || e.pending == Dead {
		return subject{nil, pendingNone}
	}
	return subject{&e.t, e.pending}
}

// apply makes what the log says now the state: live and in replay.
func (e *entry) apply(t Transaction) {
	e.t = t
	if e.left = nil; t.State.prepared() {
		e.left, e.told = t.Partitions, false
	}
}

// settle ends what is under way; a decision is not at its end before it is
// complete.
func (e *entry) settle() {
	e.pending = pendingNone
	if e.t.State.prepared() {
		e.pending = e.t.State.complete()
		return
	}
	if e.settled != nil {
		close(e.settled)
		e.settled = nil
	}
}

func (c *Coordinator) shard(id string) *shard {
	return &c.shards[maphash.String(c.seed, id)%shardCount]
}

// each calls do for every id, with its shard locked.
func (c *Coordinator) each(do func(*entry)) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, e := range s.entries {
			do(e)
		}
		s.mu.Unlock()
	}
}

// change carries a transition out: decide, log, apply. It answers what was
// decided, with the producer ids filled in, and where the record ends in the
// log; the log is nil if there was nothing to log.
func (c *Coordinator) change(ctx context.Context, id string, decide func(subject) (decision, error)) (decision, position, error) {
	s, p := c.shard(id), &c.states[c.statePartitionOf(id)]
	s.mu.Lock()
	if p.unsure.Load() {
		s.mu.Unlock()
		return decision{}, position{}, fmt.Errorf("%w: it is about to be read again", ErrUnavailable)
	}
	e, l := s.entries[id], p.log.Load()
	d, err := decide(e.subject())
	if err != nil || !d.log {
		s.mu.Unlock()
		return d, position{}, err
	}
	e.pending = d.target.State
	s.mu.Unlock()

	at, err := c.logDecision(ctx, id, l, &d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && p.log.Load() != l { // what was read since tells
		err = errors.Join(ErrUnavailable, log.ErrOutcomeUnknown)
	}
	if err == nil {
		if invariant.Enabled {
			if broken := breaks(&e.t, &d.target); broken != "" {
				invariant.Check(false, "%q from %+v to %+v: %s", id, e.t, d.target, broken)
			}
		}
		e.apply(d.target)
		if d.memory != nil || len(d.target.Partitions) == 0 {
			e.hold(d.memory)
		}
	}
	if e.settle(); err != nil && e.t.Producer.Epoch == batch.None && s.entries[id] == e {
		delete(s.entries, id) // made for a producer that was never logged
	}
	return d, at, err
}

// logDecision fetches the producer id that a decision needs, sees to it that what
// it commits is safe, and publishes it.
func (c *Coordinator) logDecision(ctx context.Context, id string, l *log.Log, d *decision) (position, error) {
	if d.fresh {
		fresh, err := c.ids.take(ctx)
		if err != nil {
			return position{}, err
		}
		if d.target.State.prepared() {
			d.target.NextID = fresh
		} else {
			d.target.Producer.ID = fresh
		}
	}
	if d.target.State == PrepareCommit {
		if err := c.p.Barrier(ctx, d.target.Partitions); err != nil {
			return position{}, fmt.Errorf("%w: make safe what is to be committed: %w", ErrUnavailable, err)
		}
	}
	return c.write(ctx, id, l, &d.target)
}

// breaks tells what is wrong with a transition; "": nothing.
func breaks(from, to *Transaction) string {
	switch e, f := to.Producer.Epoch, from.Producer.Epoch; {
	case from.State != to.State && !follows(from.State, to.State, true):
		return "there is no such transition"
	case to.Producer.ID == from.Producer.ID && e < f, to.Producer.ID != from.Producer.ID && e != 0 && f != batch.None:
		return "the epoch goes back"
	case to.PrevID != from.Producer.ID && to.State != Empty:
		return "the producer id before is another"
	case to.State == Empty && (len(to.Partitions) > 0 || to.StartMs != -1):
		return "there is a transaction where there is none"
	case to.State != Empty && to.StartMs < 0:
		return "it has no beginning"
	case from.State == Ongoing && to.State == Ongoing && len(to.missing(from.Partitions)) > 0:
		return "partitions are missing"
	case from.State == Ongoing && to.State.prepared() && len(to.Partitions) != len(from.Partitions):
		return "the partitions are others"
	case to.State.prepared() && to.TimeoutMs != from.TimeoutMs:
		return "the timeout is another"
	case from.State.prepared() && len(to.Partitions) > 0:
		return "partitions are left"
	}
	return ""
}

// Settle waits until nothing is under way for a transactional id: then it can
// begin anew.
func (c *Coordinator) Settle(ctx context.Context, id string) error {
	s := c.shard(id)
	for {
		s.mu.Lock()
		e := s.entries[id]
		if e == nil || e.pending == pendingNone {
			s.mu.Unlock()
			return nil
		}
		if e.settled == nil {
			e.settled = make(chan struct{})
		}
		settled := e.settled
		s.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.background.Done():
			return ErrClosed
		}
	}
}
