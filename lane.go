package oncelog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/valyala/bytebufferpool"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
	"github.com/oncelog/oncelog/txn"
)

// lane is what a producer has on its way to one partition: one batch that is being
// filled. Sequences are given when a batch goes into the log, one after the other,
// and only what the log took has used one: so a batch that was refused leaves no gap.
type lane struct {
	TopicPartition
	producer *Producer

	mu       sync.Mutex     // held while a batch goes into the log: they go in order
	identity batch.Producer // NoProducer: the producer's own, when it next sends
	sequence int32
	builder  batch.Builder
	buffer   *bytebufferpool.ByteBuffer // where the batch is built, nil while there is none
	size     int                        // of its records, about
	bytes    batch.Batch                // the batch, once it is complete
	open     *sent                      // what becomes of it, nil if there is none

	log *log.Log // where the last one went
	end int64    // behind it, until it is known to be safe
	err error    // of the first that was lost since the last Flush
}

// sent is one batch of a lane. Its lane's lock guards it.
type sent struct {
	lane  *lane
	log   *log.Log
	base  int64 // once it is in the log
	end   int64
	count int32
	err   error // why it is not
}

// Ack stands for a record that was sent.
type Ack struct {
	sent *sent
	nth  int32 // in its batch
}

// Partition is where the record goes.
func (a Ack) Partition() TopicPartition { return a.sent.lane.TopicPartition }

// Wait returns the offset of the record once it is safe and visible as the level of
// the producer asks; its batch goes into the log now if it has not yet. A record of a
// transaction is safe with its commit: waiting for it before costs a flush.
//
// Errors: why the record is not in the log; ErrOutcomeUnknown if it is not known, as
// when ctx ended.
func (a Ack) Wait(ctx context.Context) (offset int64, err error) {
	l := a.sent.lane
	l.mu.Lock()
	if l.open == a.sent {
		err = l.publish(ctx)
	}
	s := *a.sent
	l.mu.Unlock()
	switch {
	case s.err != nil:
		return -1, s.err
	case err != nil:
		return -1, err
	}
	if err := s.log.Await(ctx, s.end, l.producer.o.Durability); err != nil {
		return -1, fmt.Errorf("%s, offset %d: %w", l.TopicPartition, s.base+int64(a.nth), err)
	}
	return s.base + int64(a.nth), nil
}

// recordOverhead is about what a record adds to its key, value and headers.
const recordOverhead = 16

func sizeOf(m *Message) int {
	n := len(m.Key) + len(m.Value) + recordOverhead
	for i := range m.Headers {
		n += len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	return n
}

// add puts a record into the open batch.
func (l *lane) add(ctx context.Context, m *Message, identity batch.Producer) (Ack, error) {
	o := &l.producer.o
	at := m.Timestamp.UnixMilli()
	if m.Timestamp.IsZero() {
		at = l.producer.store.now().UnixMilli()
	}
	if at < 0 {
		return Ack{}, fmt.Errorf("%w: %s lies before 1970", batch.ErrInvalidTimestamp, m.Timestamp)
	}
	size := sizeOf(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil && (l.bytes != nil || l.size+size > o.BatchBytes) {
		if err := l.publish(ctx); err != nil && l.open != nil {
			return Ack{}, err // it stays where it is: there is no room for another
		}
	}
	if l.open == nil {
		l.begin(identity)
	}
	l.builder.Add(at, m.Key, m.Value, m.Headers...)
	l.size += size
	a := Ack{l.open, l.open.count}
	l.open.count++
	if l.size >= o.BatchBytes || o.Linger < 0 {
		// What becomes of it, its Ack and Flush tell.
		_ = l.publish(ctx)
	}
	return a, nil
}

// begin opens a batch.
func (l *lane) begin(identity batch.Producer) {
	if l.producer.transactional() && l.identity != identity || l.identity == batch.NoProducer {
		l.identity, l.sequence = identity, 0
	}
	l.open, l.size, l.buffer = &sent{lane: l}, 0, bytebufferpool.Get()
	l.builder.Reset(l.buffer.B[:0], batch.BuilderOptions{
		Producer: l.identity, BaseSequence: l.sequence, LeaderEpoch: batch.None, Transactional: l.producer.transactional(),
		Codec: l.producer.o.Compression, Level: l.producer.o.CompressionLevel,
	})
}

// publish puts the open batch into the log, which makes it durable soon. An error
// after which it is open still passes: nothing is lost, and the next publish tries
// again.
func (l *lane) publish(ctx context.Context) error {
	if l.open == nil {
		return nil
	}
	if l.bytes == nil {
		b, err := l.builder.Finish()
		if err != nil {
			return l.lose(err)
		}
		l.buffer.B, l.bytes = b, b
	}
	p := l.producer
	p.touched.Store(true)
	o := AppendOptions{NoWait: true, TransactionalID: p.o.TransactionalID}
	a, err := p.store.Append(ctx, l.TopicPartition, l.bytes, o)
	if err == nil && a.Duplicate { // of what? This one was not sent before
		err = ErrDuplicate
	}
	if errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
		a, err = p.store.Append(ctx, l.TopicPartition, l.bytes, o) // if it is there, the answer says so
	}
	if outOfStep(err) && !p.transactional() {
		// The log lost what came before, or is another one: it goes on with a
		// producer that it has never heard of.
		if err = l.renew(ctx); err == nil {
			batch.Retarget(l.bytes, l.identity, l.sequence)
			a, err = p.store.Append(ctx, l.TopicPartition, l.bytes, o)
		}
	}
	if err != nil {
		return l.refused(ctx, err)
	}
	s := l.open
	if s.log, err = p.store.Partition(l.TopicPartition); err != nil {
		return l.lose(fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
	}
	s.base, s.end = a.BaseOffset, a.LastOffset+1
	l.log, l.end = s.log, s.end
	l.sequence = batch.AddSequence(l.sequence, s.count)
	l.close()
	return nil
}

// outOfStep tells of a batch that the log refused because it remembers another one of
// the producer than the last that it took.
func outOfStep(err error) bool {
	return errors.Is(err, ErrOutOfOrder) || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrFenced)
}

// refused decides on a batch that is not in the log, as far as is known.
func (l *lane) refused(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		// It may be there, and what follows must fit in both cases.
		l.identity = batch.NoProducer
		if !l.producer.transactional() {
			if e := l.renew(context.WithoutCancel(ctx)); e != nil {
				err = errors.Join(err, e)
			}
		}
	case ctx.Err() != nil, txn.ClassOf(err) == txn.ClassRetriable:
		return fmt.Errorf("%s: %w", l.TopicPartition, err)
	}
	return l.lose(err)
}

// renew takes an identity that nobody had.
func (l *lane) renew(ctx context.Context) error {
	identity, err := l.producer.store.Transactions().NewProducerID(ctx)
	if err != nil {
		return err
	}
	l.identity, l.sequence = identity, 0
	return nil
}

// lose gives the open batch up.
func (l *lane) lose(err error) error {
	err = fmt.Errorf("%d records to %s: %w", l.open.count, l.TopicPartition, err)
	l.open.err = err
	if l.err == nil {
		l.err = err
	}
	l.close()
	return err
}

// close gives the memory of a batch back.
func (l *lane) close() {
	bytebufferpool.Put(l.buffer)
	l.open, l.bytes, l.buffer = nil, nil, nil
}

// drop gives up what was not sent, for an abort.
func (l *lane) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		_ = l.lose(ErrAborted)
	}
	l.err, l.end = nil, 0
}

// flush publishes what is open.
func (l *lane) flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.publish(ctx)
}

// settle waits until what was published is safe, and tells what was lost.
func (l *lane) settle(ctx context.Context) error {
	l.mu.Lock()
	at, end, lost := l.log, l.end, l.err
	l.mu.Unlock()
	var err error
	if end > 0 {
		err = at.Await(ctx, end, l.producer.o.Durability)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", l.TopicPartition, err)
		if ctx.Err() != nil {
			return errors.Join(lost, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == end {
		l.end = 0
	}
	l.err = nil // told once
	return errors.Join(lost, err)
}

// idle tells that nothing is left to send.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open == nil
}

// lost is the first error of a batch that was lost.
func (l *lane) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
