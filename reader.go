package oncelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/delivery"
	"github.com/oncelog/oncelog/log"
)

// ReaderOptions of NewReader. Topic or Partitions must be set.
type ReaderOptions struct {
	Topic      string           // read all partitions that it has now
	Partitions []TopicPartition // or these
	// Isolation is ReadUncommitted unless said otherwise, as with every client of
	// Kafka's. ReadCommitted shows transactions whole or not at all.
	Isolation Isolation
	// Start is where to begin; the zero value is the first record there is.
	Start Start
	// Group has the reader begin where the group committed last, and at Start in
	// partitions for which it never did. While an open transaction commits offsets
	// there NewReader answers ErrUnstable: make the transactional producer first,
	// which ends what the one before it left open.
	Group string
	// BytesMax bounds what is read at once, over all partitions; 0: 50 MiB.
	BytesMax int
}

// Start is a place in a partition, wherever it is when the reader is made. The
// zero value is the beginning.
type Start struct {
	kind startKind
	at   int64
}

type startKind uint8

const (
	startEarliest startKind = iota
	startLatest
	startOffset
	startTime
)

// Earliest is the first record there is.
func Earliest() Start { return Start{} }

// Latest is behind the last record that the isolation level shows.
func Latest() Start { return Start{kind: startLatest} }

// AtOffset is an offset.
func AtOffset(offset int64) Start { return Start{startOffset, offset} }

// AtTime is the first record with a timestamp not before t, or Latest if there
// is none.
func AtTime(t time.Time) Start { return Start{startTime, t.UnixMilli()} }

// Record is one record that a Reader delivers. It is valid until the reader is
// asked for the next; Clone keeps it.
type Record struct {
	TopicPartition
	Offset    int64
	Timestamp int64  // ms; -1: none
	Key       []byte // nil: null
	Value     []byte // nil: null
	Headers   batch.Headers
}

// Clone is a copy that stays.
func (r *Record) Clone() *Record {
	c := *r
	c.Key, c.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	c.Headers = r.Headers.Clone()
	return &c
}

// Reader delivers the records of some partitions: those of one partition in
// order of their offsets, without control records, and at ReadCommitted without
// those of open and aborted transactions. It is not safe for concurrent use.
//
// What is damaged, deleted or out of range ends an iteration with its error
// (*CorruptionError, ErrUnknownPartition, *OffsetError); the positions stay, and
// Seek goes on elsewhere.
type Reader struct {
	store   *Store
	options ReaderOptions
	sources []*source
	results []FetchResult
	asked   []FetchRequest
	current int // of results: the one that is being delivered
	record  Record
	closed  bool
}

// source is one partition of a reader.
type source struct {
	TopicPartition
	delivery delivery.Delivery
}

// NewReader makes a reader. Close it.
//
// Errors: ErrUnknownPartition, what a partition refuses with, ErrUnstable, ErrClosed.
func (s *Store) NewReader(o ReaderOptions) (*Reader, error) {
	if (o.Topic == "") == (len(o.Partitions) == 0) {
		return nil, fmt.Errorf("%w: a reader needs a Topic or Partitions, and not both", ErrInvalidOptions)
	}
	partitions := o.Partitions
	if o.Topic != "" {
		i := slices.IndexFunc(s.Topics(), func(t TopicInfo) bool { return t.Name == o.Topic })
		if i < 0 {
			return nil, fmt.Errorf("%w: topic %q", ErrUnknownPartition, o.Topic)
		}
		for _, index := range s.Topics()[i].Partitions {
			partitions = append(partitions, TopicPartition{Topic: o.Topic, Index: index})
		}
	}
	r := &Reader{store: s, options: o}
	for _, tp := range partitions {
		r.sources = append(r.sources, &source{TopicPartition: tp, delivery: delivery.Delivery{Isolation: o.Isolation}})
		if err := r.SeekTo(tp, o.Start); err != nil {
			return nil, err
		}
	}
	if o.Group != "" {
		if err := r.resume(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// resume goes to where the group is.
func (r *Reader) resume() error {
	var list []TopicPartition
	for _, s := range r.sources {
		list = append(list, s.TopicPartition)
	}
	found, err := r.store.groups.Fetch(context.Background(), nil, r.options.Group, list, true)
	if err != nil {
		return err
	}
	for i, f := range found {
		switch {
		case f.Err != nil:
			return fmt.Errorf("group %q, %s: %w", r.options.Group, f.Partition, f.Err)
		case f.Offset >= 0:
			r.sources[i].delivery.Position = f.Offset
		}
	}
	return nil
}

// Offsets are the positions, to be committed: with Txn.SendOffsets or Groups.Commit.
func (r *Reader) Offsets() []OffsetCommit {
	list := make([]OffsetCommit, len(r.sources))
	for i, s := range r.sources {
		list[i] = OffsetOf(s.TopicPartition, s.delivery.Position)
	}
	return list
}

// Close gives the memory back. The last record is not valid any more.
func (r *Reader) Close() {
	r.drop()
	for _, s := range r.sources {
		s.delivery.Close()
	}
	r.closed = true
}

// drop forgets what was read and not delivered.
func (r *Reader) drop() {
	closeAll(r.results)
	r.results, r.current = r.results[:0], 0
}

// Position is the offset that is wanted next of a partition, which is what a
// consumer commits; false if the reader does not read it.
func (r *Reader) Position(tp TopicPartition) (int64, bool) {
	if s := r.find(tp); s != nil {
		return s.delivery.Position, true
	}
	return 0, false
}

// Positions are those of all partitions.
func (r *Reader) Positions() map[TopicPartition]int64 {
	return maps.Collect(func(yield func(TopicPartition, int64) bool) {
		for _, s := range r.sources {
			if !yield(s.TopicPartition, s.delivery.Position) {
				return
			}
		}
	})
}

func (r *Reader) find(tp TopicPartition) *source {
	if i := slices.IndexFunc(r.sources, func(s *source) bool { return s.TopicPartition == tp }); i >= 0 {
		return r.sources[i]
	}
	return nil
}

// Seek goes on at an offset. Whether it is in range the next read tells.
func (r *Reader) Seek(tp TopicPartition, offset int64) error {
	return r.SeekTo(tp, AtOffset(offset))
}

// SeekTo goes on at a place. The last record is not valid any more.
//
// Errors: ErrUnknownPartition, what the partition refuses with.
func (r *Reader) SeekTo(tp TopicPartition, to Start) error {
	s := r.find(tp)
	if s == nil {
		return fmt.Errorf("%w: %s is not one that the reader reads", ErrUnknownPartition, tp)
	}
	offset, err := r.store.locate(tp, to, r.options.Isolation)
	if err != nil {
		return err
	}
	r.drop()
	s.delivery.Position = offset
	return nil
}

// locate finds a place in a partition.
func (s *Store) locate(tp TopicPartition, to Start, i Isolation) (int64, error) {
	l, err := s.Partition(tp)
	if err != nil {
		return 0, err
	}
	f := l.Frontiers()
	switch to.kind {
	case startOffset:
		return to.at, nil
	case startTime:
		found, err := l.OffsetForTime(to.at, i)
		if err != nil || found.Offset >= 0 {
			return found.Offset, err
		}
		return boundOf(f, i), nil
	case startLatest:
		return boundOf(f, i), nil
	}
	return f.LogStart, nil
}

// boundOf is where an isolation level ends.
func boundOf(f log.Frontiers, i Isolation) int64 {
	if i == ReadCommitted {
		return f.LastStable
	}
	return f.HighWatermark
}

// Next waits for the next record. It is the reader's own, valid until the next
// call of any method that goes on.
func (r *Reader) Next(ctx context.Context) (*Record, error) {
	for {
		if found, err := r.deliver(); found || err != nil {
			return &r.record, err
		}
		if _, err := r.fetch(ctx, math.MaxInt64); err != nil {
			return nil, err
		}
	}
}

// Records delivers what there is now: up to the end that each partition shows
// when it is reached. An error ends it.
func (r *Reader) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return r.iterate(ctx, 0)
}

// Follow delivers what there is and what comes, until ctx ends, which is no
// error. Any other error ends it too.
func (r *Reader) Follow(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for record, err := range r.iterate(ctx, math.MaxInt64) {
			if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

func (r *Reader) iterate(ctx context.Context, wait time.Duration) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			found, err := r.deliver()
			if err == nil && !found {
				var any bool
				if any, err = r.fetch(ctx, wait); err == nil && !any {
					return
				}
			}
			switch {
			case err != nil:
				yield(nil, err)
				return
			case found && !yield(&r.record, nil):
				return
			}
		}
	}
}

// fetch reads on in all partitions, and tells whether there is any. Everything
// that was read before must have been delivered.
func (r *Reader) fetch(ctx context.Context, wait time.Duration) (bool, error) {
	if r.closed {
		return false, fmt.Errorf("read: the reader: %w", ErrClosed)
	}
	r.drop()
	r.asked = r.asked[:0]
	for _, s := range r.sources {
		r.asked = append(r.asked, FetchRequest{TopicPartition: s.TopicPartition, Offset: s.delivery.Position})
	}
	results, err := r.store.Fetch(ctx, r.asked, FetchOptions{
		Isolation: r.options.Isolation, BytesMax: r.options.BytesMax, WaitMax: wait, Results: r.results,
	})
	if err != nil {
		return false, err
	}
	any := false
	for i := range results {
		f := &results[i]
		if f.Err != nil {
			closeAll(results)
			return false, fmt.Errorf("read %s from offset %d: %w", f.TopicPartition, r.sources[i].delivery.Position, f.Err)
		}
		any = any || len(f.Bytes()) > 0
	}
	r.results, r.current = results, 0
	r.begin()
	return any, nil
}

// begin takes the current answer up.
func (r *Reader) begin() {
	if r.current < len(r.results) {
		r.sources[r.current].delivery.Take(r.results[r.current].Fetched)
	}
}

// deliver goes to the next record of what was read.
func (r *Reader) deliver() (bool, error) {
	for r.current < len(r.results) {
		s := r.sources[r.current]
		if s.delivery.Next() {
			d := s.delivery.Record()
			r.record = Record{s.TopicPartition, d.Offset, d.Timestamp, d.Key, d.Value, d.Headers}
			return true, nil
		}
		if err := s.delivery.Err(); err != nil {
			r.drop()
			return false, fmt.Errorf("read %s: %w", s.TopicPartition, err)
		}
		r.current++
		r.begin()
	}
	return false, nil
}

// CaughtUp tells whether every record that the isolation level shows now has
// been delivered. Control records, and those of aborted transactions, do not
// count: behind a commit a reader that has all its records is caught up.
func (r *Reader) CaughtUp() (bool, error) {
	n, err := r.behind(1)
	return n == 0, err
}

// Lag is how many records the isolation level shows now that have not been
// delivered, over all partitions. It reads the heads of all their batches;
// CaughtUp stops at the first.
func (r *Reader) Lag() (int64, error) { return r.behind(math.MaxInt64) }

// behind counts records that are to be delivered, at most about so many. It
// reads on its own: what the reader holds stays as it is.
func (r *Reader) behind(most int64) (n int64, err error) {
	for _, s := range r.sources {
		d := delivery.Delivery{Isolation: r.options.Isolation, Position: s.delivery.Position}
		for n < most {
			f, err := r.store.readOne(&FetchRequest{TopicPartition: s.TopicPartition, Offset: d.Position},
				log.ReadOptions{Isolation: r.options.Isolation, Unchecked: true})
			if err != nil {
				return n, fmt.Errorf("read %s from offset %d: %w", s.TopicPartition, d.Position, err)
			}
			empty := len(f.Bytes()) == 0
			d.Take(f)
			left, err := d.Count(most - n)
			n += left
			f.Close()
			if err != nil {
				return n, fmt.Errorf("read %s: %w", s.TopicPartition, err)
			}
			if empty {
				break
			}
		}
		d.Close()
	}
	return n, nil
}
