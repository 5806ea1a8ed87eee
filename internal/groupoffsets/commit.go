package groupoffsets

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Commit is an offset to be committed: where a group goes on in a partition.
type Commit struct {
	Partition   topic.Partition
	Offset      int64  // of the next record to read, at least 0
	LeaderEpoch int32  // of the last record read; -1 (batch.None): not known
	Metadata    string // any text of the application's
	// ExpireMs is when the offset may be forgotten, in ms since 1970, as old
	// clients say it; 0: Options.Retention applies. The leader epoch is not stored
	// with it.
	ExpireMs int64
}

// Published tells where a commit is.
type Published struct {
	Partition topic.Partition // of __consumer_offsets
	End       int64           // the commit counts once the high watermark is there; -1: nothing was written
}

// Check tells whether an offset can be committed. The error is a *CommitError.
func (s *Store) Check(c *Commit) error {
	bad := func(err error, format string, args ...any) error {
		return &CommitError{Partition: c.Partition, Reason: fmt.Sprintf(format, args...), Err: err}
	}
	switch {
	case c.Offset < 0:
		return bad(ErrInvalidCommit, "offset %d is below 0", c.Offset)
	case c.LeaderEpoch < batch.None:
		return bad(ErrInvalidCommit, "leader epoch %d is below -1", c.LeaderEpoch)
	case c.Partition.Topic == "" || len(c.Partition.Topic) > topic.NameBytesMax || c.Partition.Index < 0:
		return bad(ErrInvalidCommit, "there can be no such partition")
	case c.ExpireMs < 0:
		return bad(ErrInvalidCommit, "it expires at %d", c.ExpireMs)
	case len(c.Metadata) > s.o.MetadataBytesMax || len(c.Metadata) > math.MaxInt16:
		return bad(ErrMetadataTooLong, "%d bytes, at most %d are possible", len(c.Metadata), min(s.o.MetadataBytesMax, math.MaxInt16))
	}
	return nil
}

// Commit commits offsets of a group, all of them or none, in one batch. It returns
// once they are safe and every Fetch from then on answers them; with o.NoWait at
// once, and the caller waits in the log of Published for its End (Log.Await). Of o
// NoWait and Durability count. commits is not kept.
//
// Errors: *CommitError, ErrInvalidGroup, ErrNoPartitions, *DamageError if the
// partition could not answer for the group afterwards; those of log.Log.Append.
func (s *Store) Commit(ctx context.Context, group string, commits []Commit, o log.AppendOptions) (Published, error) {
	return s.publish(ctx, group, commits, batch.Plain, o)
}

// CommitTransactional commits offsets as part of the open transaction of a
// producer: they are pending until its marker. The caller has the coordinator
// know that the partition of the group (PartitionOf) belongs to the transaction,
// and passes in o the guard of that partition's log, from before it asked; the
// guard is checked in one step with the append. Everything else is as with Commit,
// but a group without a name is refused.
func (s *Store) CommitTransactional(ctx context.Context, group string, p batch.Producer, commits []Commit, o log.AppendOptions) (Published, error) {
	if group == "" {
		return Published{End: unknown}, fmt.Errorf("%w: the name is empty", ErrInvalidGroup)
	}
	header := batch.Plain
	header.Producer, header.Transactional = p, true
	return s.publish(ctx, group, commits, header, o)
}

func (s *Store) publish(ctx context.Context, group string, commits []Commit, header batch.BuilderOptions, o log.AppendOptions) (Published, error) {
	nothing := Published{End: unknown}
	if err := validGroup(group); err != nil {
		return nothing, err
	}
	for i := range commits {
		if err := s.Check(&commits[i]); err != nil {
			return nothing, err
		}
	}
	p, err := s.of(group)
	if err != nil {
		return nothing, err
	}
	l, err := s.follow(ctx, p)
	if err != nil {
		return nothing, err
	}
	p.mu.Unlock()
	if nothing.Partition = p.Partition; len(commits) == 0 {
		return nothing, nil
	}
	w := writers.Get().(*writer)
	defer writers.Put(w)
	b, err := w.commits(group, commits, header, s.o.Now().UnixMilli())
	if err != nil {
		return nothing, err
	}
	return p.append(ctx, l, b, o)
}

// append publishes a batch, and waits until it counts.
func (p *partition) append(ctx context.Context, l *log.Log, b batch.Batch, o log.AppendOptions) (Published, error) {
	if err := p.take(ctx); err != nil {
		return Published{Partition: p.Partition, End: unknown}, err
	}
	done, err := p.appendInTurn(ctx, l, b, o)
	p.give()
	if err != nil || o.NoWait {
		return done, err
	}
	return done, l.Await(ctx, done.End, o.Durability)
}

// appendInTurn publishes a batch, with the turn held.
func (p *partition) appendInTurn(ctx context.Context, l *log.Log, b batch.Batch, o log.AppendOptions) (Published, error) {
	o.Origin, o.NoWait = log.OriginCoordinator, true
	a, err := l.Append(ctx, b, o)
	if err != nil {
		return Published{Partition: p.Partition, End: unknown}, err
	}
	return Published{Partition: p.Partition, End: a.LastOffset + 1}, nil
}

// writer builds records of __consumer_offsets, in memory that is used again.
type writer struct {
	builder    batch.Builder
	batch      []byte
	key, value []byte
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// commits is a batch of offsets. It is valid until the next one.
func (w *writer) commits(group string, commits []Commit, header batch.BuilderOptions, at int64) (batch.Batch, error) {
	w.reset(header)
	for i := range commits {
		c := &commits[i]
		w.key = appendOffsetKey(w.key[:0], group, c.Partition.Topic, c.Partition.Index)
		w.value = appendValue(w.value[:0], c, at)
		w.builder.Add(at, w.key, w.value)
	}
	return w.finish()
}

func (w *writer) reset(header batch.BuilderOptions) {
	header.BaseSequence = batch.None
	w.builder.Reset(w.batch[:0], header)
}

func (w *writer) finish() (batch.Batch, error) {
	b, err := w.builder.Finish()
	if err == nil {
		w.batch = b
	}
	return batch.Batch(b), err
}
