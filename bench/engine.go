package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
)

// topicName is the topic that the bench appends to.
const topicName = "bench"

// engine is the sink that is measured: a store of its own.
type engine struct {
	config *Config
	parent string // directory for stores; each has a directory of its own in it
	made   int
	noWait bool // appends return once they are published

	dir        string
	store      *oncelog.Store
	partitions []oncelog.TopicPartition
}

func newEngine(c *Config, parent string) *engine { return &engine{config: c, parent: parent} }

// open makes an empty store with the topic.
func (e *engine) open(ctx context.Context) error {
	e.made++
	e.dir = filepath.Join(e.parent, fmt.Sprintf("store-%d", e.made))
	if e.config.FS != nil {
		e.dir = strings.ReplaceAll(e.dir, string(filepath.Separator), "-") // it has no other directories
		return e.begin(ctx)
	}
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return err
	}
	return e.begin(ctx)
}

// begin opens the empty directory e.dir and makes the topic.
func (e *engine) begin(ctx context.Context) error {
	if err := e.reopen(ctx); err != nil {
		return err
	}
	if err := e.store.CreateTopic(ctx, topicName, oncelog.TopicConfig{Partitions: e.config.Partitions}); err != nil {
		return err
	}
	e.partitions = e.partitions[:0]
	for i := range e.config.Partitions {
		e.partitions = append(e.partitions, oncelog.TopicPartition{Topic: topicName, Index: int32(i)})
	}
	return nil
}

// reopen opens the store of e.dir. Its goroutines have the label of the engine
// in profiles, unless it gives them better ones.
func (e *engine) reopen(ctx context.Context) (err error) {
	pprof.Do(ctx, pprof.Labels("stage", stageEngine), func(context.Context) {
		e.store, err = oncelog.Open(e.dir, oncelog.Options{
			Durability: e.config.durability(), SegmentBytes: e.config.SegmentBytes, Direct: e.config.Direct, FS: e.config.FS,
		})
	})
	return err
}

func (e *engine) append(ctx context.Context, w writer, b batch.Batch) error {
	_, err := e.store.Append(ctx, e.partitions[w.partition], b, oncelog.AppendOptions{NoWait: e.noWait})
	return err
}

func (e *engine) flush(ctx context.Context) error { return e.store.Sync(ctx) }
func (e *engine) drain(ctx context.Context) error { return e.store.Sync(ctx) }

// reset gives the disk space of earlier rounds back, or begins a new store.
func (e *engine) reset(ctx context.Context) (fresh bool, err error) {
	if e.config.Files == Fresh {
		if err := e.close(); err != nil {
			return false, err
		}
		return true, e.open(ctx)
	}
	return false, e.trim(ctx)
}

// trim deletes the records of all partitions, and with them their sealed
// segments.
func (e *engine) trim(ctx context.Context) error {
	for _, tp := range e.partitions {
		l, err := e.store.Partition(tp)
		if err != nil {
			return err
		}
		if _, err := l.DeleteRecords(ctx, l.Frontiers().HighWatermark); err != nil {
			return err
		}
		if _, err := l.Retain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close closes the store and removes it.
func (e *engine) close() error {
	if e.store == nil {
		return nil
	}
	err := e.store.Close(context.Background())
	e.store = nil
	if e.config.FS == nil {
		err = errors.Join(err, os.RemoveAll(e.dir))
	}
	return err
}
