package groupoffsets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Logs is where committed offsets are. Its methods are safe for concurrent use.
type Logs interface {
	// OffsetsPartitions is how many partitions __consumer_offsets has; 0: there is
	// none yet. A group stays in its partition only while this stays the same.
	OffsetsPartitions() int
	// Partition is the open log of a partition. Another log than before means that
	// it was opened again or made anew.
	Partition(topic.Partition) (*log.Log, error)
}

// Options of a Store. The zero value takes every default.
type Options struct {
	MetadataBytesMax int              // of the text beside an offset; 0: 4096
	Retention        time.Duration    // of offsets, for Expire; 0: 7 days
	Now              func() time.Time // nil: time.Now
}

// Defaults of Options, Kafka's.
const (
	DefaultMetadataBytesMax = 4096
	DefaultRetention        = 7 * 24 * time.Hour
)

func (o Options) withDefaults() Options {
	if o.MetadataBytesMax == 0 {
		o.MetadataBytesMax = DefaultMetadataBytesMax
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is the committed offsets of all groups. All methods are safe for
// concurrent use. There must be one Store at most for a log that is written to.
type Store struct {
	o    Options
	logs Logs

	mu   sync.Mutex                   // leaf: making partitions
	list atomic.Pointer[[]*partition] // by index; replaced under mu
}

// New makes a store, which reads nothing until it is asked.
func New(o Options, logs Logs) *Store {
	return &Store{o: o.withDefaults(), logs: logs}
}

// partition follows one partition of __consumer_offsets.
type partition struct {
	topic.Partition
	// turn is held to publish, so that expiry can decide on all that is published.
	// It is taken before mu and never held while waiting for a flush.
	turn chan struct{}

	mu sync.Mutex // held for one read of the log at most
	// Guarded by mu.
	log    *log.Log // that was folded
	start  int64    // its log start then
	cursor int64    // what lies below is in fold
	fold   fold
}

// PartitionOf is the partition that holds what belongs to a group. The error is
// ErrNoPartitions.
func (s *Store) PartitionOf(group string) (topic.Partition, error) {
	n := s.logs.OffsetsPartitions()
	if n <= 0 {
		return topic.Partition{}, ErrNoPartitions
	}
	return topic.Partition{Topic: topic.ConsumerOffsets, Index: int32(topic.CoordinatorPartition(group, n))}, nil
}

// of is the partition of a group.
func (s *Store) of(group string) (*partition, error) {
	tp, err := s.PartitionOf(group)
	if err != nil {
		return nil, err
	}
	return s.at(int(tp.Index)), nil
}

// at is one partition.
func (s *Store) at(n int) *partition {
	if list := s.list.Load(); list != nil && n < len(*list) {
		return (*list)[n]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*partition
	if known := s.list.Load(); known != nil {
		list = append(list, *known...)
	}
	for len(list) <= n {
		tp := topic.Partition{Topic: topic.ConsumerOffsets, Index: int32(len(list))}
		list = append(list, &partition{Partition: tp, turn: make(chan struct{}, 1)})
	}
	s.list.Store(&list)
	return list[n]
}

// CatchUp reads what has come since, of all partitions: for a start that has it
// done before the first question. The errors are those of all partitions that
// cannot be read.
func (s *Store) CatchUp(ctx context.Context) error {
	var all error
	for n := range s.logs.OffsetsPartitions() {
		p := s.at(n)
		_, err := s.follow(ctx, p)
		if err == nil {
			p.mu.Unlock()
		}
		all = errors.Join(all, err)
	}
	return all
}

// follow reads on to where the high watermark is, and returns with p.mu held, unless there
// is an error. Nobody waits longer than one read of another, so that a context
// counts while a long log is read at the start.
func (s *Store) follow(ctx context.Context, p *partition) (*log.Log, error) {
	var followed *log.Log
	until := int64(0) // what is written faster than it is read need not be reached
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, err := s.logs.Partition(p.Partition)
		if err != nil {
			return nil, fmt.Errorf("committed offsets in %s: %w", p.Partition, err)
		}
		if l != followed {
			followed, until = l, l.Frontiers().HighWatermark
		}
		p.mu.Lock()
		done, err := p.step(l, until)
		if done {
			return l, nil
		}
		p.mu.Unlock()
		if err != nil && !s.replaced(p, l, err) {
			return nil, p.explain(err)
		}
	}
}

// replaced tells whether an error is only that the log was closed, and there is
// another one by now.
func (s *Store) replaced(p *partition, l *log.Log, err error) bool {
	if !errors.Is(err, log.ErrClosed) {
		return false
	}
	now, err := s.logs.Partition(p.Partition)
	return err == nil && now != l
}

// step takes in what one read gives; done says that all below until was taken in
// before. With mu held.
func (p *partition) step(l *log.Log, until int64) (done bool, err error) {
	f := l.Frontiers()
	if p.log != l || p.start != f.LogStart || p.cursor > f.HighWatermark {
		p.fold.reset()
		p.log, p.start, p.cursor = l, f.LogStart, f.LogStart
	}
	if p.cursor >= min(until, f.HighWatermark) {
		return true, nil
	}
	fetched, err := l.Read(p.cursor, log.ReadOptions{})
	if err != nil {
		// The start may have moved on meanwhile: then it is all read anew.
		if errors.Is(err, log.ErrOffsetOutOfRange) && l.Frontiers().LogStart != p.start {
			return false, nil
		}
		return false, err
	}
	defer fetched.Close()
	defer p.fold.records.Close()
	if len(fetched.Bytes()) == 0 {
		// The high watermark stands inside of a batch, or behind batches of which
		// compaction left nothing: which of the two nobody can tell, so that what comes
		// next is read from here.
		return true, nil
	}
	for b := range fetched.Batches() {
		if err := p.fold.batch(b, p.cursor); err != nil {
			return false, err
		}
		p.cursor = max(p.cursor, b.NextOffset())
	}
	return false, nil
}

// explain makes damage what callers know it by.
func (p *partition) explain(err error) error {
	if bad, ok := errors.AsType[*recordError](err); ok {
		return &DamageError{Partition: p.Partition, Offset: bad.offset, Err: bad.err}
	}
	if bad, ok := errors.AsType[*log.CorruptionError](err); ok {
		return &DamageError{Partition: p.Partition, Offset: bad.Offset, Err: err}
	}
	return fmt.Errorf("committed offsets in %s: %w", p.Partition, err)
}

// above goes through the records that are published but not folded, since they
// are not below the high watermark: with mu held after follow. What visit is
// given is valid during the call. That they are there still is not certain.
func (p *partition) above(l *log.Log, pendingOnly bool, visit func(k *key)) error {
	for at := p.cursor; at < l.Frontiers().LogEnd; {
		fetched, err := l.Read(at, log.ReadOptions{Replica: true})
		if errors.Is(err, log.ErrOffsetOutOfRange) { // cut meanwhile
			return nil
		}
		if err != nil {
			return p.explain(err)
		}
		if at, err = p.visit(fetched, pendingOnly, visit); err != nil {
			return p.explain(err)
		}
	}
	return nil
}

// visit goes through one answer, closes it, and tells where to read on.
func (p *partition) visit(fetched *log.Fetched, pendingOnly bool, visit func(k *key)) (next int64, err error) {
	defer fetched.Close()
	defer p.fold.records.Close()
	if len(fetched.Bytes()) == 0 {
		return fetched.LogEnd, nil
	}
	for b := range fetched.Batches() {
		if b.IsControl() || pendingOnly && b.ProducerID() < 0 {
			continue
		}
		records := &p.fold.records
		for records.Reset(b); records.Next(); {
			r := records.Record()
			k, known, err := readKey(r.Key)
			if err != nil {
				return 0, &recordError{r.Offset, err}
			}
			if known && k.isOffset() {
				visit(&k)
			}
		}
		if err := records.Err(); err != nil {
			return 0, &recordError{b.BaseOffset(), err}
		}
	}
	return fetched.NextOffset(), nil
}

// take takes the turn to publish.
func (p *partition) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *partition) give() { <-p.turn }

// Metrics of a store, as far as it has read.
type Metrics struct {
	Groups, Offsets, Pending int // groups known, offsets committed, offsets pending in transactions
	Transactions             int // that hold offsets, counted in each partition
}

// Metrics tells them. It reads nothing.
func (s *Store) Metrics() (m Metrics) {
	list := s.list.Load()
	if list == nil {
		return m
	}
	for _, p := range *list {
		p.mu.Lock()
		m.Groups += len(p.fold.groups)
		m.Offsets += p.fold.offsets
		m.Pending += p.fold.pending
		m.Transactions += len(p.fold.open)
		p.mu.Unlock()
	}
	return m
}

// validGroup tells whether a record can name a group.
func validGroup(group string) error {
	if len(group) > nameBytesMax {
		return fmt.Errorf("%w: the name has %d bytes, at most %d are possible", ErrInvalidGroup, len(group), nameBytesMax)
	}
	return nil
}

// nameBytesMax is the longest name that a key can hold.
const nameBytesMax = 1<<15 - 1

// unknown stands for what is not known in what is committed and told.
const unknown = batch.None
