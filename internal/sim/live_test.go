package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// liveWriter is an idempotent producer that writes to one partition.
type liveWriter struct {
	tp    oncelog.TopicPartition
	id    int64
	next  int32           // sequence to send
	acked map[int32]int64 // offset by sequence, of what is acknowledged
}

// TestLiveStore is the model's smaller sister for the whole Store with all its
// goroutines, which no seed replays: writers append side by side, the store
// rolls, seals and flushes behind them, and everything dies at some operation.
// What was acknowledged at a level that survives is there, once, in order.
func TestLiveStore(t *testing.T) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	mem := vfs.NewMem()
	var writers []*liveWriter
	for i := range 6 {
		tp := oncelog.TopicPartition{Topic: []string{"fsync", "os"}[i%2], Index: int32(i / 2 % 2)}
		writers = append(writers, &liveWriter{tp: tp, id: int64(i), acked: map[int32]int64{}})
	}
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	total := 0
	for round := range rounds {
		limit := int64(50 + rng.IntN(2500))
		liveRound(t, mem, writers, limit)
		power := rng.IntN(2) == 0
		if power {
			mem = mem.CrashClone(vfs.CrashOptions{Rand: rng, KeepUnsynced: 0.5, Tear: true})
		} else {
			mem = mem.KillClone()
		}
		n := liveCheck(t, mem.KillClone(), writers, power, round)
		total = max(total, n)
	}
	t.Logf("%d batches at the end of %d lives", total, rounds)
}

// liveRound is one life: it ends when the file system has done limit
// operations.
func liveRound(t *testing.T, mem *vfs.Mem, writers []*liveWriter, limit int64) {
	t.Helper()
	var n atomic.Int64
	fsys := faultfs.New(mem, faultfs.Plan{Hook: func(faultfs.Op) error {
		if n.Add(1) > limit {
			return errCrashed
		}
		return nil
	}})
	s, err := oncelog.Open(dir, oncelog.Options{FS: fsys, SegmentBytes: 4000, OpenSegmentsMax: 2})
	if err != nil {
		if n.Load() <= limit {
			t.Fatalf("open: %v", err)
		}
		return
	}
	defer s.Close(context.Background()) // it ends the goroutines, and fails
	for _, c := range []oncelog.TopicConfig{{Partitions: 2}, {Partitions: 2, Durability: oncelog.DurabilityOS}} {
		name := map[bool]string{true: "os", false: "fsync"}[c.Durability == oncelog.DurabilityOS]
		if err := s.CreateTopic(context.Background(), name, c); err != nil && n.Load() <= limit && !errors.Is(err, oncelog.ErrTopicExists) {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for _, w := range writers {
		group.Go(func() { // ends when everything is dead
			for {
				b := liveBatch(w.id, w.next)
				a, err := s.Append(context.Background(), w.tp, b, oncelog.AppendOptions{})
				// An answer counts if the process lived when it came.
				if n.Load() > limit {
					return
				}
				if errors.Is(err, oncelog.ErrDuplicate) { // its place went with the process
					w.next++
					continue
				}
				if err != nil {
					t.Errorf("%s: producer %d: %v", w.tp, w.id, err)
					return
				}
				if offset, ok := w.acked[w.next]; ok && (offset != a.BaseOffset || !a.Duplicate) {
					t.Errorf("%s: producer %d: sequence %d was at %d, now %+v", w.tp, w.id, w.next, offset, a)
				}
				w.acked[w.next] = a.BaseOffset
				w.next++
			}
		})
	}
	group.Wait()
}

func liveBatch(id int64, sequence int32) batch.Batch {
	var b batch.Builder
	b.Reset(nil, batch.BuilderOptions{Producer: batch.Producer{ID: id}, BaseSequence: sequence, LeaderEpoch: batch.None})
	b.Add(epochMillis, nil, fmt.Appendf(nil, "%d of %d, and some more to fill segments", sequence, id))
	bytes, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return bytes
}

// liveCheck opens what is left and compares it with what was acknowledged. Each
// writer goes on behind what it finds, with a retry of the last.
func liveCheck(t *testing.T, mem *vfs.Mem, writers []*liveWriter, power bool, round int) (batches int) {
	t.Helper()
	s, err := oncelog.Open(dir, oncelog.Options{FS: mem})
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	defer s.Close(context.Background())
	for _, w := range writers {
		found := map[int32]int64{}
		l, err := s.Partition(w.tp)
		if errors.Is(err, oncelog.ErrUnknownPartition) && len(w.acked) == 0 {
			continue
		} else if err != nil {
			t.Fatalf("round %d: %s: %v", round, w.tp, err)
		}
		next := int32(0)
		for at := int64(0); ; {
			f, err := l.Read(at, log.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for b := range f.Batches() {
				batches++
				if b.BaseOffset() != at {
					t.Fatalf("round %d: %s: offset %d after %d", round, w.tp, b.BaseOffset(), at)
				}
				at = b.NextOffset()
				if b.ProducerID() != w.id {
					continue
				}
				if b.BaseSequence() != next {
					t.Fatalf("round %d: %s: producer %d: sequence %d, want %d", round, w.tp, w.id, b.BaseSequence(), next)
				}
				found[next] = b.BaseOffset()
				next++
			}
			end := f.HighWatermark
			f.Close()
			if at == end {
				break
			}
		}
		for sequence, offset := range w.acked {
			at, ok := found[sequence]
			if ok && at != offset || !ok && (!power || w.tp.Topic == "fsync") {
				t.Fatalf("round %d: %s: producer %d: sequence %d was acknowledged at %d, found %t at %d (power loss %t)", round, w.tp, w.id, sequence, offset, ok, at, power)
			}
		}
		// What is there but was not acknowledged may still go: the process that
		// opens this next may die before it has made it safe.
		w.next = 0
		for sequence := range w.acked {
			if _, ok := found[sequence]; !ok {
				delete(w.acked, sequence)
			} else {
				w.next = max(w.next, sequence)
			}
		}
	}
	return batches
}
