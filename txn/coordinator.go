package txn

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Coordinator decides on transactions. All methods are safe for concurrent use.
type Coordinator struct {
	o      Options
	p      Participants
	states []statePartition
	shards [shardCount]shard
	seed   maphash.Seed
	ids    ids

	background context.Context
	stop       context.CancelFunc
	closed     atomic.Bool
	work       sync.WaitGroup // the loop, and who waits for a partition
	retries    retries
	slow       chan struct{} // a token for each who waits for a participant
	expiredAt  atomic.Int64  // ms: when ids were last looked through
	counters   counters
}

// statePartition is one partition of the transaction log.
type statePartition struct {
	topic.Partition
	// log is the one that was read. A write goes to it or nowhere: another one in
	// its place may have lost what is known here, and is read first.
	log atomic.Pointer[log.Log]
	// unsure says that a write failed in a way that may have left it there: what
	// the log holds is read again before anything is decided on.
	unsure atomic.Bool
	mu     sync.Mutex // reading again
}

type counters struct {
	committed, aborted, fenced, timedOut, expired atomic.Int64
}

// Open reads the transaction log, carries on what it says was decided, and ends
// open transactions in partitions that it does not know of. On return all of
// that is published, and what aborts a transaction that lost something is safe.
//
// A partition of the transaction log that cannot be read does not keep it from
// opening: its ids answer ErrUnavailable, with the reason (a *RecordError, those of
// the log), until it can, and orphans are left to the next Open.
func Open(ctx context.Context, o Options, p Participants) (*Coordinator, error) {
	c := &Coordinator{o: o.withDefaults(), p: p, seed: maphash.MakeSeed(), slow: make(chan struct{}, slowMax)}
	c.background, c.stop = context.WithCancel(context.Background())
	c.ids.reserve = p.ReserveIDs
	c.retries.wake, c.retries.urgent = make(chan struct{}, 1), make(chan struct{}, 1)
	c.states = make([]statePartition, p.StatePartitions())
	if len(c.states) == 0 && !o.ReadOnly {
		return nil, fmt.Errorf("%w: the transaction log has no partitions", ErrInvalidRequest)
	}
	for i := range c.shards {
		c.shards[i].entries = map[string]*entry{}
	}
	if err := c.start(ctx); err != nil {
		c.Close()
		return nil, err
	}
	c.expiredAt.Store(c.now())
	if !c.o.Manual && !c.o.ReadOnly {
		c.work.Go(c.loop) // ends with background
	}
	return c, nil
}

func (c *Coordinator) start(ctx context.Context) error {
	whole := true
	for i := range c.states {
		c.states[i].Partition = topic.Partition{Topic: topic.TransactionState, Index: int32(i)}
		switch err := c.load(ctx, i); {
		case errors.Is(err, ErrPartitionGone): // made when it is needed
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			// The others serve; this one is tried again with each request for it.
			c.states[i].unsure.Store(true)
			whole = false
			c.o.Events(Event{Kind: EventUnreadable, Partition: c.states[i].Partition, Err: err})
		}
	}
	if c.o.ReadOnly {
		return nil
	}
	for i := range c.states {
		c.resume(i)
	}
	if err := c.abortTorn(ctx); err != nil {
		return fmt.Errorf("abort transactions that lost something: %w", err)
	}
	if !whole { // what looks like an orphan may be listed in what could not be read
		return nil
	}
	if err := c.sweep(ctx); err != nil {
		return fmt.Errorf("end orphaned transactions: %w", err)
	}
	return nil
}

// Close ends the coordinator's own work. Decisions that are not carried out yet
// are by whoever opens it next. It does not close any log.
func (c *Coordinator) Close() {
	if c.closed.Swap(true) {
		return
	}
	c.stop()
	c.work.Wait()
}

// loop does what is due until Close.
func (c *Coordinator) loop() {
	look := time.NewTicker(c.o.AbortInterval)
	defer look.Stop()
	retry, pause := time.NewTimer(0), retryAfter
	defer retry.Stop()
	for armed := true; ; {
		progress := true
		select {
		case <-c.background.Done():
			return
		case <-look.C:
			c.look(c.background)
			continue
		case <-c.retries.wake:
			if armed && pause == retryAfter {
				continue
			}
		case <-c.retries.urgent:
			c.retryAll(c.background, true)
		case <-retry.C:
			progress = c.retryAll(c.background, true)
		}
		if pause = min(2*pause, retryAfterMax); progress {
			pause = retryAfter
		}
		if armed = c.retries.waiting(); armed {
			retry.Reset(pause)
		}
	}
}

// Work aborts transactions that took too long, forgets ids that were not used,
// and tries completions again that failed. The coordinator does it by itself
// unless Options.Manual is set.
func (c *Coordinator) Work(ctx context.Context) {
	if c.closed.Load() || c.o.ReadOnly {
		return
	}
	if c.retryAll(ctx, false); c.retries.waiting() {
		c.retries.signal(false) // the loop may have found nothing meanwhile
	}
	c.look(ctx)
}

// look goes through what is known.
func (c *Coordinator) look(ctx context.Context) {
	c.abortExpired(ctx)
	c.forgetExpired(ctx)
}

func (c *Coordinator) now() int64 { return c.o.Now().UnixMilli() }

// statePartitionOf is where the records of an id are.
func (c *Coordinator) statePartitionOf(id string) int { return PartitionOf(id, len(c.states)) }

// usable makes sure that what is known of an id may be changed.
func (c *Coordinator) usable(ctx context.Context, id string) error {
	if c.o.ReadOnly {
		return log.ErrReadOnly
	}
	if err := c.current(ctx, id); err != nil {
		return err
	}
	if n := c.statePartitionOf(id); c.states[n].log.Load() == nil {
		return c.begin(ctx, n)
	}
	return nil
}

// begin makes the transaction log, for the first that needs it.
func (c *Coordinator) begin(ctx context.Context, n int) error {
	if err := c.p.Create(ctx, topic.TransactionState); err != nil {
		return fmt.Errorf("%w: make the transaction log: %w", ErrUnavailable, err)
	}
	return c.reload(ctx, n)
}

// current makes sure that what is known of an id is what its log holds.
func (c *Coordinator) current(ctx context.Context, id string) error {
	switch {
	case c.closed.Load():
		return ErrClosed
	case id == "":
		return fmt.Errorf("%w: the transactional id is empty", ErrInvalidRequest)
	case len(id) > idBytesMax:
		return fmt.Errorf("%w: the transactional id has %d bytes, at most %d are possible", ErrInvalidRequest, len(id), idBytesMax)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(c.states) == 0 { // a directory that is only read, and never had a transaction
		return nil
	}
	p := &c.states[c.statePartitionOf(id)]
	l, err := c.p.Partition(p.Partition)
	if errors.Is(err, ErrPartitionGone) && p.log.Load() == nil {
		return nil // no transaction was ever begun
	}
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if !p.unsure.Load() && p.log.Load() == l {
		return nil
	}
	return c.reload(ctx, c.statePartitionOf(id))
}

// idBytesMax is the longest transactional id that a record can hold.
const idBytesMax = 1<<15 - 1

// Metrics of a coordinator.
type Metrics struct {
	IDs, Ongoing, Completing                      int   // ids known; with an open transaction; with a decision that is being carried out
	Committed, Aborted, Fenced, TimedOut, Expired int64 // since Open
}

// Metrics takes a snapshot. It goes through all ids.
func (c *Coordinator) Metrics() Metrics {
	m := Metrics{
		Committed: c.counters.committed.Load(), Aborted: c.counters.aborted.Load(), Fenced: c.counters.fenced.Load(),
		TimedOut: c.counters.timedOut.Load(), Expired: c.counters.expired.Load(),
	}
	c.each(func(e *entry) {
		m.IDs++
		if e.t.State == Ongoing {
			m.Ongoing++
		}
		if e.t.State.prepared() {
			m.Completing++
		}
	})
	return m
}

// wait returns once what is published in these logs is visible, and safe at a
// level if that is stronger than theirs.
func (c *Coordinator) wait(ctx context.Context, ends []position, level log.Durability) error {
	for _, e := range ends {
		if err := e.log.Await(ctx, e.end, level); err != nil {
			return err
		}
	}
	return nil
}

// position is a log up to an offset.
type position struct {
	log *log.Log
	end int64
}
