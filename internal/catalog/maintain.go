package catalog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// How often the loop looks at how much was appended: often while there is
// anything, since a fast writer fills a checkpoint's worth in no time.
const (
	tickBusy = 100 * time.Millisecond
	tickIdle = time.Second
)

// maintenance is what the loop knows.
type maintenance struct {
	seen      map[topic.Partition]seen
	retention time.Time // of the last round
	expiry    time.Time
}

// seen is what the loop knows about one log.
type seen struct {
	log      *log.Log
	bytes    int64     // appended when it was last checkpointed
	since    time.Time // the first append after that was seen, zero: none
	notUntil time.Time // after a failure
}

// maintain is the one goroutine for what is due by time: checkpoints,
// retention, expiry of producers. An error is told and tried again later; it
// never keeps other partitions from their turn. It ends when background does.
func (c *Catalog) maintain() {
	timer := time.NewTimer(tickIdle)
	defer timer.Stop()
	m := &c.maintained
	m.seen = map[topic.Partition]seen{}
	m.retention, m.expiry = time.Now(), time.Now()
	for {
		select {
		case <-timer.C:
		case <-c.full:
			c.tryFreeJournal(c.background)
			continue
		case <-c.background.Done():
			return
		}
		now := time.Now()
		c.tick(now)
		c.trySettle()
		c.tryFreeJournal(c.background)
		busy := c.checkpointDue(now)
		if now.Sub(m.retention) >= c.o.RetentionInterval {
			m.retention = now
			c.retain()
		}
		if now.Sub(m.expiry) >= c.o.ExpiryInterval {
			m.expiry = now
			c.expire()
		}
		if busy {
			timer.Reset(min(tickBusy, c.o.CheckpointInterval))
		} else {
			timer.Reset(min(tickIdle, c.o.CheckpointInterval, c.o.RetentionInterval, c.o.ExpiryInterval))
		}
	}
}

// tick tells the logs the time, unless they were given a clock.
func (c *Catalog) tick(now time.Time) {
	if c.o.machineClock {
		c.workers.Tick(now)
	}
}

// checkpointDue makes the checkpoints that are due and tells whether anything
// was appended since the last ones.
func (c *Catalog) checkpointDue(now time.Time) (busy bool) {
	list := c.serving()
	next := make(map[topic.Partition]seen, len(c.maintained.seen))
	var due []*partition
	for _, p := range list {
		s := c.maintained.seen[p.Partition]
		if s.log != p.log {
			s = seen{log: p.log}
		}
		appended := p.log.AppendedBytes()
		switch {
		case appended == s.bytes:
			s.since = time.Time{}
		case s.since.IsZero():
			s.since = now
		}
		waiting := !s.since.IsZero()
		busy = busy || waiting
		if waiting && !now.Before(s.notUntil) && (appended-s.bytes >= c.o.CheckpointBytes || now.Sub(s.since) >= c.o.CheckpointInterval) {
			due = append(due, p)
			s.bytes, s.since = appended, time.Time{}
		}
		if s.bytes > 0 || waiting {
			next[p.Partition] = s
		}
	}
	c.maintained.seen = next
	if len(due) == 0 {
		return busy
	}
	failed := c.checkpointSome(c.background, due)
	for tp, err := range failed {
		s := next[tp]
		s.bytes, s.notUntil = -1, now.Add(c.o.CheckpointInterval)
		next[tp] = s
		c.failed(tp, "checkpoint", err)
	}
	return busy
}

// serving are the partitions that take appends. A latched one gets no
// maintenance until it is reopened.
func (c *Catalog) serving() []*partition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	list := make([]*partition, 0, len(c.partitions))
	for _, p := range c.partitions {
		if p.log != nil && p.log.Failed() == nil {
			list = append(list, p)
		}
	}
	return list
}

// Work does what is due in the background, of a manual catalog: flushes that
// nobody waits for, sealing, preparing.
func (c *Catalog) Work() {
	c.trySettle()
	if j := c.backing.running(); j != nil {
		j.Run()
		c.tryFreeJournal(context.Background()) // also while Close waits for it
		j.Run()
	}
	c.workers.Run()
}

// trySettle ends the doubt of a change that failed, and carries out a deletion
// that was in doubt. A failure is told and tried again with the next tick.
func (c *Catalog) trySettle() {
	if !c.unsure.Load() || !c.changeMu.TryLock() {
		return
	}
	defer c.changeMu.Unlock()
	if err := c.changeable(); err != nil {
		c.failed(topic.Partition{}, "manifest", err)
		return
	}
	_ = c.finishDeletions("") // it tells what it could not do
}

// tryFreeJournal frees what is due of the journal, unless somebody is at it. A
// failure is told and tried again with the next tick.
func (c *Catalog) tryFreeJournal(ctx context.Context) {
	if !c.freeing.CompareAndSwap(false, true) {
		return
	}
	defer c.freeing.Store(false)
	if err := c.freeJournal(ctx); err != nil {
		c.failed(topic.Partition{}, "journal", err)
	}
}

// Checkpoint checkpoints all partitions that serve and records their points.
func (c *Catalog) Checkpoint(ctx context.Context) error {
	list := c.serving()
	slices.SortFunc(list, func(a, b *partition) int { return a.Compare(b.Partition) })
	return c.checkpointAll(ctx, list)
}

// checkpointSome checkpoints logs, records all their points with one rewrite
// of the files, and gives the errors by partition.
func (c *Catalog) checkpointSome(ctx context.Context, list []*partition) map[topic.Partition]error {
	errs := make([]error, len(list))
	_ = sideBySide(len(list), c.o.Parallelism, func(i int) error {
		errs[i] = list[i].log.CheckpointTo(ctx, func(points log.Points) { c.enter(list[i], points) })
		return nil
	})
	err := c.book.write(ctx, true)
	failed := map[topic.Partition]error{}
	for i, p := range list {
		if e := errors.Join(errs[i], err); e != nil {
			failed[p.Partition] = e
		}
	}
	return failed
}

// enter enters the points of a partition, unless it was deleted or opened again
// since: what stands under its name then is not its own.
func (c *Catalog) enter(p *partition, points log.Points) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.partitions[p.Partition] == p {
		c.book.set(p.Partition, points)
	}
}

// checkpointAll is checkpointSome with the errors joined.
func (c *Catalog) checkpointAll(ctx context.Context, list []*partition) error {
	var errs error
	for _, err := range c.checkpointSome(ctx, list) {
		errs = errors.Join(errs, err)
	}
	return errs
}

func (c *Catalog) retain() {
	for _, p := range c.serving() {
		if _, err := p.log.Retain(c.background); err != nil {
			c.failed(p.Partition, "retention", err)
		}
	}
	// Close waits for this goroutine with changeMu held.
	if !c.changeMu.TryLock() {
		return
	}
	defer c.changeMu.Unlock()
	if c.changeable() == nil {
		_ = c.finishDeletions("") // it tells what it could not do
	}
}

func (c *Catalog) expire() {
	for _, p := range c.serving() {
		p.log.ExpireProducers()
	}
}

// failed tells of background work that went wrong, but not of what closing the
// store or deleting the topic cut short.
func (c *Catalog) failed(tp topic.Partition, what string, err error) {
	if errors.Is(err, log.ErrClosed) || c.background.Err() != nil {
		return
	}
	c.event(Event{Kind: EventMaintenanceFailed, Partition: tp, File: what, Err: err})
}
