package txn

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"

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
	// left are the partitions of a decision that have no marker yet.
	left []topic.Partition
	// settled is closed when pending ends; nil: nobody waits.
	settled chan struct{}
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
		e.left = t.Partitions
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
	s := c.shard(id)
	s.mu.Lock()
	e := s.entries[id]
	d, err := decide(e.subject())
	if err != nil || !d.log {
		s.mu.Unlock()
		return d, position{}, err
	}
	e.pending = d.target.State
	s.mu.Unlock()

	var at position
	if d.fresh {
		err = c.refresh(ctx, &d.target)
	}
	if err == nil {
		at, err = c.write(ctx, id, &d.target)
	}
	s.mu.Lock()
	if err == nil {
		from, to := e.t.State, d.target.State
		invariant.Check(from == to || follows(from, to, true), "%q goes from %s to %s", id, from, to)
		e.apply(d.target)
	}
	if e.settle(); err != nil && e.t.Producer.Epoch < 0 {
		delete(s.entries, id) // made for a producer that was never logged
	}
	s.mu.Unlock()
	return d, at, err
}

// refresh gives a target the producer id that it needs.
func (c *Coordinator) refresh(ctx context.Context, t *Transaction) error {
	id, err := c.ids.take(ctx)
	if err != nil {
		return err
	}
	if t.State.prepared() {
		t.NextID = id
	} else {
		t.Producer.ID = id
	}
	return nil
}

// write publishes a record. An error that leaves open whether it is in the log
// has it read again before the next decision.
func (c *Coordinator) write(ctx context.Context, id string, t *Transaction) (position, error) {
	n := c.statePartitionOf(id)
	l, err := c.p.Partition(c.states[n].Partition)
	if err != nil {
		return position{}, errors.Join(ErrUnavailable, err)
	}
	w := writers.Get().(*writer)
	defer writers.Put(w)
	b, err := w.record(id, t)
	if err != nil {
		return position{}, err
	}
	a, err := l.Append(ctx, b, log.AppendOptions{NoWait: true, Origin: log.OriginCoordinator})
	switch {
	case err == nil:
		return position{l, a.LastOffset + 1}, nil
	case errors.Is(err, log.ErrNoSpace), ctx.Err() != nil && !errors.Is(err, log.ErrOutcomeUnknown):
	default:
		c.states[n].unsure.Store(true)
	}
	return position{}, errors.Join(ErrUnavailable, err)
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
