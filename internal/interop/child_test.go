//go:build interop

package interop

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// What the child appends with: one writer a partition, idempotent or plain,
// and transactors over several partitions.
const (
	childIdempotentID = firstProducerID + 1_000
	childTransactorID = firstProducerID + 2_000
	childTransactors  = 4
	childLimit        = 2 * time.Minute // it ends by itself then, without a close
)

// childLine is what the child says before and after each append; the lines of
// one writer alternate.
type childLine struct {
	Writer    int    `json:"writer"`
	Partition string `json:"partition,omitempty"` // an intent has one
	Batch     string `json:"batch,omitempty"`     // hexadecimal; empty: a marker
	ID        int64  `json:"id,omitempty"`        // of a marker
	Epoch     int16  `json:"epoch,omitempty"`
	Commit    bool   `json:"commit,omitempty"`
	Base      int64  `json:"base"` // of an acknowledgement
}

// child appends to every user partition of a directory until it is killed.
type child struct {
	store      *oncelog.Store
	partitions []topic.Partition
	mu         sync.Mutex // writing a line
}

// runChild is the main function of the child. Its standard output is the
// protocol.
func runChild(dir string) int {
	if err := appendUntilKilled(dir); err != nil {
		fmt.Fprintln(os.Stderr, "interop child:", err)
		return 1
	}
	return 0
}

func appendUntilKilled(dir string) error {
	o := options()
	o.Durability = log.DurabilityOS
	s, err := oncelog.Open(dir, o)
	if err != nil {
		return err
	}
	c := &child{store: s}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if tp, err := topic.ParseDir(e.Name()); err == nil && e.IsDir() && !tp.Internal() {
			c.partitions = append(c.partitions, tp)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	defer cancel()
	failed := make(chan error, len(c.partitions)+childTransactors)
	for i, tp := range c.partitions {
		go func() { failed <- c.write(ctx, i, tp) }()
	}
	for i := range childTransactors {
		go func() { failed <- c.transact(ctx, len(c.partitions)+i, childTransactorID+int64(i)) }()
	}
	return errors.Join(errors.New("nobody killed it"), <-failed)
}

// say writes a line in one piece.
func (c *child) say(l childLine) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = os.Stdout.Write(append(b, '\n'))
	return err
}

// durability makes every second append wait for the device.
func durability(n int) log.Durability {
	if n%2 == 0 {
		return log.DurabilityFsync
	}
	return log.DurabilityDefault
}

// write appends to one partition, as an idempotent producer or without one.
func (c *child) write(ctx context.Context, writer int, tp topic.Partition) error {
	var build batch.Builder
	o, serial := batch.Plain, 0
	if writer%2 == 0 {
		o.Producer, o.BaseSequence = batch.Producer{ID: childIdempotentID + int64(writer)}, 0
	}
	for n := 0; ; n++ {
		o.Codec = codecs[n%len(codecs)]
		b, err := buildBatch(&build, fmt.Sprint("child ", writer), &serial, 1+n%4, o)
		if err != nil {
			return err
		}
		if err := c.say(childLine{Writer: writer, Partition: tp.String(), Batch: hex.EncodeToString(b)}); err != nil {
			return err
		}
		a, err := c.store.Append(ctx, tp, b, log.AppendOptions{Durability: durability(n)})
		if err != nil {
			return fmt.Errorf("append to %v: %w", tp, err)
		}
		if err := c.say(childLine{Writer: writer, Base: a.BaseOffset}); err != nil {
			return err
		}
		if o.BaseSequence >= 0 {
			o.BaseSequence += b.RecordCount()
		}
	}
}

// transact runs transactions one after the other, each over some partitions.
func (c *child) transact(ctx context.Context, writer int, id int64) error {
	random := rand.New(rand.NewPCG(uint64(id), 2))
	producer := batch.Producer{ID: id}
	sequence := make(map[topic.Partition]int32)
	var build batch.Builder
	for serial := 0; ; {
		involved := make(map[topic.Partition]bool)
		for n := range 2 + random.IntN(10) {
			tp := c.partitions[random.IntN(len(c.partitions))]
			o := batch.BuilderOptions{Producer: producer, BaseSequence: sequence[tp], LeaderEpoch: batch.None, Transactional: true}
			b, err := buildBatch(&build, fmt.Sprint("child ", writer), &serial, 1+random.IntN(3), o)
			if err != nil {
				return err
			}
			if err := c.sendTransactional(ctx, writer, tp, b, durability(n)); err != nil {
				return fmt.Errorf("transactional append to %v: %w", tp, err)
			}
			sequence[tp] += b.RecordCount()
			involved[tp] = true
		}
		if raises(id) {
			producer.Epoch++
			clear(sequence)
		}
		commit := random.IntN(3) > 0
		for tp := range involved {
			if err := c.mark(ctx, writer, tp, producer, commit); err != nil {
				return fmt.Errorf("marker in %v: %w", tp, err)
			}
		}
	}
}

func (c *child) sendTransactional(ctx context.Context, writer int, tp topic.Partition, b batch.Batch, d log.Durability) error {
	l, err := c.store.Partition(tp)
	if err != nil {
		return err
	}
	if err := c.say(childLine{Writer: writer, Partition: tp.String(), Batch: hex.EncodeToString(b)}); err != nil {
		return err
	}
	guard, _, err := l.Guard(b.Producer(), b.BaseSequence(), raises(b.ProducerID()))
	if err != nil {
		return err
	}
	a, err := l.Append(ctx, b, log.AppendOptions{Guard: guard, Durability: d})
	if err != nil {
		return err
	}
	return c.say(childLine{Writer: writer, Base: a.BaseOffset})
}

func (c *child) mark(ctx context.Context, writer int, tp topic.Partition, producer batch.Producer, commit bool) error {
	l, err := c.store.Partition(tp)
	if err != nil {
		return err
	}
	if err := c.say(childLine{Writer: writer, Partition: tp.String(), ID: producer.ID, Epoch: producer.Epoch, Commit: commit}); err != nil {
		return err
	}
	a, err := l.AppendMarker(ctx, batch.Marker{Producer: producer, Commit: commit, Timestamp: time.Now().UnixMilli()}, log.MarkerOptions{TV2: raises(producer.ID)})
	if err != nil {
		return err
	}
	return c.say(childLine{Writer: writer, Base: a.BaseOffset})
}
