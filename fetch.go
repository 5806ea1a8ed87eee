package oncelog

import (
	"context"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// Isolation says how far a reader sees.
type Isolation = log.Isolation

// The isolation levels.
const (
	ReadUncommitted = log.ReadUncommitted // all that is safe at the topic's level
	ReadCommitted   = log.ReadCommitted   // without open transactions, and aborted ones named to be left out
)

// Fetched is what was read from one partition; Close gives its memory back.
type Fetched = log.Fetched

// FetchRequest asks for batches of one partition.
type FetchRequest struct {
	TopicPartition
	Offset   int64 // the batch that holds it comes first
	BytesMax int   // of the answer; 0: 1 MiB
}

// FetchOptions of Fetch.
type FetchOptions struct {
	Isolation Isolation
	// BytesMax bounds the answer over all partitions; 0: 50 MiB. It and the
	// bound of a partition are exceeded by one thing only: the first batch of
	// the first partition that has any comes whole.
	BytesMax int
	// WaitMax is how long to wait until BytesMin bytes can be answered. An
	// error in a partition ends the wait. 0: do not wait.
	WaitMax  time.Duration
	BytesMin int // 0: 1
	// Unchecked skips the checksums of what is answered, for a caller that
	// hands the bytes to somebody who checks them.
	Unchecked bool
	// Results is used for the answer if it has room.
	Results []FetchResult
}

// fetchBytesDefault is the default of FetchOptions.BytesMax.
const fetchBytesDefault = 50 << 20

// FetchResult answers one request: Fetched, which must be closed, or Err. The
// methods of Fetched may be called in either case; its fields are there without
// Err only.
type FetchResult struct {
	TopicPartition
	*Fetched
	Err error

	lease uint64 // of Fetched
}

// Close gives the memory of an answer back, if there is any and no copy of the
// result was closed before.
func (r *FetchResult) Close() {
	if r.Fetched != nil {
		r.Fetched.CloseLease(r.lease)
		r.Fetched = nil
	}
}

// Fetch answers whole batches of several partitions, in the order of the
// requests. An answer without batches, at the end of what the isolation level
// shows, is no error. What is wrong with one partition is in its result:
// ErrUnknownPartition, a *OffsetError, a *CorruptionError, what it refuses
// with. Close each result.
//
// When ctx ends while Fetch waits, its error is returned and nothing else.
func (s *Store) Fetch(ctx context.Context, requests []FetchRequest, o FetchOptions) ([]FetchResult, error) {
	if o.BytesMax == 0 {
		o.BytesMax = fetchBytesDefault
	}
	o.BytesMin = max(o.BytesMin, 1)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.fetches.Add(1)
	results := o.Results[:0]
	for _, r := range requests {
		results = append(results, FetchResult{TopicPartition: r.TopicPartition})
	}
	if s.read(results, requests, &o) || o.WaitMax <= 0 {
		return results, nil
	}
	return s.poll(ctx, results, requests, &o)
}

// read reads every partition once and tells whether that is enough for an
// answer.
func (s *Store) read(results []FetchResult, requests []FetchRequest, o *FetchOptions) (enough bool) {
	left, total, more := o.BytesMax, 0, false
	for i := range requests {
		r := &requests[i]
		most := r.BytesMax
		if most == 0 {
			most = log.DefaultReadBytes
		}
		f, err := s.readOne(r, log.ReadOptions{
			Isolation: o.Isolation, Unchecked: o.Unchecked,
			BytesMax: max(min(most, left), 1), NoOversize: total > 0,
		})
		results[i].Fetched, results[i].Err, results[i].lease = f, err, f.Lease()
		if err != nil {
			enough = true
			continue
		}
		total += len(f.Bytes())
		left -= len(f.Bytes())
		more = more || f.NextOffset() < shown(f, o.Isolation)
	}
	// An answer that there is more of, in the next segment or in a batch that
	// does not fit, grows by waiting no further.
	return enough || total >= min(o.BytesMin, o.BytesMax) || total > 0 && more
}

// shown is the bound of what the isolation level showed when it was read.
func shown(f *Fetched, i Isolation) int64 {
	if i == ReadCommitted {
		return f.LastStable
	}
	return f.HighWatermark
}

func (s *Store) readOne(r *FetchRequest, o log.ReadOptions) (*Fetched, error) {
	l, err := s.Partition(r.TopicPartition)
	if err != nil {
		return nil, err
	}
	f, err := l.Read(r.Offset, o)
	if err != nil {
		return nil, s.gone(r.TopicPartition, err)
	}
	return f, nil
}

// awaited is a partition during a wait.
type awaited struct {
	next   int64 // behind the batches that were counted
	seen   int64 // bound up to which
	cancel func()
}

// poll waits until there is enough and then reads once more, or until the time
// is over: then whatever there is is the answer. Meanwhile it counts what comes
// without reading it.
func (s *Store) poll(ctx context.Context, results []FetchResult, requests []FetchRequest, o *FetchOptions) ([]FetchResult, error) {
	s.waits.Add(1)
	timer := time.NewTimer(o.WaitMax)
	defer timer.Stop()
	ready := make(chan struct{}, 1) // one for all partitions
	waits := make([]awaited, len(results))
	defer func() { cancelAll(waits) }()
	lacked := await(waits, results, o)
	for missing := lacked; ; {
		for i := range waits {
			waits[i].cancel = s.subscribe(requests[i].TopicPartition, o.Isolation, waits[i].seen, ready)
		}
		over := false
		select {
		case <-ready:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			closeAll(results)
			return nil, ctx.Err()
		}
		cancelAll(waits)
		if over || missing > batch.HeaderSize { // else any batch is enough
			missing = s.count(waits, requests, o.Isolation, missing)
			if over && missing == lacked {
				return results, nil // nothing came
			}
			if !over && missing > 0 {
				continue
			}
		}
		closeAll(results)
		if s.read(results, requests, o) || over {
			return results, nil
		}
		lacked = await(waits, results, o)
		missing = lacked
	}
}

// await sets out to wait for more than these results: it tells how many bytes
// they lack.
func await(waits []awaited, results []FetchResult, o *FetchOptions) (missing int64) {
	missing = int64(min(o.BytesMin, o.BytesMax))
	for i := range results {
		f := results[i].Fetched
		waits[i] = awaited{next: f.NextOffset(), seen: shown(f, o.Isolation)}
		missing -= int64(len(f.Bytes()))
	}
	return missing
}

// count subtracts what came since from what is missing. It is 0 where a read
// has to tell what is wrong.
func (s *Store) count(waits []awaited, requests []FetchRequest, i Isolation, missing int64) int64 {
	for k := range waits {
		w := &waits[k]
		l, err := s.Partition(requests[k].TopicPartition)
		if err != nil {
			return 0
		}
		m, err := l.Measure(w.next, i)
		if err != nil {
			return 0
		}
		w.next, w.seen = m.Next, m.Bound
		missing -= m.Bytes
	}
	return missing
}

// subscribe asks for a token when a partition shows more than was seen.
func (s *Store) subscribe(tp TopicPartition, i Isolation, seen int64, ready chan struct{}) (cancel func()) {
	l, err := s.Partition(tp)
	if err != nil {
		select {
		case ready <- struct{}{}: // the next read tells it
		default:
		}
		return nil
	}
	frontier := log.FrontierHighWatermark
	if i == ReadCommitted {
		frontier = log.FrontierLastStable
	}
	return l.Subscribe(frontier, seen+1, ready)
}

func cancelAll(waits []awaited) {
	for i := range waits {
		if waits[i].cancel != nil {
			waits[i].cancel()
			waits[i].cancel = nil
		}
	}
}

func closeAll(results []FetchResult) {
	for i := range results {
		results[i].Close()
	}
}
