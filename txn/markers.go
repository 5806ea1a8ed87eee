package txn

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// positions is a list that is used again.
type positions struct{ list []position }

var positionLists = sync.Pool{New: func() any { return new(positions) }}

func (p *positions) release() {
	clear(p.list)
	p.list = p.list[:0]
	positionLists.Put(p)
}

// complete puts the markers of a decision into their partitions, and then what
// says that they are there into the transaction log. What cannot be done now is
// tried again later; done is false then. The positions are what was published.
//
// again says that an earlier life of the process may have done part of it.
func (c *Coordinator) complete(id string, again bool) (ends *positions, done bool) {
	ends = positionLists.Get().(*positions)
	s := c.shard(id)
	s.mu.Lock()
	e := s.entries[id]
	if e == nil || !e.t.State.prepared() {
		s.mu.Unlock()
		return ends, true
	}
	t, left := e.t, e.left
	s.mu.Unlock()
	m := batch.Marker{Producer: t.Producer, Commit: t.State == PrepareCommit, CoordinatorEpoch: c.epoch(id), Timestamp: c.now()}
	var failed []topic.Partition
	for _, tp := range left {
		at, err := c.mark(id, tp, m, t.ClientVersion == 2, again)
		if err != nil {
			failed = append(failed, tp)
			c.o.Events(Event{Kind: EventMarkerFailed, TransactionalID: id, Producer: t.Producer.ID, Partition: tp, Err: err})
		} else if at.log != nil {
			ends.list = append(ends.list, at)
		}
	}
	s.mu.Lock()
	e.left = failed
	s.mu.Unlock()
	if len(failed) > 0 {
		c.again(id)
		return ends, false
	}
	at, err := c.completed(id, &t)
	if err != nil {
		c.again(id)
		return ends, false
	}
	ends.list = append(ends.list, at)
	return ends, true
}

// completed logs that a decision is carried out.
func (c *Coordinator) completed(id string, t *Transaction) (position, error) {
	if err := c.barrier(c.background, id, t.Partitions); err != nil {
		return position{}, err
	}
	target := decideComplete(t, c.now())
	at, err := c.write(c.background, id, &target)
	if err != nil {
		return position{}, err
	}
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id]; e != nil && e.t.State == t.State && e.t.Producer == t.Producer {
		e.apply(target)
		e.settle()
	}
	return at, nil
}

// mark ends the transaction of a producer in one partition. The position has no
// log if there is nothing to wait for.
func (c *Coordinator) mark(id string, tp topic.Partition, m batch.Marker, tv2, again bool) (position, error) {
	l, err := c.p.Partition(tp)
	if errors.Is(err, ErrPartitionGone) {
		return position{}, nil
	}
	if err != nil {
		return position{}, err
	}
	if info, known := l.Producer(m.Producer.ID); known {
		m.CoordinatorEpoch = max(m.CoordinatorEpoch, info.CoordinatorEpoch)
		switch {
		case info.Producer.Epoch > m.Producer.Epoch:
			if !again {
				c.o.Events(Event{Kind: EventMarkerVoid, TransactionalID: id, Producer: m.Producer.ID, Partition: tp})
			}
			return position{}, nil
		case again && info.Producer.Epoch == m.Producer.Epoch && (info.TxnFirst < 0 || tv2):
			return position{}, nil // what is open there is the next one
		}
	}
	a, err := l.AppendMarker(c.background, m, log.MarkerOptions{TV2: tv2, NoWait: true})
	if err != nil {
		return position{}, err
	}
	end := a.LastOffset + 1
	if a.Duplicate {
		end = l.Frontiers().LogEnd
	}
	return position{l, end}, nil
}

// epoch is the coordinator epoch of an id: the leader epoch of its partition of
// the transaction log.
func (c *Coordinator) epoch(id string) int32 {
	l, err := c.p.Partition(c.states[c.statePartitionOf(id)].Partition)
	if err != nil {
		return 0
	}
	if epochs := l.Epochs(); len(epochs) > 0 {
		return epochs[len(epochs)-1].Epoch
	}
	return 0
}

// retries are the ids whose decisions could not be carried out yet.
type retries struct {
	mu    sync.Mutex // leaf
	ids   []string
	timer *time.Timer
	ended bool // no timer any more
}

// retryAfter is how long a completion that failed waits.
const retryAfter = 100 * time.Millisecond

// again has a completion tried again.
func (c *Coordinator) again(id string) {
	r := &c.retries
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.ids, id) {
		r.ids = append(r.ids, id)
	}
	if r.timer == nil && !c.o.Manual && !r.ended {
		c.work.Add(1)
		r.timer = time.AfterFunc(retryAfter, func() {
			defer c.work.Done()
			c.retryAll()
		})
	}
}

// end stops the timer.
func (r *retries) end(work *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.timer != nil && r.timer.Stop() {
		work.Done()
	}
}

func (c *Coordinator) retryAll() {
	r := &c.retries
	r.mu.Lock()
	ids := r.ids
	r.ids, r.timer = nil, nil
	r.mu.Unlock()
	for _, id := range ids {
		if c.background.Err() != nil {
			return
		}
		// Part of it may be there: as after a restart.
		ends, _ := c.complete(id, true)
		ends.release()
	}
}

// MarkerRequest asks for markers of one producer in some partitions.
type MarkerRequest struct {
	batch.Marker
	TV2        bool
	Partitions []topic.Partition
}

// WriteMarkers ends transactions by hand, without asking anybody: for an operator
// who found one that nobody ends, and for a coordinator elsewhere. The answer has
// an error or nil for each partition of each request, once the markers are
// visible.
func (c *Coordinator) WriteMarkers(ctx context.Context, requests []MarkerRequest) [][]error {
	answers := make([][]error, len(requests))
	for i, r := range requests {
		answers[i] = make([]error, len(r.Partitions))
		for j, tp := range r.Partitions {
			l, err := c.p.Partition(tp)
			if err == nil {
				_, err = l.AppendMarker(ctx, r.Marker, log.MarkerOptions{TV2: r.TV2})
			}
			answers[i][j] = err
		}
	}
	return answers
}
