package catalog

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// newBook is a book of these partitions, without points.
func newBook(t testing.TB, fsys vfs.FS, partitions ...topic.Partition) *book {
	t.Helper()
	b, err := readBook(fsys, dataDir, func(file string, err error) { t.Errorf("%s: %v", file, err) })
	if err != nil {
		t.Fatal(err)
	}
	b.keep(nil, nil)
	b.keep(partitions, nil)
	return b
}

func content(t testing.TB, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, filepath.Join(dataDir, name), 1<<20)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestBookFiles(t *testing.T) {
	mem := newMem(t)
	b := newBook(t, mem)
	ctx := t.Context()
	if err := b.write(ctx, true); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, mem, dataDir); len(got) != 1 {
		t.Errorf("an empty book makes files: %v", got)
	}
	for _, tp := range []topic.Partition{at("b", 0), at("a", 10), at("a", 9)} {
		b.add(tp, log.Points{})
	}
	if err := errors.Join(
		b.Record(ctx, at("b", 0), log.Points{RecoveryPoint: 7, HighWatermark: 9}),
		b.Record(ctx, at("a", 10), log.Points{RecoveryPoint: 5, LogStart: 3, HighWatermark: 5}),
		b.Record(ctx, at("a", 9), log.Points{}),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		checkpoint.RecoveryPointFile: "0\n3\na 9 0\na 10 5\nb 0 7\n",
		checkpoint.LogStartFile:      "0\n1\na 10 3\n",
	} {
		if got := content(t, mem, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if exists(mem, checkpoint.HighWatermarkFile) {
		t.Error("high watermarks are written before they are asked for")
	}
	if err := b.write(ctx, true); err != nil {
		t.Fatal(err)
	}
	if got, want := content(t, mem, checkpoint.HighWatermarkFile), "0\n3\na 9 0\na 10 5\nb 0 9\n"; got != want {
		t.Errorf("high watermarks are %q, want %q", got, want)
	}
	again := newBook(t, mem.CrashClone(vfs.CrashOptions{}))
	again.keep([]topic.Partition{at("a", 10), at("c", 0)}, nil)
	if got, want := again.get(at("a", 10)), (log.Points{}); got != want {
		// newBook kept nothing: points of partitions that are not here are forgotten.
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What is unchanged is not written again, and what changed in one file leaves
// the other alone.
func TestBookWritesLittle(t *testing.T) {
	fsys := faultfs.New(newMem(t), faultfs.Plan{})
	b := newBook(t, fsys, at("a", 0))
	step := func(points log.Points, writes, dirSyncs int) {
		t.Helper()
		fsys.SetPlan(faultfs.Plan{})
		if err := b.Record(t.Context(), at("a", 0), points); err != nil {
			t.Fatal(err)
		}
		if w, s := fsys.Count(faultfs.Write), fsys.Count(faultfs.SyncDir); w != writes || s != dirSyncs {
			t.Errorf("%+v: %d writes and %d directory syncs, want %d and %d", points, w, s, writes, dirSyncs)
		}
	}
	step(log.Points{RecoveryPoint: 5}, 1, 1)
	step(log.Points{RecoveryPoint: 5}, 0, 0)
	step(log.Points{RecoveryPoint: 6, LogStart: 6}, 2, 1)
	step(log.Points{RecoveryPoint: 7, LogStart: 6}, 1, 1)
	step(log.Points{RecoveryPoint: 7, LogStart: 6, HighWatermark: 9}, 0, 0)
}

// Partitions that record while a rewrite is under way share the next one.
func TestBookGroupCommit(t *testing.T) {
	const n = 64
	inside, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var syncs atomic.Int32
	fsys := faultfs.New(newMem(t), faultfs.Plan{Hook: func(op faultfs.Op) error {
		if op.Kind == faultfs.SyncDir {
			syncs.Add(1)
			once.Do(func() { close(inside); <-hold })
		}
		return nil
	}})
	b := newBook(t, fsys)
	for i := range int32(n + 1) {
		b.add(at("a", i), log.Points{})
	}
	before := b.version
	var group sync.WaitGroup
	record := func(i int32) {
		group.Go(func() {
			if err := b.Record(t.Context(), at("a", i), log.Points{RecoveryPoint: int64(i) + 1}); err != nil {
				t.Error(err)
			}
		})
	}
	record(0)
	<-inside
	for i := range int32(n) {
		record(i + 1)
	}
	for { // until all are entered
		b.mu.Lock()
		entered := b.version - before
		b.mu.Unlock()
		if entered == n+1 {
			break
		}
	}
	close(hold)
	group.Wait()
	if got := syncs.Load(); got != 2 {
		t.Errorf("%d rewrites, want 2", got)
	}
	entries, err := checkpoint.ReadOffsets([]byte(content(t, fsys, checkpoint.RecoveryPointFile)))
	if err != nil || len(entries) != n+1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// After a rewrite that failed anywhere the next one makes everything durable,
// and what was acknowledged before stays.
func TestBookFaults(t *testing.T) {
	for n := 0; ; n++ {
		mem := newMem(t)
		fsys := faultfs.New(mem, faultfs.Plan{})
		tp := at("a", 0)
		b := newBook(t, fsys, tp)
		if err := b.Record(t.Context(), tp, log.Points{RecoveryPoint: 1, LogStart: 1}); err != nil {
			t.Fatal(err)
		}
		fsys.SetPlan(faultfs.FailNth(n, nil))
		err := b.Record(t.Context(), tp, log.Points{RecoveryPoint: 2, LogStart: 2})
		if fired := fsys.Fired(); fired != (err != nil) {
			t.Fatalf("operation %d: fired %v, error %v", n, fired, err)
		}
		crashed, e := readBook(mem.CrashClone(vfs.CrashOptions{}), dataDir, func(file string, err error) { t.Errorf("%s: %v", file, err) })
		if e != nil {
			t.Fatal(e)
		}
		if got := crashed.points[tp]; got.LogStart < 1 || got.RecoveryPoint < 1 || err == nil && got != (log.Points{RecoveryPoint: 2, LogStart: 2}) {
			t.Errorf("operation %d: %+v after a crash, error %v", n, got, err)
		}
		if err == nil {
			break
		}
		fsys.SetPlan(faultfs.Plan{})
		// Also back to what the files said before, whatever they say now.
		for _, want := range []log.Points{{RecoveryPoint: 1, LogStart: 1}, {RecoveryPoint: 2, LogStart: 2}} {
			if err := b.Record(t.Context(), tp, want); err != nil {
				t.Fatal(err)
			}
			for _, left := range []*vfs.Mem{mem.CrashClone(vfs.CrashOptions{}), mem.KillClone()} {
				crashed, e = readBook(left, dataDir, func(string, error) {})
				if got := crashed.points[tp]; e != nil || got != want {
					t.Errorf("operation %d: %+v after the next try, want %+v, %v", n, got, want, e)
				}
			}
		}
	}
}

// A caller whose context ends leaves; the rewrite goes on.
func TestBookContext(t *testing.T) {
	inside, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fsys := faultfs.New(newMem(t), faultfs.Plan{Hook: func(op faultfs.Op) error {
		once.Do(func() { close(inside); <-hold })
		return nil
	}})
	b := &book{fs: fsys, dir: dataDir, points: map[topic.Partition]log.Points{at("a", 0): {}, at("a", 1): {}}}
	done := make(chan error)
	go func() { done <- b.Record(context.Background(), at("a", 0), log.Points{RecoveryPoint: 1}) }()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Record(ctx, at("a", 1), log.Points{RecoveryPoint: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A checkpoint that ends after its topic was deleted leaves nothing to a topic
// made again under the name: else its torn tail would be taken for damage.
func TestPointsOfDeletedTopic(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "a", TopicConfig{})
	mustAppend(t, c, at("a", 0), numbers(50)...)
	old := c.all()[0]
	points, err := old.log.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteTopic(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.book.set(at("a", 0), points)
		if err := c.book.Record(t.Context(), at("a", 0), points); !errors.Is(err, log.ErrClosed) {
			t.Errorf("recorded: %v", err)
		}
	}
	if err := c.book.write(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for _, name := range bookNames {
		if got := content(t, mem, name); strings.Contains(got, "a 0") {
			t.Errorf("%s is %q", name, got)
		}
	}
	mustCreate(t, c, "a", TopicConfig{})
	c.enter(old, points)
	if got := c.book.get(at("a", 0)); got != (log.Points{}) {
		t.Errorf("made again it begins with %+v", got)
	}
	mustAppend(t, c, at("a", 0), "new")
	if err := c.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := c.book.get(at("a", 0)).RecoveryPoint, int64(1); got != want {
		t.Errorf("recovery point %d, want %d", got, want)
	}
}

// The lines of a replica move that Kafka has under way stay: it goes on by them.
// Those of partitions that are nowhere go.
func TestPointsOfFutureLogs(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "t", TopicConfig{})
	mustClose(t, c)
	dir := "t.x-2.0123456789abcdef0123456789abcdef-future"
	if err := mem.Mkdir(dataDir+"/"+dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, mem, dir+"/00000000000000000000.log", "x")
	put(t, mem, checkpoint.RecoveryPointFile, "0\n3\ngone 0 1\nt 0 0\nt.x 2 77\n")
	put(t, mem, checkpoint.LogStartFile, "0\n2\ngone 0 1\nt.x 2 55\n")
	put(t, mem, checkpoint.HighWatermarkFile, "0\n2\ngone 0 1\nt.x 2 70\n")
	for range 2 {
		mustClose(t, mustOpen(t, on(mem)))
		for name, want := range map[string]string{
			checkpoint.RecoveryPointFile: "0\n2\nt 0 0\nt.x 2 77\n",
			checkpoint.LogStartFile:      "0\n1\nt.x 2 55\n",
			checkpoint.HighWatermarkFile: "0\n2\nt 0 0\nt.x 2 70\n",
		} {
			if got := content(t, mem, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if !exists(mem, checkpoint.CleanShutdownFile) {
			t.Error("no clean mark")
		}
	}
}
