package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// load reads one partition of the transaction log, to its end: what is not safe
// yet may still become so.
func (c *Coordinator) load(ctx context.Context, n int) error {
	l, err := c.p.Partition(c.states[n].Partition)
	if err != nil {
		return err
	}
	found, err := c.replay(ctx, n, l)
	if err != nil {
		return err
	}
	// The log first: who wrote to the one before learns that it does not count.
	c.states[n].log.Store(l)
	c.install(n, found)
	return nil
}

// replay folds the records of a partition: the newest of each id counts.
func (c *Coordinator) replay(ctx context.Context, n int, l *log.Log) (map[string]Transaction, error) {
	found := map[string]Transaction{}
	var records batch.Records
	defer records.Close()
	f := l.Frontiers()
	for at := f.LogStart; at < f.LogEnd; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fetched, err := l.Read(at, log.ReadOptions{Replica: true})
		if err != nil {
			return nil, err
		}
		for b := range fetched.Batches() {
			if b.IsControl() {
				continue
			}
			for records.Reset(b); records.Next(); {
				if r := records.Record(); r.Offset >= at {
					err = errors.Join(err, c.fold(found, n, r))
				}
			}
			err = errors.Join(err, records.Err())
		}
		at = max(fetched.NextOffset(), at+1)
		fetched.Close()
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// fold takes one record in.
func (c *Coordinator) fold(found map[string]Transaction, n int, r *batch.Record) error {
	bad := func(err error) error {
		if errors.Is(err, errVersion) {
			c.o.Events(Event{Kind: EventSkipped, Partition: c.states[n].Partition, Err: fmt.Errorf("offset %d: %w", r.Offset, err)})
			return nil
		}
		return &RecordError{Partition: c.states[n].Partition, Offset: r.Offset, Reason: err.Error()}
	}
	id, err := ReadKey(r.Key)
	if err != nil {
		return bad(err)
	}
	if r.Value == nil {
		delete(found, id)
		return nil
	}
	t, err := ReadValue(r.Value)
	if err != nil {
		return bad(err)
	}
	found[id] = t
	return nil
}

// install makes what was read the state of a partition's ids. Where something is
// under way it goes on to fail, since it was for the log before.
func (c *Coordinator) install(n int, found map[string]Transaction) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for id, e := range s.entries {
			if _, there := found[id]; there || c.statePartitionOf(id) != n {
				continue
			}
			if e.t.State.prepared() {
				e.t.State = Dead // whoever waits for its end has it
				e.settle()
			}
			delete(s.entries, id)
		}
		s.mu.Unlock()
	}
	for id, t := range found {
		s := c.shard(id)
		s.mu.Lock()
		e := s.entries[id]
		if e == nil {
			e = &entry{id: id, pending: pendingNone}
			s.entries[id] = e
		}
		waits := e.pending != pendingNone && !e.t.State.prepared()
		e.memory = nil // somebody may still have it
		if e.apply(t); !waits {
			e.settle()
		}
		s.mu.Unlock()
	}
}

// reload reads a partition again once it was opened again, and carries on what it
// says was decided: after a write that may have failed or not, what it holds then
// counts.
func (c *Coordinator) reload(ctx context.Context, n int) error {
	read, err := c.readAgain(ctx, n)
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if read {
		c.resume(n)
	}
	return nil
}

// readAgain tells whether there was a need to.
func (c *Coordinator) readAgain(ctx context.Context, n int) (bool, error) {
	p := &c.states[n]
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := c.p.Partition(p.Partition)
	if err == nil {
		err = l.Failed()
	}
	if err != nil {
		return false, err
	}
	if p.log.Load() == l {
		// Somebody was quicker; or what failed was refused, and is not in the log.
		p.unsure.Store(false)
		return false, nil
	}
	p.unsure.Store(true)
	if err := c.load(ctx, n); err != nil {
		return false, err
	}
	p.unsure.Store(false)
	return true, nil
}

// resume carries on what was decided in one partition.
func (c *Coordinator) resume(n int) {
	var ids []string
	c.each(func(e *entry) {
		if e.t.State.prepared() && c.statePartitionOf(e.id) == n {
			ids = append(ids, e.id)
		}
	})
	for _, id := range ids {
		c.o.Events(Event{Kind: EventResumed, TransactionalID: id})
		c.abandon(id, true)
	}
}
