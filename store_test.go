package oncelog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// newStore is a store in memory with the topic "t" of n partitions.
func newStore(t testing.TB, n int, o oncelog.Options) *oncelog.Store {
	t.Helper()
	if o.FS == nil {
		o.FS = oncelog.NewMemFS()
	}
	s, err := oncelog.Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	if err := s.CreateTopic(t.Context(), "t", oncelog.TopicConfig{Partitions: n}); err != nil {
		t.Fatal(err)
	}
	return s
}

func partition(i int) oncelog.TopicPartition {
	return oncelog.TopicPartition{Topic: "t", Index: int32(i)}
}

func mustAppend(t testing.TB, s *oncelog.Store, tp oncelog.TopicPartition, values ...string) {
	t.Helper()
	if _, err := s.Append(t.Context(), tp, recordsOf(batch.Plain, values...), oncelog.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestOptionsRefused(t *testing.T) {
	for text, o := range map[string]oncelog.Options{
		"Durability":          {Durability: 3},
		"SegmentBytes":        {SegmentBytes: 1 << 31},
		"SegmentBytes is 10":  {SegmentBytes: 10},
		"RecoveryParallelism": {RecoveryParallelism: -1},
		"OpenSegmentsMax":     {OpenSegmentsMax: -1},
		"CheckpointInterval":  {CheckpointInterval: -1},
		"CheckpointBytes":     {CheckpointBytes: -1},
		"RetentionInterval":   {RetentionInterval: -1},
		"ProducerExpiration":  {ProducerExpiration: -1},
		"ProducersMax":        {ProducersMax: -1},
	} {
		dir := filepath.Join(t.TempDir(), "none")
		_, err := oncelog.Open(dir, o)
		if !errors.Is(err, oncelog.ErrInvalidOptions) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", text, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the directory was made", text)
		}
	}
}

func TestAppendRefused(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	ctx := t.Context()
	if err := s.CreateTopic(ctx, "compacted", oncelog.TopicConfig{Cleanup: oncelog.CleanupCompact}); err != nil {
		t.Fatal(err)
	}
	p := batch.Producer{ID: 1}
	transactional, ahead := batch.Plain, batch.Plain
	transactional.Producer, transactional.BaseSequence, transactional.Transactional = p, 0, true
	ahead.Producer, ahead.BaseSequence = p, 5
	damaged := recordsOf(batch.Plain, "x")
	damaged[len(damaged)-1] ^= 1
	for _, c := range []struct {
		name string
		tp   oncelog.TopicPartition
		b    batch.Batch
		want error
	}{
		{"unknown topic", oncelog.TopicPartition{Topic: "x"}, recordsOf(batch.Plain, "x"), oncelog.ErrUnknownPartition},
		{"unknown partition", partition(1), recordsOf(batch.Plain, "x"), oncelog.ErrUnknownPartition},
		{"transactional", partition(0), recordsOf(transactional, "x"), oncelog.ErrNoTransactionalID},
		{"control", partition(0), batch.AppendMarker(nil, batch.Marker{Producer: p}), batch.ErrInvalidRecord},
		{"nothing", partition(0), nil, batch.ErrInvalidRecord},
		{"damaged", partition(0), damaged, batch.ErrCorrupt},
		{"two batches", partition(0), append(recordsOf(batch.Plain, "x"), recordsOf(batch.Plain, "y")...), batch.ErrInvalidRecord},
		{"no key", oncelog.TopicPartition{Topic: "compacted"}, recordsOf(batch.Plain, "x"), batch.ErrInvalidRecord},
		{"a batch is missing", partition(0), recordsOf(ahead, "x"), oncelog.ErrOutOfOrder},
	} {
		if _, err := s.Append(ctx, c.tp, c.b, oncelog.AppendOptions{}); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	// None of it harmed the log: the next good batch gets the next offset.
	if a, err := s.Append(ctx, partition(0), recordsOf(batch.Plain, "good"), oncelog.AppendOptions{}); err != nil || a.BaseOffset != 0 {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestMetrics(t *testing.T) {
	mem := oncelog.NewMemFS()
	faulty := faultfs.New(mem, faultfs.Plan{})
	s := newStore(t, 3, oncelog.Options{FS: faulty, Direct: true}) // a journal would latch all
	for i := range 3 {
		mustAppend(t, s, partition(i), "a", "b")
	}
	o := batch.Plain
	o.Producer, o.BaseSequence = batch.Producer{ID: 1}, 0
	for range 2 {
		if _, err := s.Append(t.Context(), partition(0), recordsOf(o, "x"), oncelog.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	faulty.SetPlan(faultfs.FailNth(0, nil, faultfs.Sync))
	if _, err := s.Append(t.Context(), partition(1), recordsOf(batch.Plain, "x"), oncelog.AppendOptions{}); !errors.Is(err, oncelog.ErrLatched) {
		t.Fatalf("got %v", err)
	}
	m := s.Metrics()
	if m.Topics != 1 || m.Partitions != 3 || m.Latched != 1 || m.Refused != 0 || m.Duplicates != 1 || m.Producers != 1 || m.Segments != 3 || m.Appends != 5 || m.Bytes != m.AppendedBytes {
		t.Errorf("got %+v", m)
	}
	if err := s.Reopen(t.Context(), partition(1)); err != nil {
		t.Fatal(err)
	}
	if m := s.Metrics(); m.Latched != 0 {
		t.Errorf("%d latched after Reopen", m.Latched)
	}
}

// Everything at once, under the race detector: appends, fetches with waits,
// changes of topics, reopening, metrics, and Close in the middle.
func TestConcurrentUse(t *testing.T) {
	s := newStore(t, 4, oncelog.Options{SegmentBytes: 4 << 10})
	ctx := t.Context()
	allowed := func(err error) {
		for _, want := range []error{oncelog.ErrClosed, oncelog.ErrUnknownPartition, oncelog.ErrTopicExists, oncelog.ErrInvalidConfig} {
			if errors.Is(err, want) {
				return
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	loop := func(do func(i int)) {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					do(i)
				}
			}
		})
	}
	for p := range 4 {
		loop(func(i int) {
			_, err := s.Append(ctx, partition(p), recordsOf(batch.Plain, fmt.Sprint(i)), oncelog.AppendOptions{})
			allowed(err)
		})
	}
	loop(func(i int) {
		results, err := s.Fetch(ctx, []oncelog.FetchRequest{{TopicPartition: partition(0)}, {TopicPartition: partition(i % 6), Offset: int64(i)}}, oncelog.FetchOptions{WaitMax: 1})
		allowed(err)
		for _, r := range results {
			if !errors.Is(r.Err, oncelog.ErrOffsetOutOfRange) {
				allowed(r.Err)
			}
			r.Close()
		}
	})
	loop(func(i int) {
		name := fmt.Sprint("extra", i%3)
		allowed(s.CreateTopic(ctx, name, oncelog.TopicConfig{}))
		_, err := s.Append(ctx, oncelog.TopicPartition{Topic: name}, recordsOf(batch.Plain, "x"), oncelog.AppendOptions{})
		allowed(err)
		allowed(s.AlterTopic(ctx, name, oncelog.TopicConfig{Durability: oncelog.Durability(i%2 + 1)}))
		allowed(s.AddPartitions(ctx, name, 2))
		allowed(s.DeleteTopic(ctx, name))
	})
	rounds := make(chan struct{}, 1000)
	loop(func(int) {
		s.Metrics()
		s.Topics()
		allowed(s.Sync(ctx))
		select {
		case rounds <- struct{}{}:
		default:
		}
	})
	for range 30 {
		<-rounds
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	close(stop)
	group.Wait()
	if _, err := s.Append(ctx, partition(0), recordsOf(batch.Plain, "x"), oncelog.AppendOptions{}); !errors.Is(err, oncelog.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Partition(partition(0)); !errors.Is(err, log.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A counter never falls, whatever is deleted or opened again.
func TestMetricsNeverFall(t *testing.T) {
	fsys := faultfs.New(oncelog.NewMemFS(), faultfs.Plan{})
	s := newStore(t, 2, oncelog.Options{FS: fsys, Direct: true})
	mustAppend(t, s, partition(0), "x")
	mustAppend(t, s, partition(1), "y")
	if err := s.CreateTopic(t.Context(), "u", oncelog.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, oncelog.TopicPartition{Topic: "u"}, "z")
	before := s.Metrics()
	step := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		after := s.Metrics()
		if after.Appends != 3 || after.AppendedBytes != before.AppendedBytes || after.Flushes < before.Flushes {
			t.Errorf("%s: from %+v to %+v", what, before, after)
		}
		before = after
	}
	step("delete", s.DeleteTopic(t.Context(), "u"))
	fsys.SetPlan(faultfs.FailNth(0, nil, faultfs.Sync))
	_, err := s.Append(t.Context(), partition(0), recordsOf(batch.Plain, "lost"), oncelog.AppendOptions{})
	if !errors.Is(err, oncelog.ErrLatched) {
		t.Fatalf("got %v", err)
	}
	before = s.Metrics()
	if err := s.Reopen(t.Context(), partition(0)); err != nil {
		t.Fatal(err)
	}
	if after := s.Metrics(); after.Appends < before.Appends || after.AppendedBytes < before.AppendedBytes || after.Latched != 0 {
		t.Errorf("from %+v to %+v", before, after)
	}
	before = s.Metrics()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := s.Metrics(); after.Appends != before.Appends || after.Partitions != 2 {
		t.Errorf("after Close %+v, before %+v", after, before)
	}
}
