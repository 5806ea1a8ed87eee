package oncelog_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// opening says how the logs of a directory are opened one by one, without a
// store.
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

// open opens every partition of the directory.
func (o opening) open(t testing.TB) *opened {
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
			Events: func(e log.Event) { d.events = append(d.events, e) },
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
