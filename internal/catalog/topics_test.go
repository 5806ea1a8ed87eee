package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

func TestTopicsRefused(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	ctx := t.Context()
	mustCreate(t, c, "a", TopicConfig{Partitions: 2})
	mustCreate(t, c, topic.ConsumerOffsets, TopicConfig{})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, e := range []struct {
		name string
		err  error
		want error
	}{
		{"bad name", c.CreateTopic(ctx, "a/b", TopicConfig{}), topic.ErrInvalidName},
		{"Kafka's metadata", c.CreateTopic(ctx, topic.ClusterMetadata, TopicConfig{}), topic.ErrInvalidName},
		{"collides", errors.Join(c.CreateTopic(ctx, "x.y_z", TopicConfig{}), c.CreateTopic(ctx, "x_y.z", TopicConfig{})), topic.ErrInvalidName},
		{"exists", c.CreateTopic(ctx, "a", TopicConfig{}), ErrTopicExists},
		{"negative", c.CreateTopic(ctx, "b", TopicConfig{Partitions: -1}), ErrInvalidConfig},
		{"retention without cleanup", c.CreateTopic(ctx, "b", TopicConfig{RetentionAge: 1}), ErrInvalidConfig},
		{"segment too small", c.CreateTopic(ctx, "b", TopicConfig{SegmentBytes: SegmentBytesMin - 1}), ErrInvalidConfig},
		{"batch larger than a segment", c.CreateTopic(ctx, "b", TopicConfig{BatchBytesMax: 1001, SegmentBytes: 1000}), ErrInvalidConfig},
		{"batch larger than a segment of the store", c.CreateTopic(ctx, "b", TopicConfig{BatchBytesMax: 4<<10 + 1}), ErrInvalidConfig},
		{"alter to batches larger than a segment", c.AlterTopic(ctx, "a", TopicConfig{BatchBytesMax: 4<<10 + 1}), ErrInvalidConfig},
		{"segment too large", c.CreateTopic(ctx, "b", TopicConfig{SegmentBytes: 1 << 31}), ErrInvalidConfig},
		{"context", c.CreateTopic(ended, "b", TopicConfig{}), context.Canceled},
		{"delete unknown", c.DeleteTopic(ctx, "b"), ErrUnknownPartition},
		{"delete internal", c.DeleteTopic(ctx, topic.ConsumerOffsets), ErrInternalTopic},
		{"grow unknown", c.AddPartitions(ctx, "b", 2), ErrUnknownPartition},
		{"grow to less", c.AddPartitions(ctx, "a", 2), ErrInvalidConfig},
		{"grow too far", c.AddPartitions(ctx, "a", PartitionsMax+1), ErrInvalidConfig},
		{"internal with more than one", c.CreateTopic(ctx, topic.TransactionState, TopicConfig{Partitions: 7}), ErrInternalTopic},
		{"grow internal", c.AddPartitions(ctx, topic.ConsumerOffsets, 2), ErrInternalTopic},
		{"alter unknown", c.AlterTopic(ctx, "b", TopicConfig{}), ErrUnknownPartition},
		{"alter partitions", c.AlterTopic(ctx, "a", TopicConfig{Partitions: 3}), ErrInvalidConfig},
		{"alter to nonsense", c.AlterTopic(ctx, "a", TopicConfig{Cleanup: 9}), ErrInvalidConfig},
		{"reopen unknown", c.Reopen(ctx, at("a", 2)), ErrUnknownPartition},
	} {
		if !errors.Is(e.err, e.want) {
			t.Errorf("%s: got %v, want %v", e.name, e.err, e.want)
		}
	}
	if _, err := c.Partition(at("a", 2)); !errors.Is(err, ErrUnknownPartition) {
		t.Errorf("got %v", err)
	}
	mustClose(t, c)
	if err := c.CreateTopic(ctx, "b", TopicConfig{}); !errors.Is(err, log.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	o := on(mem)
	o.ReadOnly = true
	r := mustOpen(t, o)
	for name, err := range map[string]error{
		"create": r.CreateTopic(ctx, "b", TopicConfig{}), "delete": r.DeleteTopic(ctx, "a"), "grow": r.AddPartitions(ctx, "a", 3),
		"alter": r.AlterTopic(ctx, "a", TopicConfig{}), "reopen": r.Reopen(ctx, at("a", 0)), "sync": r.Sync(ctx),
	} {
		if !errors.Is(err, log.ErrReadOnly) {
			t.Errorf("%s of a directory opened read-only: %v", name, err)
		}
	}
}

// The configuration of a topic reaches its logs, is stored, and is changed at
// once and for later; one that Kafka made is never trimmed nor compacted until
// told, but for the internal ones, which are compacted.
func TestConfiguration(t *testing.T) {
	mem := newMem(t)
	for _, dir := range []string{"kafka-0", topic.TransactionState + "-0"} {
		if err := mem.Mkdir(dataDir+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, mem, dir+"/00000000000000000000.log", "")
	}
	o := on(mem)
	o.Durability, o.ProducersMax = log.DurabilityOS, 7
	c := mustOpen(t, o)
	of := func(name string) log.Config {
		l, err := c.Partition(at(name, 0))
		if err != nil {
			t.Fatal(err)
		}
		return l.Config()
	}
	if got := of("kafka"); got.Delete || got.Compact || got.Durability != log.DurabilityOS || got.SegmentBytes != 4<<10 || got.ProducersMax != 7 {
		t.Errorf("Kafka's: %+v", got)
	}
	if got := of(topic.TransactionState); got.Delete || !got.Compact {
		t.Errorf("internal: %+v", got)
	}
	config := TopicConfig{Durability: log.DurabilityFsync, Cleanup: CleanupDelete, RetentionBytes: 1000, SegmentBytes: 500, Timestamps: batch.LogAppendTime}
	mustCreate(t, c, "own", config)
	if err := c.AlterTopic(t.Context(), "kafka", TopicConfig{Cleanup: CleanupDelete, RetentionAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := of("own"); !got.Delete || got.RetentionBytes != 1000 || got.Durability != log.DurabilityFsync || got.SegmentBytes != 500 || got.Timestamps != batch.LogAppendTime {
			t.Errorf("ours: %+v", got)
		}
		if got := of("kafka"); !got.Delete || got.RetentionAge != time.Hour || got.Durability != log.DurabilityOS {
			t.Errorf("Kafka's, told: %+v", got)
		}
		topics := c.Topics()
		if len(topics) != 3 || !topics[0].Foreign || topics[0].Stored || !topics[1].Stored || !topics[1].Foreign || topics[2].Foreign || topics[2].Config != config {
			t.Errorf("topics %+v", topics)
		}
		mustClose(t, c)
		c = mustOpen(t, o)
	}
}

// A change of the level is safe while appends go on: whatever was acknowledged
// at level fsync survives the power going, and no reader at that level saw
// more than what does.
func TestAlterDurability(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "a", TopicConfig{})
	tp := at("a", 0)
	for range 20 {
		var writers sync.WaitGroup
		for range 3 {
			writers.Go(func() {
				for range 50 {
					if _, err := appendTo(c, tp, record("x")); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for _, level := range []log.Durability{log.DurabilityOS, log.DurabilityFsync} {
			if err := c.AlterTopic(t.Context(), "a", TopicConfig{Durability: level}); err != nil {
				t.Fatal(err)
			}
		}
		l, err := c.Partition(tp)
		if err != nil {
			t.Fatal(err)
		}
		seen := l.Frontiers().HighWatermark
		crashed := mustOpen(t, on(mem.CrashClone(vfs.CrashOptions{})))
		k, err := crashed.Partition(tp)
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Frontiers().LogEnd; got < seen {
			t.Fatalf("a reader saw %d records, %d survive", seen, got)
		}
		mustClose(t, crashed)
		writers.Wait()
	}
	// Down again with appends that nobody flushed: readers see them.
	l, _ := c.Partition(tp)
	a, err := l.Append(t.Context(), record("y"), log.AppendOptions{NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AlterTopic(t.Context(), "a", TopicConfig{Durability: log.DurabilityOS}); err != nil {
		t.Fatal(err)
	}
	if got := l.Frontiers().HighWatermark; got != a.LastOffset+1 {
		t.Errorf("high watermark %d, want %d", got, a.LastOffset+1)
	}
}

// A topic made again under its name is empty, has another id, and knows none
// of the old one's producers (FR-A6), also over a restart.
func TestDeleteAndCreateAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		sequence int32
		reopen   bool
	}{{"from the start", 0, false}, {"going on", 10, false}, {"reopened", 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			mem := newMem(t)
			put(t, mem, checkpoint.CleanerFile, "0\n2\na 0 5\nother 0 7\n")
			s := mustOpen(t, on(mem))
			mustCreate(t, s, "a", TopicConfig{})
			first := s.Topics()[0].ID
			p := batch.Producer{ID: 1000}
			for i := range int32(10) {
				if _, err := appendTo(s, at("a", 0), numbered(p, i)); err != nil {
					t.Fatal(err)
				}
			}
			l, err := s.Partition(at("a", 0))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.DeleteRecords(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			waited := make(chan error, 1)
			go func() { waited <- l.Wait(context.Background(), log.FrontierHighWatermark, 11) }()
			if err := s.DeleteTopic(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			if err := <-waited; !errors.Is(err, log.ErrClosed) {
				t.Errorf("waiter got %v", err)
			}
			if got := content(t, mem, checkpoint.CleanerFile); got != "0\n1\nother 0 7\n" {
				t.Errorf("cleaner checkpoint %q", got)
			}
			for path := range tree(t, mem, dataDir) {
				if strings.Contains(path, "a-0") {
					t.Errorf("%s is still there", path)
				}
			}
			if c.reopen {
				mustClose(t, s)
				s = mustOpen(t, on(mem))
			}
			mustCreate(t, s, "a", TopicConfig{})
			if id := s.Topics()[0].ID; id == first {
				t.Error("the id is the same")
			}
			// The answer is that of a log which never saw the producer.
			mustCreate(t, s, "fresh", TopicConfig{})
			a, err := appendTo(s, at("a", 0), numbered(p, c.sequence))
			want, wantErr := appendTo(s, at("fresh", 0), numbered(p, c.sequence))
			if a != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("got %+v, %v, want %+v, %v", a, err, want, wantErr)
			}
		})
	}
}

// What could not be removed is removed later, and before a topic of the name
// is made again.
func TestPendingDeletion(t *testing.T) {
	mem := newMem(t)
	fsys := faultfs.New(mem, faultfs.Plan{})
	o := on(fsys)
	var told events
	o.Events = told.add
	c := mustOpen(t, o)
	mustCreate(t, c, "a", TopicConfig{Partitions: 2})
	mustAppend(t, c, at("a", 1), "old")
	stuck := faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Remove}, Forever: true}}}
	fsys.SetPlan(stuck)
	if err := c.DeleteTopic(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if len(told.of(EventDeletionPending)) != 1 {
		t.Errorf("told %+v", told.all)
	}
	if err := c.CreateTopic(t.Context(), "a", TopicConfig{}); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	if len(c.Topics()) > 0 {
		t.Errorf("topics %v", c.Topics())
	}
	killed := mem.KillClone()
	again := mustOpen(t, on(killed))
	if len(again.Topics()) > 0 || len(tree(t, killed, dataDir+"/a-0")) > 0 {
		t.Errorf("it came back: %+v", again.Topics())
	}
	fsys.SetPlan(faultfs.Plan{})
	mustCreate(t, c, "a", TopicConfig{})
	if got := values(t, c, at("a", 0)); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// A topic of Kafka's without an id is grown without one, also into what an
// unfinished creation left.
func TestAddPartitionsWithoutID(t *testing.T) {
	mem := newMem(t)
	for _, dir := range []string{"a-0", "a-1"} {
		if err := mem.Mkdir(dataDir+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, mem, "a-0/00000000000000000000.log", string(record("x")))
	left := checkpoint.AppendPartitionMetadata(nil, checkpoint.PartitionMetadata{TopicID: checkpoint.TopicID{1}})
	put(t, mem, "a-1/"+checkpoint.PartitionMetadataFile, string(left))
	c := mustOpen(t, on(mem))
	if err := c.AddPartitions(t.Context(), "a", 3); err != nil {
		t.Fatal(err)
	}
	for i := range int32(3) {
		mustAppend(t, c, at("a", i), "y")
	}
	mustClose(t, c)
	c = mustOpen(t, on(mem))
	for i := range int32(3) {
		if name := at("a", i).String() + "/" + checkpoint.PartitionMetadataFile; exists(mem, name) {
			t.Errorf("%s says %q", name, content(t, mem, name))
		}
		if got := values(t, c, at("a", i)); got[len(got)-1] != "y" {
			t.Errorf("partition %d holds %v", i, got)
		}
	}
	if topics := c.Topics(); len(topics) != 1 || topics[0].ID != (checkpoint.TopicID{}) || !topics[0].Foreign {
		t.Errorf("topics %+v", topics)
	}
}

// When the manifest cannot be synced, nor put back, either of the two may be
// what survives: both are a legal end.
func TestManifestInDoubt(t *testing.T) {
	mem := newMem(t)
	fsys := faultfs.New(mem, faultfs.Plan{})
	c := mustOpen(t, on(fsys))
	mustCreate(t, c, "a", TopicConfig{})
	stuck := faultfs.Fault{Kinds: []faultfs.Kind{faultfs.SyncDir}, Match: func(op faultfs.Op) bool { return op.Name == dataDir }, N: 1, Forever: true}
	fsys.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{stuck}})
	if err := c.CreateTopic(t.Context(), "b", TopicConfig{Partitions: 2}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v", err)
	}
	fsys.SetPlan(faultfs.Plan{})
	left := []*vfs.Mem{mem.KillClone(), mem.CrashClone(vfs.CrashOptions{})}
	for seed := range uint64(50) {
		left = append(left, mem.CrashClone(vfs.CrashOptions{Rand: rand.New(rand.NewPCG(seed, 0)), KeepUnsynced: 0.5}))
	}
	for i, left := range left {
		again := mustOpen(t, on(left))
		for _, p := range again.all() {
			if p.err != nil {
				t.Errorf("state %d: %s refuses: %v", i, p.Partition, p.err)
			}
		}
		mustClose(t, again)
	}
	if got := c.Topics(); len(got) != 1 {
		t.Errorf("topics %+v", got)
	}
	mustCreate(t, c, "b", TopicConfig{})
	mustAppend(t, c, at("b", 0), "x")
	mustClose(t, c)
}

// A topic that Kafka made under the name of one whose deletion is pending is
// another topic.
func TestDeletionSparesNamesake(t *testing.T) {
	mem := newMem(t)
	fsys := faultfs.New(mem, faultfs.Plan{})
	c := mustOpen(t, on(fsys))
	mustCreate(t, c, "a", TopicConfig{Partitions: 2})
	mustAppend(t, c, at("a", 0), "old")
	mustAppend(t, c, at("a", 1), "old")
	if err := c.Checkpoint(t.Context()); err != nil { // the journal knows whose it is
		t.Fatal(err)
	}
	fsys.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Rename}, Match: func(op faultfs.Op) bool { return op.Name == dataDir+"/a-0" }, Forever: true}}})
	if err := c.DeleteTopic(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	left := mem.KillClone()
	m := checkpoint.AppendPartitionMetadata(nil, checkpoint.PartitionMetadata{TopicID: checkpoint.TopicID{1}})
	put(t, left, "a-0/"+checkpoint.PartitionMetadataFile, string(m))
	for range 2 {
		again := mustOpen(t, on(left))
		topics := again.Topics()
		if len(topics) != 1 || !topics[0].Foreign || !slices.Equal(topics[0].Partitions, []int32{0}) || topics[0].ID != (checkpoint.TopicID{1}) {
			t.Fatalf("topics %+v", topics)
		}
		if got := values(t, again, at("a", 0)); !slices.Equal(got, []string{"old"}) {
			t.Errorf("got %v", got)
		}
		if len(again.manifest.deletions) > 0 || exists(left, "a-1") {
			t.Error("the deletion is not finished")
		}
		mustClose(t, again)
	}
}

// Producers are known although all their records were deleted, also after a
// restart (FR-G7); and the log end stays where it was (FR-F14).
func TestDeletedRecordsAreRemembered(t *testing.T) {
	for _, how := range []string{"running", "closed", "killed", "only the newest segment is left"} {
		t.Run(how, func(t *testing.T) {
			mem := newMem(t)
			c := mustOpen(t, on(mem))
			mustCreate(t, c, "a", TopicConfig{SegmentBytes: 500})
			tp, p := at("a", 0), batch.Producer{ID: 1000}
			for i := range int32(100) {
				if _, err := appendTo(c, tp, numbered(p, i)); err != nil {
					t.Fatal(err)
				}
			}
			l, err := c.Partition(tp)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.DeleteRecords(t.Context(), -1); err != nil {
				t.Fatal(err)
			}
			switch how {
			case "closed":
				mustClose(t, c)
				c = mustOpen(t, on(mem))
			case "killed":
				c = mustOpen(t, on(mem.CrashClone(vfs.CrashOptions{})))
			case "only the newest segment is left":
				mem = mem.CrashClone(vfs.CrashOptions{})
				last := lastSegment(t, mem, "a-0")
				for path := range tree(t, mem, dataDir+"/a-0") {
					if strings.HasSuffix(path, ".log") && path != dataDir+"/"+last {
						if err := mem.Remove(path); err != nil {
							t.Fatal(err)
						}
					}
				}
				c = mustOpen(t, on(mem))
			}
			if l, err = c.Partition(tp); err != nil {
				t.Fatal(err)
			}
			if f := l.Frontiers(); f.LogStart != 100 || f.LogEnd != 100 || f.HighWatermark != 100 {
				t.Errorf("frontiers %+v", f)
			}
			if _, err := appendTo(c, tp, numbered(p, 101)); !errors.Is(err, producerstate.ErrOutOfOrderSequence) {
				t.Errorf("a sequence too far: %v", err)
			}
			if a, err := appendTo(c, tp, numbered(p, 100)); err != nil || a.BaseOffset != 100 {
				t.Errorf("the next: %+v, %v", a, err)
			}
		})
	}
}

// Reopen after a failed flush: what was acknowledged is there, appends go on.
func TestReopen(t *testing.T) {
	mem := newMem(t)
	fsys := faultfs.New(mem, faultfs.Plan{})
	o := on(fsys)
	o.Direct = true // else the flush is everybody's
	c := mustOpen(t, o)
	mustCreate(t, c, "a", TopicConfig{Partitions: 2})
	tp := at("a", 0)
	mustAppend(t, c, tp, "1", "2")
	fsys.SetPlan(faultfs.FailNth(0, nil, faultfs.Sync))
	if _, err := appendTo(c, tp, record("lost")); !errors.Is(err, log.ErrLatched) {
		t.Fatalf("got %v", err)
	}
	if _, err := appendTo(c, tp, record("refused")); !errors.Is(err, log.ErrLatched) {
		t.Fatalf("got %v", err)
	}
	mustAppend(t, c, at("a", 1), "unharmed")
	old, _ := c.Partition(tp)
	for n := 0; ; n++ { // an attempt that fails leaves it refusing, for the next
		fsys.SetPlan(faultfs.FailNth(n, nil))
		err := c.Reopen(t.Context(), tp)
		if err == nil {
			break
		}
		if _, e := c.Partition(tp); e == nil {
			t.Fatalf("it serves although Reopen failed with %v", err)
		}
	}
	fsys.SetPlan(faultfs.Plan{})
	if _, err := old.Read(0, log.ReadOptions{}); !errors.Is(err, log.ErrClosed) {
		t.Errorf("the old handle: %v", err)
	}
	got := values(t, c, tp)
	if len(got) == 3 && got[2] == "lost" { // it may have survived
		got = got[:2]
	}
	if !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %v", got)
	}
	mustAppend(t, c, tp, "3")
	if err := c.Reopen(t.Context(), tp); err != nil {
		t.Errorf("of one that serves: %v", err)
	}
	mustClose(t, c)
	if !exists(mem, checkpoint.CleanShutdownFile) {
		t.Error("no clean mark")
	}
}
