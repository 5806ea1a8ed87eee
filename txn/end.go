package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// EndOptions of End.
type EndOptions struct {
	Commit bool // false: abort
	// TV2 says that the producer's epoch rises with every transaction. It gets
	// its next identity as the answer.
	TV2 bool
	// Async answers once the decision is safe. Until its markers are in their
	// partitions the id answers ErrConcurrent.
	Async bool
	// Durability strengthens what the answer promises beyond the levels of the
	// partitions.
	Durability log.Durability
}

// End commits or aborts the open transaction of a producer: decision, markers and
// completion are published one after the other, and waited for once. When it
// returns without error, readers see a committed transaction whole, and the next
// one can begin. The answer is the identity for it.
//
// An end that is asked for once more, since its answer got lost, is answered like
// the first.
//
// Once the decision is published the coordinator goes through with it, whatever
// becomes of ctx: then the error is ErrOutcomeUnknown.
//
// Errors: ErrInvalidIDMapping, ErrProducerFenced, ErrInvalidState, ErrConcurrent,
// ErrUnavailable, ErrOutcomeUnknown, ErrClosed.
func (c *Coordinator) End(ctx context.Context, id string, p batch.Producer, o EndOptions) (batch.Producer, error) {
	if err := c.usable(ctx, id); err != nil {
		return none, err
	}
	if err := c.secure(ctx, id, p); err != nil {
		return none, err
	}
	d, at, err := c.change(ctx, id, func(s subject) (decision, error) {
		return decideEnd(s, p, o.Commit, o.TV2, c.now())
	})
	if err != nil {
		if errors.Is(err, log.ErrOutcomeUnknown) || errors.Is(err, log.ErrLatched) {
			err = errors.Join(ErrOutcomeUnknown, err)
		}
		return none, err
	}
	if !d.log { // once more: the first answer may have been given before all was safe
		return d.target.Producer, c.waitState(ctx, id, o.Durability)
	}
	if o.Commit {
		c.counters.committed.Add(1)
	} else {
		c.counters.aborted.Add(1)
	}
	next := d.target.Producer
	if d.target.NextID >= 0 {
		next = batch.Producer{ID: d.target.NextID}
	}
	if err := c.finish(ctx, id, at, o); err != nil {
		return none, err
	}
	return next, nil
}

// secure is the barrier before a decision: all that it commits must survive
// whenever it does.
func (c *Coordinator) secure(ctx context.Context, id string, p batch.Producer) error {
	s := c.shard(id)
	s.mu.Lock()
	e := s.entries[id]
	var list []topic.Partition
	if e != nil && e.t.State == Ongoing && e.t.Producer == p {
		list = e.t.Partitions
	}
	s.mu.Unlock()
	if list == nil {
		return nil
	}
	if err := c.barrier(ctx, id, list); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// waitState waits for the transaction log up to its end.
func (c *Coordinator) waitState(ctx context.Context, id string, level log.Durability) error {
	l, err := c.p.Partition(c.states[c.statePartitionOf(id)].Partition)
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	return c.unknown(c.wait(ctx, []position{{l, l.Frontiers().LogEnd}}, level))
}

// unknown is the error of a wait that ended early.
func (c *Coordinator) unknown(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(ErrOutcomeUnknown, err)
}

// finish carries a decision out and waits as far as the options say.
func (c *Coordinator) finish(ctx context.Context, id string, at position, o EndOptions) error {
	if err := c.barrier(c.background, id, nil); err != nil {
		c.again(id)
		return c.unknown(err)
	}
	ends, done := c.complete(id, false)
	defer ends.release()
	if o.Async {
		return c.unknown(c.wait(ctx, []position{at}, o.Durability))
	}
	if !done {
		if err := c.Settle(ctx, id); err != nil {
			return c.unknown(err)
		}
		return c.waitState(ctx, id, o.Durability)
	}
	return c.unknown(c.wait(ctx, ends.list, o.Durability))
}

// carryOut is finish for a decision that nobody waits for.
func (c *Coordinator) carryOut(ctx context.Context, id string, at position) error {
	return c.finish(ctx, id, at, EndOptions{Async: true})
}
