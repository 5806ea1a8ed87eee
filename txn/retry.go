package txn

import (
	"context"
	"slices"
	"sync"
	"time"
)

// retries are the ids whose decisions could not be carried out yet.
type retries struct {
	mu  sync.Mutex // leaf
	ids []string
	// wake tells the loop that there is one more; urgent, that all it wants is
	// patience. Both have room for one token.
	wake, urgent chan struct{}
}

// A round of retries follows the one before after a pause that doubles as long as
// nothing comes of it.
const (
	retryAfter    = 100 * time.Millisecond
	retryAfterMax = 5 * time.Second
)

// slowMax is how many decisions are waited with at once for partitions that keep
// appends out, or for memory. All others are only tried meanwhile, so that they
// are not held up.
const slowMax = 8

// again has a decision tried again.
func (c *Coordinator) again(id string, busy bool) {
	r := &c.retries
	r.mu.Lock()
	if !slices.Contains(r.ids, id) {
		r.ids = append(r.ids, id)
	}
	r.mu.Unlock()
	r.signal(busy)
}

// signal tells the loop that there is something to retry.
func (r *retries) signal(busy bool) {
	to := r.wake
	if busy {
		to = r.urgent
	}
	select {
	case to <- struct{}{}:
	default:
	}
}

// waiting tells whether there are any.
func (r *retries) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids) > 0
}

// retryAll is one round, of the loop or somebody else. It tells whether anything
// came of it.
func (c *Coordinator) retryAll(ctx context.Context, loop bool) (progress bool) {
	r := &c.retries
	r.mu.Lock()
	ids := r.ids
	r.ids = nil
	r.mu.Unlock()
	for i, id := range ids {
		if ctx.Err() != nil {
			r.mu.Lock()
			r.ids = append(r.ids, ids[i:]...)
			r.mu.Unlock()
			return progress
		}
		if c.retry(ctx, id, loop) {
			progress = true
		}
	}
	return progress
}

// retry carries a decision out, or as much of it as can be now.
func (c *Coordinator) retry(ctx context.Context, id string, loop bool) (progress bool) {
	if err := c.usable(ctx, id); err != nil {
		c.postpone(id)
		return false
	}
	k := c.claim(id, true)
	if k == nil {
		return true // it is done, or somebody else is at it
	}
	before := len(k.left)
	done, busy := c.carry(k, c.o.Manual)
	progress = done || len(k.left) < before
	k.release()
	switch {
	case done:
	case busy && loop && c.waitSlowly(id):
	default:
		c.postpone(id)
	}
	if busy && !loop {
		c.retries.signal(true)
	}
	return progress
}

// postpone leaves a decision to the next round.
func (c *Coordinator) postpone(id string) {
	r := &c.retries
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.ids, id) {
		r.ids = append(r.ids, id)
	}
}

// waitSlowly carries a decision out beside the loop, since it has to wait for a
// partition; not if too many do. Only the loop calls it, for whose end Close waits.
func (c *Coordinator) waitSlowly(id string) bool {
	select {
	case c.slow <- struct{}{}:
	default:
		return false
	}
	c.work.Go(func() { // ends when the partition serves, or with background
		defer func() { <-c.slow }()
		k := c.claim(id, true)
		if k == nil {
			return
		}
		done, _ := c.carry(k, true)
		k.release()
		if !done {
			c.again(id, false)
		}
	})
	return true
}
