package txn

import (
	"context"
	"errors"
	"sync"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// carry is the carrying out of one decision. Its memory is used again.
type carry struct {
	entry *entry
	id    string
	t     Transaction
	log   *log.Log          // that holds the decision
	left  []topic.Partition // without a marker so far
	ends  []position        // of what was published
	// again says that somebody may have done part of it: this process before, or
	// the one before it.
	again bool
}

var carries = sync.Pool{New: func() any { return new(carry) }}

func (k *carry) release() {
	clear(k.ends)
	clear(k.left)
	*k = carry{left: k.left[:0], ends: k.ends[:0]}
	carries.Put(k)
}

// claim makes the caller the one who carries the decision of an id out; nil if
// there is none, or somebody else is at it. carry gives the claim back.
func (c *Coordinator) claim(id string, again bool) *carry {
	s, p := c.shard(id), &c.states[c.statePartitionOf(id)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[id]
	if e == nil || !e.t.State.prepared() || e.carried {
		return nil
	}
	e.carried = true
	k := carries.Get().(*carry)
	k.entry, k.id, k.t, k.log, k.again = e, id, e.t, p.log.Load(), again
	k.left = append(k.left[:0], e.left...)
	return k
}

// carry puts the markers of a decision into its partitions, and then what says
// that they are there into the transaction log. What cannot be done now is tried
// again later, and busy tells whether for want of patience only: a partition that
// would have to be waited for is left out unless wait is set.
func (c *Coordinator) carry(k *carry, wait bool) (done, busy bool) {
	err := c.barrier(c.background, k.id, nil) // no marker without its decision
	if err == nil {
		busy = c.markAll(k, wait)
		if len(k.left) == 0 {
			done, err = c.complete(k)
		}
	}
	s := c.shard(k.id)
	s.mu.Lock()
	k.entry.carried = false
	if !done && k.entry.t.State.prepared() {
		k.entry.left = append([]topic.Partition(nil), k.left...)
	}
	s.mu.Unlock()
	return done, busy
}

// markAll puts a marker into each partition that has none. Those that it could
// not are left.
func (c *Coordinator) markAll(k *carry, wait bool) (busy bool) {
	m := batch.Marker{Producer: k.t.Producer, Commit: k.t.State == PrepareCommit, CoordinatorEpoch: epochOf(k.log), Timestamp: c.now()}
	left := k.left[:0]
	for _, tp := range k.left {
		at, err := c.mark(k, tp, m, wait)
		switch {
		case errors.Is(err, log.ErrBusy):
			busy, left = true, append(left, tp)
		case err != nil:
			left = append(left, tp)
			c.tell(k, tp, err)
		case at.log != nil:
			k.ends = append(k.ends, at)
		}
	}
	k.left = left
	return busy
}

// tell tells of a marker that failed, once for a decision.
func (c *Coordinator) tell(k *carry, tp topic.Partition, err error) {
	s := c.shard(k.id)
	s.mu.Lock()
	told := k.entry.told
	k.entry.told = true
	s.mu.Unlock()
	if !told {
		c.o.Events(Event{Kind: EventMarkerFailed, TransactionalID: k.id, Producer: k.t.Producer.ID, Partition: tp, Err: err})
	}
}

// mark ends the transaction of a producer in one partition. The position has no
// log if there is nothing to wait for.
func (c *Coordinator) mark(k *carry, tp topic.Partition, m batch.Marker, wait bool) (position, error) {
	l, err := c.p.Partition(tp)
	if errors.Is(err, ErrPartitionGone) {
		return position{}, nil
	}
	if err != nil {
		return position{}, err
	}
	tv2 := k.t.ClientVersion == 2
	if info, known := l.Producer(m.Producer.ID); known {
		m.CoordinatorEpoch = max(m.CoordinatorEpoch, info.CoordinatorEpoch)
		switch {
		case info.Producer.Epoch > m.Producer.Epoch:
			if !k.again {
				c.o.Events(Event{Kind: EventMarkerVoid, TransactionalID: k.id, Producer: m.Producer.ID, Partition: tp})
			}
			return position{}, nil
		case k.again && info.Producer.Epoch == m.Producer.Epoch && (info.TxnFirst < 0 || tv2):
			return position{}, nil // what is open there is the next one
		}
	}
	a, err := l.AppendMarker(c.background, m, log.MarkerOptions{TV2: tv2, NoWait: true, Try: !wait})
	if err != nil {
		return position{}, err
	}
	if a.Duplicate { // it lies somewhere below
		return position{l, l.Frontiers().LogEnd}, nil
	}
	return position{l, a.LastOffset + 1}, nil
}

// complete logs that a decision is carried out.
func (c *Coordinator) complete(k *carry) (bool, error) {
	if err := c.barrier(c.background, k.id, k.t.Partitions); err != nil {
		return false, err
	}
	target := decideComplete(&k.t, c.now())
	at, err := c.write(c.background, k.id, k.log, &target)
	if err != nil {
		return false, err
	}
	k.ends = append(k.ends, at)
	s, p := c.shard(k.id), &c.states[c.statePartitionOf(k.id)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.log.Load() != k.log { // what was read since tells
		return false, log.ErrOutcomeUnknown
	}
	k.entry.apply(target)
	k.entry.hold(nil)
	k.entry.settle()
	return true, nil
}

// epochOf is the coordinator epoch of a partition of the transaction log: its
// leader epoch.
func epochOf(l *log.Log) int32 {
	if epochs := l.Epochs(); len(epochs) > 0 {
		return epochs[len(epochs)-1].Epoch
	}
	return 0
}

// barrier is one over partitions and what the transaction log says of an id.
func (c *Coordinator) barrier(ctx context.Context, id string, partitions []topic.Partition) error {
	b := barriers.Get().(*barrierSet)
	defer barriers.Put(b)
	b.set = append(append(b.set[:0], partitions...), c.states[c.statePartitionOf(id)].Partition)
	return c.p.Barrier(ctx, b.set)
}

type barrierSet struct{ set []topic.Partition }

var barriers = sync.Pool{New: func() any { return new(barrierSet) }}
