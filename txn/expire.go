package txn

import (
	"context"
	"errors"
	"time"

	"github.com/oncelog/oncelog/log"
)

// abortExpired aborts transactions that are open for longer than they may be. A
// clock that went back aborts none.
func (c *Coordinator) abortExpired(ctx context.Context) {
	now := c.now()
	var ids []string
	c.each(func(e *entry) {
		if e.pending == pendingNone && e.t.expired(now) {
			ids = append(ids, e.id)
		}
	})
	for _, id := range ids {
		if ctx.Err() != nil {
			return
		}
		if c.usable(ctx, id) != nil {
			continue
		}
		// What fails now is found again by the next look.
		_ = c.fence(ctx, id, EventTimedOut)
	}
}

// expiryInterval is how often unused ids are looked for.
const expiryInterval = time.Hour

// forgetExpired forgets transactional ids that nobody has used for long.
func (c *Coordinator) forgetExpired(ctx context.Context) {
	now := c.now()
	if now-c.expiredAt.Load() < min(expiryInterval, c.o.Expiration).Milliseconds() {
		return
	}
	c.expiredAt.Store(now)
	since := now - c.o.Expiration.Milliseconds()
	ids := make([][]string, len(c.states))
	c.each(func(e *entry) {
		if decideExpire(e.subject(), since) && e.t.Producer.Epoch >= 0 {
			n := c.statePartitionOf(e.id)
			ids[n] = append(ids[n], e.id)
		}
	})
	for n, list := range ids {
		for len(list) > 0 && ctx.Err() == nil && !c.states[n].unsure.Load() {
			k := min(len(list), c.o.ExpiryBatch)
			c.forget(ctx, n, list[:k], since)
			list = list[k:]
		}
	}
}

// forget writes tombstones for ids of one partition, those that are still unused.
func (c *Coordinator) forget(ctx context.Context, n int, ids []string, since int64) {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	w.reset()
	going := ids[:0:0]
	for _, id := range ids {
		s := c.shard(id)
		s.mu.Lock()
		if e := s.entries[id]; e != nil && decideExpire(e.subject(), since) {
			e.pending = Dead
			going = append(going, id)
			w.add(c.now(), id, nil)
		}
		s.mu.Unlock()
	}
	if len(going) == 0 {
		return
	}
	err := c.publish(ctx, n, w)
	for _, id := range going {
		s := c.shard(id)
		s.mu.Lock()
		e := s.entries[id]
		if err == nil {
			delete(s.entries, id)
		}
		e.settle()
		s.mu.Unlock()
		if err == nil {
			c.counters.expired.Add(1)
			c.o.Events(Event{Kind: EventExpired, TransactionalID: id})
		}
	}
}

func (c *Coordinator) publish(ctx context.Context, n int, w *writer) error {
	b, err := w.finish()
	if err != nil {
		return err
	}
	l, err := c.p.Partition(c.states[n].Partition)
	if err != nil {
		return err
	}
	_, err = l.Append(ctx, b, log.AppendOptions{NoWait: true, Origin: log.OriginCoordinator})
	if err != nil && !errors.Is(err, log.ErrNoSpace) {
		c.states[n].unsure.Store(true)
	}
	return err
}
