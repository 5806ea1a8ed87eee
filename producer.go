package oncelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/txn"
)

// Message is a record to be sent. Key, Value and Headers are copied.
type Message struct {
	Key       []byte // nil: null; records of one key go to one partition
	Value     []byte // nil: null, which a compacted topic takes for a deletion
	Headers   []batch.RecordHeader
	Timestamp time.Time // zero: now
}

// ProducerOptions of NewProducer. The zero value makes an idempotent producer.
type ProducerOptions struct {
	// TransactionalID makes it a transactional producer: it names whoever produces
	// over restarts. A newer producer with the same id fences this one.
	TransactionalID string
	// TransactionTimeout is how long a transaction may be open; then it is aborted
	// and the producer is fenced. 0: one minute.
	TransactionTimeout time.Duration
	// Durability strengthens what Wait, Flush and Commit promise beyond the level of
	// the topics.
	Durability Durability
	// BatchBytes of records make a batch that goes into the log, not compressed.
	// 0: 64 KiB. Each partition has at most one that is being filled.
	BatchBytes int
	// Linger is how long a record waits for others to fill its batch. 0: 5 ms;
	// below 0: it does not wait, each is a batch.
	Linger           time.Duration
	Compression      batch.Codec
	CompressionLevel int // 0: Kafka's default
}

const (
	defaultBatchBytes = 64 << 10
	defaultLinger     = 5 * time.Millisecond
)

// Producer sends records, in batches, each stored once and in the order in which it
// was sent to its partition. It is safe for concurrent use.
//
// Without a transactional id: Send, and Flush or Ack.Wait before relying on it. With
// one: Begin, then Send, and Commit or Abort in the transaction.
//
// Steady state costs one small allocation a batch.
type Producer struct {
	store *Store
	o     ProducerOptions

	// gate is held for reading while records are added, and for writing by what
	// needs that none is: the ends of a transaction, and Close.
	gate     sync.RWMutex
	identity batch.Producer
	txn      *Txn  // the last one
	failed   error // fatal: every call answers it
	closed   bool
	touched  atomic.Bool // the transaction may have reached a log

	mu          sync.Mutex // lanes and partitioner
	lanes       map[TopicPartition]*lane
	partitioner partitioner

	linger  *time.Timer
	armed   atomic.Bool
	ctx     context.Context // of what the timer does; ends with Close
	cancel  context.CancelFunc
	flusher sync.WaitGroup
}

// NewProducer makes a producer. With a transactional id that fences whoever had it
// before: an open transaction of theirs is aborted, one that was decided is brought
// to its end first. Close it.
//
// Errors: ErrInvalidOptions; txn.ErrInvalidTimeout; ErrReadOnly; ErrClosed; those of
// Transactions().InitProducerID.
func (s *Store) NewProducer(ctx context.Context, o ProducerOptions) (*Producer, error) {
	switch {
	case o.BatchBytes < 0:
		return nil, fmt.Errorf("%w: BatchBytes is %d", ErrInvalidOptions, o.BatchBytes)
	case o.BatchBytes == 0:
		o.BatchBytes = defaultBatchBytes
	}
	if o.Linger == 0 {
		o.Linger = defaultLinger
	}
	p := &Producer{store: s, o: o, lanes: map[TopicPartition]*lane{}}
	p.partitioner = partitioner{store: s, sticky: map[string]*stickiness{}}
	var err error
	if p.transactional() {
		p.identity, err = s.Transactions().InitProducerID(ctx, o.TransactionalID, txn.InitOptions{Timeout: o.TransactionTimeout, Wait: true})
	} else {
		p.identity, err = s.Transactions().NewProducerID(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("new producer: %w", err)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.linger = time.AfterFunc(time.Hour, p.lingered)
	p.linger.Stop()
	return p, nil
}

func (p *Producer) transactional() bool { return p.o.TransactionalID != "" }

// ID is the producer's id and epoch, as the logs know it.
func (p *Producer) ID() batch.Producer {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return p.identity
}

// Send adds a record to the batch of its partition, which its key chooses; without
// one, one partition after the other is filled. What becomes of it, the Ack tells,
// and Flush.
//
// An error says that this record was not added: ErrUnknownPartition, ErrTxnNeeded,
// ErrClosed, that of ctx; and, while the batch before it finds no room, ErrNoSpace.
func (p *Producer) Send(ctx context.Context, topic string, m Message) (Ack, error) {
	if p.transactional() {
		return Ack{}, ErrTxnNeeded
	}
	return p.send(ctx, nil, topic, nil, &m)
}

// SendTo is Send to a given partition.
func (p *Producer) SendTo(ctx context.Context, tp TopicPartition, m Message) (Ack, error) {
	if p.transactional() {
		return Ack{}, ErrTxnNeeded
	}
	return p.send(ctx, nil, "", &tp, &m)
}

func (p *Producer) send(ctx context.Context, t *Txn, topic string, to *TopicPartition, m *Message) (Ack, error) {
	if err := ctx.Err(); err != nil {
		return Ack{}, err
	}
	p.gate.RLock()
	defer p.gate.RUnlock()
	if err := p.usable(t); err != nil {
		return Ack{}, err
	}
	l, err := p.lane(topic, to, m)
	if err != nil {
		return Ack{}, err
	}
	a, err := l.add(ctx, m, p.identity)
	if err != nil {
		return a, err
	}
	if p.o.Linger > 0 && !p.armed.Swap(true) {
		p.linger.Reset(p.o.Linger)
	}
	return a, nil
}

// usable tells why nothing can be sent, in t if that is not nil.
func (p *Producer) usable(t *Txn) error {
	switch {
	case p.closed:
		return fmt.Errorf("producer: %w", ErrClosed)
	case p.failed != nil:
		return p.failed
	case t != nil && (t.state != txnOpen || p.txn != t):
		return ErrTxnEnded
	}
	return nil
}

// lane finds where a record goes.
func (p *Producer) lane(topic string, to *TopicPartition, m *Message) (*lane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var tp TopicPartition
	var err error
	if to != nil {
		tp = *to
	} else if tp, err = p.partitioner.choose(topic, m.Key, sizeOf(m), p.o.BatchBytes); err != nil {
		return nil, err
	}
	l := p.lanes[tp]
	if l == nil {
		if _, err := p.store.Partition(tp); err != nil {
			return nil, err
		}
		l = &lane{TopicPartition: tp, producer: p, identity: batch.NoProducer}
		p.lanes[tp] = l
	}
	return l, nil
}

func (p *Producer) all() []*lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*lane, 0, len(p.lanes))
	for _, l := range p.lanes {
		all = append(all, l)
	}
	return all
}

// lingered publishes what has waited for long enough.
func (p *Producer) lingered() {
	p.gate.RLock()
	defer p.gate.RUnlock()
	p.armed.Store(false)
	if p.closed {
		return
	}
	again := false
	for _, l := range p.all() {
		again = l.flush(p.ctx) != nil && !l.idle() || again
	}
	if again && !p.armed.Swap(true) {
		p.linger.Reset(p.o.Linger)
	}
}

// Flush returns once everything sent before is safe and visible.
//
// Errors: the first of what was lost since the last Flush, or of what is not known;
// that of ctx.
func (p *Producer) Flush(ctx context.Context) error {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if err := p.usable(nil); err != nil {
		return err
	}
	return p.flush(ctx)
}

func (p *Producer) flush(ctx context.Context) error {
	lanes, errs := p.all(), error(nil)
	for _, l := range lanes {
		if err := l.flush(ctx); err != nil && !l.idle() { // what was lost is told below
			errs = errors.Join(errs, err)
		}
	}
	for _, l := range lanes {
		errs = errors.Join(errs, l.settle(ctx))
	}
	return errs
}

// Close sends what is left and ends the producer; an open transaction is aborted.
// Errors: as Flush, Abort.
func (p *Producer) Close(ctx context.Context) error {
	p.gate.Lock()
	defer p.gate.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.linger.Stop()
	p.cancel()
	switch t := p.txn; {
	case p.failed != nil:
		return nil
	case t != nil && t.state == txnOpen:
		return t.abort(ctx)
	case p.transactional():
		return nil
	}
	return p.flush(ctx)
}
