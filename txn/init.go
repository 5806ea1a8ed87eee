package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// InitOptions of InitProducerID.
type InitOptions struct {
	// Timeout of its transactions: one that is open for longer is aborted. 0: one
	// minute.
	Timeout time.Duration
	// Expected is the identity that the caller has and wants to go on with: a
	// producer that was fenced meanwhile does not get another one. nil and {-1, -1}
	// fence whoever has the id.
	Expected *batch.Producer
	// Wait has it wait where ErrConcurrent would say to try again.
	Wait bool
}

// timeoutDefault is Kafka's.
const timeoutDefault = time.Minute

// InitProducerID gives the producer of a transactional id its identity, which
// fences whoever had the id before: their open transaction is aborted, and what
// they write is refused. On return it is safe.
//
// Errors: ErrInvalidRequest, ErrInvalidTimeout, ErrProducerFenced (Expected is
// not the current identity), ErrConcurrent, ErrUnavailable, ErrOutcomeUnknown,
// ErrClosed.
func (c *Coordinator) InitProducerID(ctx context.Context, id string, o InitOptions) (batch.Producer, error) {
	if err := c.usable(ctx, id); err != nil {
		return none, err
	}
	if o.Expected == nil {
		o.Expected = &none
	}
	if (o.Expected.ID == batch.None) != (o.Expected.Epoch == batch.None) {
		return none, fmt.Errorf("%w: expected producer %d epoch %d: both are given, or neither", ErrInvalidRequest, o.Expected.ID, o.Expected.Epoch)
	}
	if o.Timeout == 0 {
		o.Timeout = timeoutDefault
	}
	if o.Timeout < time.Millisecond || o.Timeout > c.o.TimeoutMax {
		return none, fmt.Errorf("%w: %v, want 1ms to %v", ErrInvalidTimeout, o.Timeout, c.o.TimeoutMax)
	}
	for {
		p, err := c.init(ctx, id, o)
		if !errors.Is(err, ErrConcurrent) || !o.Wait {
			return p, err
		}
		if err := c.Settle(ctx, id); err != nil {
			return none, err
		}
	}
}

func (c *Coordinator) init(ctx context.Context, id string, o InitOptions) (batch.Producer, error) {
	if err := c.know(ctx, id); err != nil {
		return none, err
	}
	d, at, err := c.change(ctx, id, func(s subject) (decision, error) {
		if s.Transaction == nil { // forgotten this instant
			return decision{}, ErrConcurrent
		}
		return decideInit(s, *o.Expected, int32(o.Timeout.Milliseconds()), c.now())
	})
	if err != nil {
		return none, err
	}
	if d.fence {
		at, err := c.fence(ctx, id, EventFenced)
		if err == nil && at.log != nil && !o.Wait {
			err = unsure(c.wait(ctx, []position{at}, log.DurabilityDefault))
		}
		if err != nil {
			return none, err
		}
		return none, fmt.Errorf("%w: the open transaction of its last producer is being aborted", ErrConcurrent)
	}
	if err := c.wait(ctx, []position{at}, log.DurabilityDefault); err != nil {
		return none, unsure(err)
	}
	return d.target.Producer, nil
}

// know makes an id known that was not.
func (c *Coordinator) know(ctx context.Context, id string) error {
	s := c.shard(id)
	s.mu.Lock()
	_, known := s.entries[id]
	s.mu.Unlock()
	if known {
		return nil
	}
	producer, err := c.ids.take(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.entries[id]; !known {
		s.entries[id] = &entry{id: id, pending: pendingNone, t: Transaction{
			Producer: batch.Producer{ID: producer, Epoch: batch.None},
			PrevID:   batch.None, NextID: batch.None, LastEpoch: batch.None, NextEpoch: batch.None, StartMs: -1,
		}}
	}
	return nil
}

// fence aborts the open transaction of an id, with an epoch that its producer
// does not have. It waits for nothing; the position is that of the decision, and
// has no log if there was nothing to abort.
func (c *Coordinator) fence(ctx context.Context, id string, why EventKind) (position, error) {
	d, at, err := c.change(ctx, id, func(s subject) (decision, error) {
		switch {
		case s.Transaction == nil:
			return decision{}, nil
		case s.pending != pendingNone:
			return decision{}, ErrConcurrent
		case s.State != Ongoing || why == EventTimedOut && !s.expired(c.now()):
			return decision{}, nil
		}
		return decideFence(s, !c.o.TV1, c.now()), nil
	})
	if err != nil || !d.log {
		return position{}, err
	}
	c.counters.aborted.Add(1)
	if why == EventTimedOut {
		c.counters.timedOut.Add(1)
	} else {
		c.counters.fenced.Add(1)
	}
	c.o.Events(Event{Kind: why, TransactionalID: id, Producer: d.target.Producer.ID})
	c.abandon(id, false)
	return at, nil
}
