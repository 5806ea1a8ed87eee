package txn

import (
	"context"
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// orphan is a producer with open transactions in partitions where the transaction
// log does not list them: nobody would end those.
type orphan struct {
	producer   int64  // id
	id         string // transactional id, "" if unknown
	partitions []topic.Partition
}

// sweep ends orphaned transactions. Those of producers that are not ours are left
// to the operator: see Hanging.
func (c *Coordinator) sweep(ctx context.Context) error {
	found, err := c.orphans(ctx)
	if err != nil {
		return err
	}
	for _, o := range found {
		epoch, err := c.raise(ctx, o)
		if err != nil {
			return err
		}
		for _, tp := range o.partitions {
			if err := c.endOrphan(o, tp, epoch); err != nil {
				c.o.Events(Event{Kind: EventMarkerFailed, TransactionalID: o.id, Producer: o.producer, Partition: tp, Err: err})
				continue
			}
			c.o.Events(Event{Kind: EventOrphanEnded, TransactionalID: o.id, Producer: o.producer, Partition: tp})
		}
	}
	return nil
}

func (c *Coordinator) endOrphan(o orphan, tp topic.Partition, epoch int16) error {
	l, err := c.p.Partition(tp)
	if err != nil {
		return err
	}
	m := batch.Marker{Producer: batch.Producer{ID: o.producer, Epoch: epoch}, Timestamp: c.now()}
	if info, known := l.Producer(o.producer); known {
		m.CoordinatorEpoch = max(info.CoordinatorEpoch, 0)
	}
	_, err = l.AppendMarker(c.background, m, log.MarkerOptions{NoWait: true})
	return err
}

// orphans finds them, by producer id.
func (c *Coordinator) orphans(ctx context.Context) ([]orphan, error) {
	ids := map[int64]*entry{}
	c.each(func(e *entry) { ids[e.t.Producer.ID] = e })
	found := map[int64]*orphan{}
	for tp := range c.p.All() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, err := c.p.Partition(tp)
		if err != nil {
			continue // it is looked at when the store is opened again
		}
		for _, open := range l.Ongoing() {
			e := ids[open.Producer.ID]
			if e == nil && !c.p.Reserved(open.Producer.ID) || e != nil && e.t.lists(tp, open.Producer.Epoch) {
				continue
			}
			o := found[open.Producer.ID]
			if o == nil {
				o = &orphan{producer: open.Producer.ID}
				found[o.producer] = o
			}
			if e != nil {
				o.id = e.id
			}
			o.partitions = append(o.partitions, tp)
		}
	}
	list := make([]orphan, 0, len(found))
	for _, o := range found {
		list = append(list, *o)
	}
	slices.SortFunc(list, func(a, b orphan) int { return int(min(max(a.producer-b.producer, -1), 1)) })
	return list, nil
}

// lists tells whether what is open in a partition under an epoch belongs to the
// transaction. A decision may have raised the epoch above that of its data.
func (t *Transaction) lists(tp topic.Partition, epoch int16) bool {
	mine := epoch == t.Producer.Epoch || t.State.prepared() && epoch == t.Producer.Epoch-1
	return mine && t.has(tp) && (t.State == Ongoing || t.State.prepared())
}

// raise gives the epoch for the markers of an orphan: above all that the
// transaction log and any partition have for its producer, so that it is fenced.
// That of a known id is in the transaction log, safe, before any marker.
func (c *Coordinator) raise(ctx context.Context, o orphan) (epoch int16, err error) {
	known := int16(batch.None)
	for tp := range c.p.All() {
		if l, err := c.p.Partition(tp); err == nil {
			if info, there := l.Producer(o.producer); there {
				known = max(known, info.Producer.Epoch)
			}
		}
	}
	if o.id == "" {
		return min(known, lastEpoch-1) + 1, nil
	}
	d, at, err := c.change(ctx, o.id, func(s subject) (d decision, err error) {
		d, epoch = decideRaise(s, known, !c.o.TV1, c.now())
		return d, nil
	})
	if err == nil && d.log {
		err = c.wait(ctx, []position{at}, log.DurabilityDefault)
	}
	if err != nil {
		return 0, fmt.Errorf("raise the epoch of %q: %w", o.id, err)
	}
	if d.target.State == PrepareAbort {
		c.abandon(o.id, false)
	}
	return epoch, nil
}

// abortTorn aborts the open transactions that may have lost something.
func (c *Coordinator) abortTorn(ctx context.Context) error {
	var ids []string
	c.each(func(e *entry) {
		if e.t.State == Ongoing && slices.ContainsFunc(e.t.Partitions, c.o.Torn) {
			ids = append(ids, e.id)
		}
	})
	var ends []position
	for _, id := range ids {
		at, err := c.fence(ctx, id, EventTorn)
		if err != nil {
			return fmt.Errorf("%q: %w", id, err)
		}
		if at.log != nil {
			ends = append(ends, at)
		}
	}
	return c.wait(ctx, ends, log.DurabilityDefault)
}
