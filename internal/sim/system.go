package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// dir is the data directory.
const dir = "data"

// system is what is simulated: an open store, without goroutines of its own.
type system interface {
	partition(tp topic.Partition) (*log.Log, error)
	// reopen opens one partition again, with what is on its disk.
	reopen(tp topic.Partition) error
	// record makes the points of one checkpoint durable, or leaves it.
	record(tp topic.Partition, p log.Points) error
	// checkpoint checkpoints all partitions and records their points.
	checkpoint() error
	// work does what the store would do in the background by now.
	work()
	// starting tells whether journal or tail are coming into being, or the journal
	// is full.
	starting() bool
	sync() error
	close() error
	topics() []string
	create(name string, c catalog.TopicConfig) error
	alter(name string, c catalog.TopicConfig) error
	remove(name string) error
}

// opener opens a system on a file system.
type opener func(fsys vfs.FS, now func() time.Time) (system, error)

// store is the catalog, which is all of a Store but the fetching from several
// partitions and the waiting. It works by hand, so that a seed replays.
type store struct{ c *catalog.Catalog }

// storeOpener opens stores, with appends that go straight into the segments or
// through journal and tail.
func storeOpener(s scene) opener {
	return func(fsys vfs.FS, now func() time.Time) (system, error) {
		c, err := catalog.Open(catalog.Options{
			Dir: dir, Log: log.Options{FS: fsys, Now: now, Files: segment.NewFiles(3), Replicated: s.replicated}, Manual: true,
			Direct: s.direct, MemoryBytes: s.memory, JournalBytes: s.journal, TailBytes: s.tail,
		})
		if err != nil {
			return nil, err
		}
		return &store{c}, nil
	}
}

func (s *store) partition(tp topic.Partition) (*log.Log, error) { return s.c.Partition(tp) }
func (s *store) reopen(tp topic.Partition) error {
	return s.c.Reopen(context.Background(), tp)
}
func (s *store) checkpoint() error                        { return s.c.Checkpoint(context.Background()) }
func (s *store) record(topic.Partition, log.Points) error { return nil }
func (s *store) work()                                    { s.c.Work() }
func (s *store) starting() bool                           { return s.c.Starting() }
func (s *store) sync() error                              { return s.c.Sync(context.Background()) }
func (s *store) close() error                             { return s.c.Close(context.Background()) }
func (s *store) create(name string, c catalog.TopicConfig) error {
	return s.c.CreateTopic(context.Background(), name, c)
}
func (s *store) alter(name string, c catalog.TopicConfig) error {
	return s.c.AlterTopic(context.Background(), name, c)
}
func (s *store) remove(name string) error { return s.c.DeleteTopic(context.Background(), name) }

func (s *store) topics() (names []string) {
	for _, t := range s.c.Topics() {
		names = append(names, t.Name)
	}
	return names
}

// bare are replicated logs alone, which a store does not make yet, with their
// points in one file. It does what the catalog does, in its order.
type bare struct {
	fs      vfs.FS
	now     func() time.Time
	workers *log.Workers
	order   []topic.Partition
	configs map[topic.Partition]log.Config
	logs    map[topic.Partition]*log.Log
	points  map[topic.Partition]log.Points
}

const (
	barePoints = dir + "/points"
	bareClean  = dir + "/clean"
)

func (b *bare) starting() bool { return false }

// bareOpener opens logs with the given configurations.
func bareOpener(order []topic.Partition, configs map[topic.Partition]log.Config) opener {
	return func(fsys vfs.FS, now func() time.Time) (system, error) {
		b := &bare{
			fs: fsys, now: now, workers: log.ManualWorkers(), order: order, configs: configs,
			logs: map[topic.Partition]*log.Log{}, points: map[topic.Partition]log.Points{},
		}
		return b, b.open()
	}
}

func (b *bare) open() error {
	for _, path := range append([]string{dir}, b.dirs()...) {
		if err := b.fs.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := errors.Join(b.fs.SyncDir("."), b.fs.SyncDir(dir)); err != nil {
		return err
	}
	if err := b.readPoints(); err != nil {
		return err
	}
	_, err := b.fs.Stat(bareClean)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	clean := err == nil
	for _, tp := range b.order {
		if b.logs[tp], err = log.Load(b.options(tp, clean)); err != nil {
			return err
		}
	}
	if clean {
		if err := b.fs.Remove(bareClean); err != nil {
			return err
		}
	}
	if err := b.fs.SyncDir(dir); err != nil {
		return err
	}
	for _, tp := range b.order {
		if _, err := b.logs[tp].Recover(context.Background()); err != nil {
			return err
		}
		b.points[tp] = b.logs[tp].Points()
	}
	return b.writePoints()
}

func (b *bare) dirs() (paths []string) {
	for _, tp := range b.order {
		paths = append(paths, filepath.Join(dir, tp.String()))
	}
	return paths
}

func (b *bare) options(tp topic.Partition, clean bool) log.Options {
	return log.Options{
		FS: b.fs, Dir: filepath.Join(dir, tp.String()), Partition: tp, Config: b.configs[tp],
		Clean: clean, Points: b.points[tp], OwnOnly: true, Replicated: true,
		Checkpoints: b, Workers: b.workers, Now: b.now,
	}
}

func (b *bare) readPoints() error {
	content, err := vfs.ReadFile(b.fs, barePoints, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	in := bytes.NewReader(content)
	for _, tp := range b.order {
		var p log.Points
		if _, err := fmt.Fscan(in, &p.RecoveryPoint, &p.LogStart, &p.HighWatermark); err != nil {
			return err
		}
		b.points[tp] = p
	}
	return nil
}

func (b *bare) writePoints() error {
	var out bytes.Buffer
	for _, tp := range b.order {
		p := b.points[tp]
		fmt.Fprintln(&out, p.RecoveryPoint, p.LogStart, p.HighWatermark)
	}
	return vfs.Replace(b.fs, barePoints, out.Bytes())
}

// Record implements log.Checkpoints.
func (b *bare) Record(_ context.Context, tp topic.Partition, p log.Points) error {
	before := b.points[tp]
	b.points[tp] = p
	err := b.writePoints()
	if err != nil {
		b.points[tp] = before
	}
	return err
}

func (b *bare) partition(tp topic.Partition) (*log.Log, error) {
	if l := b.logs[tp]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%w: %s", catalog.ErrUnknownPartition, tp)
}

func (b *bare) reopen(tp topic.Partition) error {
	if l := b.logs[tp]; l != nil {
		_ = l.Abandon() // it stopped before
	}
	delete(b.logs, tp)
	l, err := log.Load(b.options(tp, false))
	if err != nil {
		return err
	}
	if _, err = l.Recover(context.Background()); err == nil {
		err = b.Record(context.Background(), tp, l.Points())
	}
	if err != nil {
		return errors.Join(err, l.Abandon())
	}
	b.logs[tp] = l
	return nil
}

func (b *bare) checkpoint() error {
	var errs error
	for _, tp := range b.order {
		l := b.logs[tp]
		if l == nil || l.Failed() != nil {
			continue
		}
		points, err := l.Checkpoint(context.Background())
		if err == nil {
			b.points[tp] = points
		}
		errs = errors.Join(errs, err)
	}
	return errors.Join(errs, b.writePoints())
}

func (b *bare) record(tp topic.Partition, p log.Points) error { return b.Record(ctx, tp, p) }

func (b *bare) work() { b.workers.Run() }

func (b *bare) sync() error {
	var errs error
	for _, tp := range b.order {
		if l := b.logs[tp]; l != nil {
			errs = errors.Join(errs, l.Sync(context.Background()))
		}
	}
	return errs
}

func (b *bare) close() error {
	var errs error
	for _, tp := range b.order {
		l := b.logs[tp]
		if l == nil {
			return errors.New("a partition did not open")
		}
		points, err := l.Close(context.Background())
		if err == nil {
			b.points[tp] = points
		}
		errs = errors.Join(errs, err)
	}
	if err := errors.Join(errs, b.writePoints()); err != nil {
		return err
	}
	return vfs.Replace(b.fs, bareClean, nil)
}

func (b *bare) topics() []string                         { return nil }
func (b *bare) create(string, catalog.TopicConfig) error { return errors.ErrUnsupported }
func (b *bare) alter(string, catalog.TopicConfig) error  { return errors.ErrUnsupported }
func (b *bare) remove(string) error                      { return errors.ErrUnsupported }
