package txn

import (
	"context"
	"time"
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
		_, _ = c.fence(ctx, id, EventTimedOut)
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
			list = list[c.forget(ctx, n, list[:min(len(list), c.o.ExpiryBatch)], since):]
		}
	}
}

// forgetBytes bounds a batch of tombstones.
const forgetBytes = 512 << 10

// forget writes tombstones for ids of one partition, those that are still unused.
// It answers how many of the list it dealt with.
func (c *Coordinator) forget(ctx context.Context, n int, ids []string, since int64) int {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	w.reset()
	l := c.states[n].log.Load()
	var going []*entry
	dealt := 0
	for ; dealt < len(ids) && (dealt == 0 || w.builder.Len() < forgetBytes); dealt++ {
		s := c.shard(ids[dealt])
		s.mu.Lock()
		if e := s.entries[ids[dealt]]; e != nil && decideExpire(e.subject(), since) {
			e.pending = Dead
			going = append(going, e)
			w.add(c.now(), e.id, nil)
		}
		s.mu.Unlock()
	}
	if len(going) == 0 {
		return dealt
	}
	b, err := w.finish()
	if err == nil {
		_, err = c.publish(ctx, n, l, b)
	}
	for _, e := range going {
		s := c.shard(e.id)
		s.mu.Lock()
		gone := err == nil && c.states[n].log.Load() == l
		if gone && s.entries[e.id] == e {
			delete(s.entries, e.id)
		}
		e.settle()
		s.mu.Unlock()
		if gone {
			c.counters.expired.Add(1)
			c.o.Events(Event{Kind: EventExpired, TransactionalID: e.id})
		}
	}
	return dealt
}
