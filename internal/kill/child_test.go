package kill

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog"
)

// childEnv is set in the environment of a child.
const childEnv = "ONCELOG_KILL_CHILD"

// orders are what a child is told, on its standard input. When that ends, the
// parent is gone, and the child ends too.
type orders struct {
	Seed       uint64 // of the scene
	Round      int
	Dir        string
	Records    string // the file for them
	Options    childOptions
	CloseAfter time.Duration // after the first appends; 0: it never closes
	Streams    []lastStored  // what is stored of each
	Bug        string        // that the child has, in builds with the tag plant
}

// childOptions are the options of the store that differ from round to round.
type childOptions struct {
	Direct                               bool
	MemoryBytes, JournalBytes, TailBytes int64
	CheckpointBytes                      int64
	OpenSegmentsMax                      int
}

func (o childOptions) store() oncelog.Options {
	return oncelog.Options{
		Direct: o.Direct, MemoryBytes: o.MemoryBytes, JournalBytes: o.JournalBytes, TailBytes: o.TailBytes,
		CheckpointBytes: o.CheckpointBytes, CheckpointInterval: 50 * time.Millisecond, OpenSegmentsMax: o.OpenSegmentsMax,
		RetentionInterval: 100 * time.Millisecond,
	}
}

// lastStored is the last batch of a stream, in orders.
type lastStored struct {
	Writer, At, N int
	Base          int64
}

// What a child says on its standard output, a line each. Holds is followed by
// place, log start, log end and digest of what the opened store has there; counts,
// which comes now and then, by how many segments were rolled, how many checkpoints
// were made, and how often an append waited for memory.
const (
	saysOpening   = "opening"
	saysHolds     = "holds"
	saysCounts    = "counts"
	saysAppending = "appending"
	saysClosing   = "closing"
	saysClosed    = "closed"
)

// childLimit is how long a child waits to be killed.
const childLimit = time.Minute

// child is the process that is killed.
type child struct {
	orders
	scene   *scene
	store   *oncelog.Store
	records recorder
	closing atomic.Bool
	last    map[stream]stored
}

// runChild is the main function of a child. It answers its exit status.
func runChild() int {
	in := bufio.NewReader(os.Stdin)
	var o orders
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err == nil {
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, in)
			os.Exit(1)
		}()
		time.AfterFunc(childLimit, func() {
			fmt.Fprintln(os.Stderr, "nobody killed the child")
			os.Exit(1)
		})
		plantBug(o.Bug)
		err = (&child{orders: o, scene: newScene(o.Seed), last: map[stream]stored{}}).run(context.Background())
	}
	fmt.Fprintln(os.Stderr, "child:", err)
	return 1
}

// run opens the directory, shows what is in it, sends again what is stored, and
// appends until it is killed. It returns with an error only.
func (c *child) run(ctx context.Context) error {
	f, err := os.OpenFile(c.Records, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	c.records.f = f
	for _, s := range c.Streams {
		c.last[stream{s.Writer, s.At}] = stored{s.N, s.Base}
	}
	fmt.Println(saysOpening)
	if c.store, err = oncelog.Open(c.Dir, c.Options.store()); err != nil {
		return err
	}
	holds, err := readAll(c.scene, c.store)
	if err != nil {
		return err
	}
	for i := range holds {
		if h := &holds[i]; !h.missing {
			fmt.Println(saysHolds, i, h.start, h.end, h.digest())
		}
	}
	if err := makeTopics(ctx, c.scene, c.store); err != nil {
		return err
	}
	if err := sendAgain(ctx, c.scene, c.store, c.last); err != nil {
		return err
	}
	fmt.Println(saysAppending)
	go c.count() // ends with the process
	return c.work(ctx)
}

// count says again and again what happened.
func (c *child) count() {
	for {
		time.Sleep(5 * time.Millisecond)
		var rolls, checkpoints, waits int64
		for _, p := range places {
			l, err := c.store.Partition(p.TopicPartition)
			if err != nil {
				return // it closes
			}
			m := l.Metrics()
			rolls, checkpoints, waits = rolls+m.Rolls, checkpoints+m.Checkpoints, waits+m.MemoryWaits
		}
		fmt.Println(saysCounts, rolls, checkpoints, waits)
	}
}

// makeTopics makes those that are not there.
func makeTopics(ctx context.Context, s *scene, store *oncelog.Store) error {
	for i := range topicPlans {
		err := store.CreateTopic(ctx, topicPlans[i].name, s.config(&topicPlans[i]))
		if err != nil && !errors.Is(err, oncelog.ErrTopicExists) {
			return err
		}
	}
	return nil
}

// work lets all goroutines work until one fails, or the store closes.
func (c *child) work(ctx context.Context) error {
	var group sync.WaitGroup
	failed := make(chan error, 1)
	do := func(what string, f func() error) {
		group.Go(func() { // ends with the store
			err := f()
			if c.closing.Load() && (errors.Is(err, oncelog.ErrClosed) || errors.Is(err, oncelog.ErrOutcomeUnknown)) {
				return
			}
			select {
			case failed <- fmt.Errorf("%s: %w", what, err):
			default: // one is enough
			}
		})
	}
	for i := range c.scene.writers {
		w := &writing{child: c, w: &c.scene.writers[i], pause: rand.New(rand.NewPCG(c.Seed+uint64(c.Round), uint64(i)))}
		do(fmt.Sprintf("writer %d", i), func() error { return w.appendAll(ctx) })
	}
	for i, p := range places {
		if p.topic.kept {
			do(fmt.Sprintf("deleting in %v", p.TopicPartition), func() error { return c.deleteAll(ctx, i) })
		}
	}
	if c.CloseAfter == 0 {
		return <-failed
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(c.CloseAfter):
	}
	c.closing.Store(true)
	fmt.Println(saysClosing)
	if err := c.store.Close(ctx); err != nil {
		return err
	}
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	fmt.Println(saysClosed)
	select {} // until it is killed
}

// deleteAll deletes records of one partition, by offset and by size, again and
// again.
func (c *child) deleteAll(ctx context.Context, at int) error {
	random := rand.New(rand.NewPCG(c.Seed+uint64(c.Round), uint64(1000+at)))
	l, err := c.store.Partition(places[at].TopicPartition)
	if err != nil {
		return err
	}
	for {
		time.Sleep(time.Duration(1+random.IntN(20)) * time.Millisecond)
		if random.IntN(2) == 0 {
			if _, err := l.Retain(ctx); err != nil {
				return err
			}
			continue
		}
		f := l.Frontiers()
		offset := f.LogStart + random.Int64N(1+(f.HighWatermark-f.LogStart)/2)
		if err := c.records.write(deletes, at, int(offset), 0); err != nil {
			return err
		}
		start, err := l.DeleteRecords(ctx, offset)
		if err != nil {
			return err
		}
		if err := c.records.write(deleted, at, int(start), 0); err != nil {
			return err
		}
	}
}
