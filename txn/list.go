package txn

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Description is what is known of a transactional id.
type Description struct {
	TransactionalID string
	Producer        batch.Producer
	State           State
	Timeout         time.Duration
	Start           time.Time // of the open transaction, or the last one; zero: none
	Updated         time.Time
	// Partitions are those of the open transaction; of a decision those that have
	// no marker yet.
	Partitions []topic.Partition
}

func (e *entry) describe() Description {
	d := Description{
		TransactionalID: e.id, Producer: e.t.Producer, State: e.t.State,
		Timeout: time.Duration(e.t.TimeoutMs) * time.Millisecond, Updated: time.UnixMilli(e.t.UpdatedMs),
	}
	if e.t.StartMs >= 0 {
		d.Start = time.UnixMilli(e.t.StartMs)
	}
	list := e.t.Partitions
	if e.t.State.prepared() {
		list = e.left
	}
	d.Partitions = slices.Clone(list)
	return d
}

// Describe tells what is known of a transactional id. Errors: ErrUnknownID,
// ErrInvalidRequest, ErrUnavailable, ErrClosed.
func (c *Coordinator) Describe(ctx context.Context, id string) (Description, error) {
	if err := c.current(ctx, id); err != nil {
		return Description{}, err
	}
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[id]
	if e == nil || e.pending == Dead || e.t.Producer.Epoch < 0 {
		return Description{}, fmt.Errorf("%w: %q", ErrUnknownID, id)
	}
	return e.describe(), nil
}

// Filter says which ids List gives: those that fit all that is set.
type Filter struct {
	States      []State
	ProducerIDs []int64
	Longer      time.Duration // open for longer; ids without a transaction pass too, as in Kafka
	Pattern     *regexp.Regexp
}

func (f *Filter) fits(e *entry, now int64) bool {
	switch {
	case e.pending == Dead || e.t.Producer.Epoch < 0:
		return false
	case len(f.States) > 0 && !slices.Contains(f.States, e.t.State):
		return false
	case len(f.ProducerIDs) > 0 && !slices.Contains(f.ProducerIDs, e.t.Producer.ID):
		return false
	case f.Longer > 0 && now-e.t.StartMs <= f.Longer.Milliseconds():
		return false
	case f.Pattern != nil:
		m := f.Pattern.FindStringIndex(e.id)
		return m != nil && m[0] == 0 && m[1] == len(e.id)
	}
	return true
}

// List describes the ids that fit, in order.
func (c *Coordinator) List(f Filter) []Description {
	var list []Description
	now := c.now()
	c.each(func(e *entry) {
		if f.fits(e, now) {
			list = append(list, e.describe())
		}
	})
	slices.SortFunc(list, func(a, b Description) int { return cmp.Compare(a.TransactionalID, b.TransactionalID) })
	return list
}

// Abort aborts the open transaction of an id by force: its producer is fenced. It
// answers once the decision is safe. Errors: ErrUnknownID, ErrInvalidState (no
// transaction is open), ErrConcurrent, ErrUnavailable, ErrClosed.
func (c *Coordinator) Abort(ctx context.Context, id string) error {
	d, err := c.Describe(ctx, id)
	if err != nil {
		return err
	}
	if d.State != Ongoing {
		return fmt.Errorf("%w: abort of %q in state %s", ErrInvalidState, id, d.State)
	}
	at, err := c.fence(ctx, id, EventFenced)
	if err != nil || at.log == nil {
		return err
	}
	return unsure(c.wait(ctx, []position{at}, log.DurabilityDefault))
}

// Hanging is an open transaction in a partition that no coordinator will end.
type Hanging struct {
	Partition topic.Partition
	Producer  batch.Producer
	First     int64     // offset of its first batch: the last stable offset stands there
	Last      time.Time // of its last batch, by its own timestamp
}

// Hanging finds the open transactions that the transaction log does not know of
// in their partition, and that are older than an age: younger ones may just be
// beginning. 0: as old as a transaction can get, and five minutes.
func (c *Coordinator) Hanging(ctx context.Context, age time.Duration) ([]Hanging, error) {
	if age == 0 {
		age = c.o.TimeoutMax + 5*time.Minute
	}
	ids := map[int64]Transaction{}
	c.each(func(e *entry) {
		t := e.t
		t.Partitions = slices.Clone(t.Partitions)
		ids[t.Producer.ID] = t
	})
	var found []Hanging
	for tp := range c.p.All() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, err := c.p.Partition(tp)
		if err != nil {
			continue
		}
		for _, open := range l.Ongoing() {
			t, known := ids[open.Producer.ID]
			if known && t.has(tp) && (t.State == Ongoing || t.State.prepared()) {
				continue // the coordinator ends it
			}
			if c.now()-open.LastTimestamp < age.Milliseconds() {
				continue
			}
			found = append(found, Hanging{Partition: tp, Producer: open.Producer, First: open.First, Last: time.UnixMilli(open.LastTimestamp)})
		}
	}
	return found, nil
}

// EndHanging aborts such a transaction in its partition, with the epoch that its
// producer has there. It answers once the last stable offset can move on.
func (c *Coordinator) EndHanging(ctx context.Context, h Hanging) error {
	l, err := c.p.Partition(h.Partition)
	if err != nil {
		return err
	}
	info, known := l.Producer(h.Producer.ID)
	if !known || info.TxnFirst < 0 {
		return fmt.Errorf("%w: producer %d has no open transaction in %s", ErrInvalidState, h.Producer.ID, h.Partition)
	}
	m := batch.Marker{Producer: info.Producer, CoordinatorEpoch: max(info.CoordinatorEpoch, 0), Timestamp: c.now()}
	_, err = l.AppendMarker(ctx, m, log.MarkerOptions{})
	return err
}
