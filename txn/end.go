package txn

import (
	"context"
	"errors"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// EndOptions of End.
type EndOptions struct {
	Commit bool // false: abort
	// TV2 says that the producer's epoch rises with every transaction. It gets
	// its next identity as the answer.
	TV2 bool
	// Async answers once the decision is safe: readers may see the transaction
	// later. Until its markers are in their partitions, which is the case already
	// unless one does not serve, the id answers ErrConcurrent.
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
	d, at, err := c.change(ctx, id, func(s subject) (decision, error) {
		return decideEnd(s, p, o.Commit, o.TV2, c.now())
	})
	if err != nil {
		if errors.Is(err, log.ErrOutcomeUnknown) { // the decision may be in the log
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

// waitState waits for the transaction log up to its end: what it says was
// published before.
func (c *Coordinator) waitState(ctx context.Context, id string, level log.Durability) error {
	l := c.states[c.statePartitionOf(id)].log.Load()
	return unsure(l.Await(ctx, l.Frontiers().LogEnd, level))
}

// unsure is the error of a wait that ended early.
func unsure(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(ErrOutcomeUnknown, err)
}

// finish carries a decision out and waits as far as the options say.
func (c *Coordinator) finish(ctx context.Context, id string, at position, o EndOptions) error {
	k := c.claim(id, false)
	if k == nil { // the log was read anew meanwhile, and it is being resumed
		return c.settled(ctx, id, o)
	}
	defer k.release()
	done, busy := c.carry(k, c.o.Manual)
	if !done {
		c.again(id, busy)
	}
	switch {
	case o.Async:
		return unsure(c.wait(ctx, []position{at}, o.Durability))
	case !done:
		return c.settled(ctx, id, o)
	}
	return unsure(c.wait(ctx, k.ends, o.Durability))
}

// settled waits for a decision that others carry out.
func (c *Coordinator) settled(ctx context.Context, id string, o EndOptions) error {
	if !o.Async {
		if err := c.Settle(ctx, id); err != nil {
			return unsure(err)
		}
	}
	return c.waitState(ctx, id, o.Durability)
}

// abandon carries out a decision that nobody waits for.
func (c *Coordinator) abandon(id string, again bool) {
	k := c.claim(id, again)
	if k == nil {
		return
	}
	defer k.release()
	if done, busy := c.carry(k, c.o.Manual); !done {
		c.again(id, busy)
	}
}
