package txn

import (
	"context"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// orphan is an open transaction in a partition that the transaction log does not
// list as ongoing there: nobody would end it.
type orphan struct {
	partition topic.Partition
	producer  batch.Producer
	id        string // transactional id, "" if unknown
}

// sweep ends orphaned transactions. Those of producers that are not ours are left
// to the operator: see Hanging.
func (c *Coordinator) sweep(ctx context.Context) error {
	found, highest, err := c.orphans(ctx)
	if err != nil {
		return err
	}
	raised := map[int64]int16{} // epoch of the markers, by producer id
	for _, o := range found {
		epoch, done := raised[o.producer.ID]
		if !done {
			if epoch, err = c.raise(ctx, o, highest[o.producer.ID]); err != nil {
				return err
			}
			raised[o.producer.ID] = epoch
		}
		l, err := c.p.Partition(o.partition)
		if err != nil {
			continue // it is ended when the partition serves again
		}
		m := batch.Marker{Producer: batch.Producer{ID: o.producer.ID, Epoch: epoch}, Timestamp: c.now()}
		if info, known := l.Producer(o.producer.ID); known {
			m.CoordinatorEpoch = max(info.CoordinatorEpoch, 0)
		}
		if _, err := l.AppendMarker(ctx, m, log.MarkerOptions{NoWait: true}); err != nil {
			c.o.Events(Event{Kind: EventMarkerFailed, TransactionalID: o.id, Producer: o.producer.ID, Partition: o.partition, Err: err})
			continue
		}
		c.o.Events(Event{Kind: EventOrphanEnded, TransactionalID: o.id, Producer: o.producer.ID, Partition: o.partition})
	}
	return nil
}

// orphans finds them, and the highest epoch that any partition knows of their
// producers.
func (c *Coordinator) orphans(ctx context.Context) (found []orphan, highest map[int64]int16, err error) {
	ids := map[int64]*entry{}
	c.each(func(e *entry) { ids[e.t.Producer.ID] = e })
	highest = map[int64]int16{}
	for tp := range c.p.All() {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		l, err := c.p.Partition(tp)
		if err != nil {
			continue
		}
		for _, open := range l.Ongoing() {
			e := ids[open.Producer.ID]
			switch {
			case e == nil && !c.p.Reserved(open.Producer.ID):
				continue
			case e != nil && e.t.has(tp) && (e.t.State == Ongoing || e.t.State.prepared()) && open.Producer.Epoch <= e.t.Producer.Epoch:
				continue
			}
			o := orphan{partition: tp, producer: open.Producer}
			if e != nil {
				o.id = e.id
			}
			found = append(found, o)
			highest[open.Producer.ID] = max(highest[open.Producer.ID], open.Producer.Epoch)
		}
	}
	return found, highest, nil
}

// raise gives the epoch for the markers of an orphan's producer: above all that
// anybody has, so that its producer is fenced. That of a known id is in the
// transaction log, safe, before any marker.
func (c *Coordinator) raise(ctx context.Context, o orphan, highest int16) (int16, error) {
	if o.id == "" {
		return min(highest, lastEpoch-1) + 1, nil
	}
	var epoch int16
	_, at, err := c.change(ctx, o.id, func(s subject) (decision, error) {
		if s.Transaction == nil || s.State.prepared() || s.State == Ongoing {
			// What is open is fenced when it ends; here it is ended as it is.
			epoch = highest
			return decision{}, nil
		}
		epoch = max(highest, s.Producer.Epoch)
		if epoch == lastEpoch {
			return decision{}, nil
		}
		epoch++
		d := decision{log: true, target: *s.Transaction}
		d.target.Producer.Epoch, d.target.LastEpoch, d.target.UpdatedMs = epoch, -1, c.now()
		return d, nil
	})
	if err == nil && at.log != nil {
		err = c.wait(ctx, []position{at}, log.DurabilityDefault)
	}
	if err != nil {
		return 0, fmt.Errorf("raise the epoch of %q: %w", o.id, err)
	}
	return epoch, nil
}
