package catalog

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// recordedPoint is the recovery point of a-0 that a power loss would leave.
func recordedPoint(t *testing.T, mem *vfs.Mem) int64 {
	t.Helper()
	b, err := readBook(mem.CrashClone(vfs.CrashOptions{}), dataDir, func(file string, err error) { t.Errorf("%s: %v", file, err) })
	if err != nil {
		t.Fatal(err)
	}
	return b.points[at("a", 0)].RecoveryPoint
}

func TestCheckpointsAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		o := on(mem)
		o.CheckpointBytes = 10_000
		c := mustOpen(t, o)
		mustCreate(t, c, "a", TopicConfig{Durability: log.DurabilityOS, SegmentBytes: 1 << 20})
		mustAppend(t, c, at("a", 0), "1")
		time.Sleep(25 * time.Second)
		if got := recordedPoint(t, mem); got != 0 {
			t.Errorf("recovery point %d before anything is due", got)
		}
		time.Sleep(10 * time.Second)
		if got := recordedPoint(t, mem); got != 1 {
			t.Errorf("recovery point %d after the interval, want 1", got)
		}
		writes := c.CheckpointWrites()
		time.Sleep(10 * time.Minute)
		if got := c.CheckpointWrites(); got != writes {
			t.Errorf("%d rewrites although nothing happened", got-writes)
		}
		mustAppend(t, c, at("a", 0), numbers(200)...)
		time.Sleep(2 * time.Second)
		if got := recordedPoint(t, mem); got != 201 {
			t.Errorf("recovery point %d after many bytes, want 201", got)
		}
		mustClose(t, c)
	})
}

// Retention and expiry run by themselves; the clock is the store's.
func TestRetentionAndExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told events
		o := on(newMem(t))
		o.ProducerExpiration = 20 * time.Minute
		o.Events = told.add
		c := mustOpen(t, o)
		mustCreate(t, c, "a", TopicConfig{Cleanup: CleanupDelete, RetentionBytes: 2000, SegmentBytes: 1000})
		mustCreate(t, c, "kept", TopicConfig{SegmentBytes: 1000})
		for i := range int32(100) {
			for _, name := range []string{"a", "kept"} {
				if _, err := appendTo(c, at(name, 0), numbered(batch.Producer{ID: 1}, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(6 * time.Minute)
		a, _ := c.Partition(at("a", 0))
		kept, _ := c.Partition(at("kept", 0))
		if m := a.Metrics(); m.Bytes < 2000 || m.Bytes > 3000 || m.LogStart == 0 {
			t.Errorf("%d bytes from offset %d, want about 2000", m.Bytes, m.LogStart)
		}
		if m := kept.Metrics(); m.LogStart != 0 || m.Producers != 1 {
			t.Errorf("what nobody asked to trim: %+v", m)
		}
		time.Sleep(30 * time.Minute)
		if n := a.Metrics().Producers + kept.Metrics().Producers; n != 0 {
			t.Errorf("%d producers are remembered", n)
		}
		if len(told.of(EventProducersExpired)) != 2 || len(told.of(EventSegmentsDeleted)) != 1 {
			t.Errorf("told %+v", told.all)
		}
		mustClose(t, c)
	})
}

// Work that fails on one partition is told, is tried again after the interval
// and not before, and does not keep another from its turn.
func TestMaintenanceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told events
		var broken atomic.Bool
		var tries atomic.Int32
		mem := newMem(t)
		o := on(faultfs.New(mem, faultfs.Plan{Hook: func(op faultfs.Op) error {
			if broken.Load() && op.Kind == faultfs.Open && op.Name == dataDir+"/"+"recovery-point-offset-checkpoint.tmp" {
				tries.Add(1)
				return syscall.ENOSPC
			}
			return nil
		}}))
		o.Events = told.add
		c := mustOpen(t, o)
		mustCreate(t, c, "a", TopicConfig{Partitions: 2})
		broken.Store(true)
		mustAppend(t, c, at("a", 0), "1")
		mustAppend(t, c, at("a", 1), "1")
		time.Sleep(95 * time.Second)
		if n := tries.Load(); n < 2 || n > 3 {
			t.Errorf("%d tries in three intervals", n)
		}
		failures := told.of(EventMaintenanceFailed)
		if len(failures) != 2*int(tries.Load()) || !errors.Is(failures[0].Err, syscall.ENOSPC) {
			t.Errorf("told %+v", failures)
		}
		broken.Store(false)
		time.Sleep(40 * time.Second)
		if got := recordedPoint(t, mem); got != 1 {
			t.Errorf("recovery point %d after the fault, want 1", got)
		}
		mustClose(t, c)
	})
}

// Close ends every goroutine, also of a catalog that did not open.
func TestNoGoroutineIsLeft(t *testing.T) {
	mem := newMem(t)
	filled(t, mem)
	before := runtime.NumGoroutine()
	for n := range 60 {
		fsys := faultfs.New(mem.KillClone(), faultfs.FailNth(n, nil))
		if c, err := Open(on(fsys)); err == nil {
			fsys.SetPlan(faultfs.Plan{})
			mustClose(t, c)
		}
	}
	for wait := time.Now(); time.Since(wait) < 5*time.Second; runtime.Gosched() { // those that have ended may not be gone yet
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// BenchmarkIdlePartitions opens and closes a directory of many partitions that
// hold one record each.
func BenchmarkIdlePartitions(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		for _, stop := range []string{"clean", "killed"} {
			b.Run(fmt.Sprintf("partitions=%d/stop=%s", n, stop), func(b *testing.B) {
				mem := newMem(b)
				c := mustOpen(b, on(mem))
				mustCreate(b, c, "a", TopicConfig{Partitions: n, Durability: log.DurabilityOS})
				for _, p := range c.all() {
					mustAppend(b, c, p.Partition, "x")
				}
				left := mem.KillClone()
				if stop == "clean" {
					mustClose(b, c)
					left = mem
				}
				var opening time.Duration
				b.ReportAllocs()
				b.ResetTimer()
				for b.Loop() {
					b.StopTimer()
					clone := left.KillClone()
					b.StartTimer()
					start := time.Now()
					c, err := Open(on(clone))
					opening += time.Since(start)
					if err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					mustClose(b, c)
					b.StartTimer()
				}
				b.ReportMetric(float64(opening.Milliseconds())/float64(b.N), "ms/open")
			})
		}
	}
}
