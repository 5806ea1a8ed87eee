package oncelog_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// opening says how a directory is opened: as a whole (store), as a program
// does, or its logs one by one (each), where a test sets what Kafka had set for
// a topic and does not store in the directory.
type opening struct {
	dir      string
	readOnly bool
	now      int64 // ms
	history  history
	points   map[topic.Partition]log.Points
	clean    bool
}

// opened are the logs of a directory and the events of opening them.
type opened struct {
	opening
	logs   map[topic.Partition]*log.Log
	events []log.Event
	whole  *oncelog.Store // nil if they were opened one by one
	mu     sync.Mutex     // guards events
}

func (d *opened) event(e log.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// store opens the directory as a whole.
func (o opening) store(t testing.TB) *opened {
	t.Helper()
	d := &opened{opening: o, logs: map[topic.Partition]*log.Log{}}
	var err error
	d.whole, err = oncelog.Open(o.dir, oncelog.Options{
		ReadOnly:     o.readOnly,
		Transactions: oncelog.TransactionOptions{ReadOnly: true}, // as it lies there
		Now:          func() time.Time { return time.UnixMilli(o.now) },
		Events: func(e oncelog.Event) {
			if e.Kind != oncelog.EventProgress {
				d.event(log.Event{Kind: log.EventKind(e.Kind), Partition: e.Partition, File: e.File, Bytes: e.Bytes, Err: e.Err})
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range d.whole.Topics() {
		for _, index := range info.Partitions {
			tp := topic.Partition{Topic: info.Name, Index: index}
			if d.logs[tp], err = d.whole.Partition(tp); err != nil {
				t.Fatal(err)
			}
		}
	}
	return d
}

// kafkaOpening reads what Kafka left about the directory as a whole.
func kafkaOpening(t testing.TB, dir string, now int64, h history) opening {
	t.Helper()
	o := opening{dir: dir, now: now, history: h, points: map[topic.Partition]log.Points{}}
	o.clean = exists(filepath.Join(dir, checkpoint.CleanShutdownFile))
	for file, set := range map[string]func(p *log.Points, offset int64){
		checkpoint.RecoveryPointFile: func(p *log.Points, offset int64) { p.RecoveryPoint = offset },
		checkpoint.LogStartFile:      func(p *log.Points, offset int64) { p.LogStart = offset },
		checkpoint.HighWatermarkFile: func(p *log.Points, offset int64) { p.HighWatermark = offset },
	} {
		path := filepath.Join(dir, file)
		if !exists(path) {
			continue
		}
		entries, err := checkpoint.ReadOffsets(mustRead(t, path))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, e := range entries {
			p := o.points[e.Partition]
			set(&p, e.Offset)
			o.points[e.Partition] = p
		}
	}
	return o
}

// each opens every partition of the directory.
func (o opening) each(t testing.TB) *opened {
	t.Helper()
	d := &opened{opening: o, logs: map[topic.Partition]*log.Log{}}
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		tp, err := topic.ParseDir(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		l, err := log.Load(log.Options{
			FS: vfs.Machine(), Dir: filepath.Join(o.dir, e.Name()), Partition: tp,
			Config: log.Config{IndexIntervalBytes: int(o.history.interval(tp.Topic)), Durability: log.DurabilityOS},
			Clean:  o.clean, Points: o.points[tp], ReadOnly: o.readOnly,
			Now:    func() time.Time { return time.UnixMilli(o.now) },
			Events: d.event,
		})
		if err != nil {
			t.Fatal(err)
		}
		d.logs[tp] = l
		if o.readOnly {
			continue
		}
		if _, err := l.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// close closes the logs, cleanly if they are open for writing, and gives the
// opening that finds them so.
func (d *opened) close(t testing.TB) opening {
	t.Helper()
	next := d.opening
	if d.whole != nil {
		if err := d.whole.Close(t.Context()); err != nil {
			t.Error(err)
		}
		return next
	}
	next.points, next.clean = map[topic.Partition]log.Points{}, true
	for tp, l := range d.logs {
		p, err := l.Close(t.Context())
		if err != nil {
			t.Errorf("close %s: %v", tp, err)
		}
		next.points[tp] = p
	}
	return next
}

// partitions are the partitions in order.
func (d *opened) partitions() []topic.Partition {
	var all []topic.Partition
	for tp := range d.logs {
		all = append(all, tp)
	}
	slices.SortFunc(all, topic.Partition.Compare)
	return all
}

// metadata is the content of a partition.metadata file.
func metadata(t testing.TB, dir string) checkpoint.PartitionMetadata {
	t.Helper()
	m, err := checkpoint.ReadPartitionMetadata(mustRead(t, filepath.Join(dir, checkpoint.PartitionMetadataFile)))
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return m
}
