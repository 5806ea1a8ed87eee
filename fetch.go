package oncelog

import (
	"context"
	"time"

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

// FetchResult answers one request: Fetched, which must be closed, or Err.
type FetchResult struct {
	TopicPartition
	*Fetched
	Err error
}

// Close gives the memory of an answer back, if there is any.
func (r *FetchResult) Close() {
	if r.Fetched != nil {
		r.Fetched.Close()
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
	left, total := o.BytesMax, 0
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
		results[i].Fetched, results[i].Err = f, err
		if err != nil {
			enough = true
			continue
		}
		total += len(f.Bytes())
		left -= len(f.Bytes())
	}
	return enough || total >= min(o.BytesMin, o.BytesMax)
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

// poll reads again whenever a partition has more, until there is enough or the
// time is over: then whatever there is is the answer.
func (s *Store) poll(ctx context.Context, results []FetchResult, requests []FetchRequest, o *FetchOptions) ([]FetchResult, error) {
	s.waits.Add(1)
	timer := time.NewTimer(o.WaitMax)
	defer timer.Stop()
	ready := make(chan struct{}, 1) // one for all partitions
	cancels := make([]func(), 0, len(requests))
	defer func() {
		for _, cancel := range cancels {
			cancel()
		}
	}()
	for {
		for i := range results {
			if cancel := s.subscribe(&results[i], o.Isolation, ready); cancel != nil {
				cancels = append(cancels, cancel)
			}
		}
		select {
		case <-ready:
		case <-timer.C:
			return results, nil
		case <-ctx.Done():
			closeAll(results)
			return nil, ctx.Err()
		}
		for _, cancel := range cancels {
			cancel()
		}
		cancels = cancels[:0]
		closeAll(results)
		if s.read(results, requests, o) {
			return results, nil
		}
	}
}

// subscribe asks for a token when a partition shows more than was read.
func (s *Store) subscribe(r *FetchResult, i Isolation, ready chan struct{}) (cancel func()) {
	l, err := s.Partition(r.TopicPartition)
	if err != nil {
		select {
		case ready <- struct{}{}: // the next read tells it
		default:
		}
		return nil
	}
	frontier, seen := log.FrontierHighWatermark, r.Fetched.HighWatermark
	if i == ReadCommitted {
		frontier, seen = log.FrontierLastStable, r.Fetched.LastStable
	}
	return l.Subscribe(frontier, seen+1, ready)
}

func closeAll(results []FetchResult) {
	for i := range results {
		results[i].Close()
	}
}
