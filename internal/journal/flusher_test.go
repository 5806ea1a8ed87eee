package journal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// never is a delay that no test waits for: only the protocol wakes.
const never = 1000 * time.Hour

func started(t testing.TB, o Options) *Journal {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	o.Dir = "."
	j, err := Start(o)
	must(t, err)
	t.Cleanup(func() { must(t, j.Close()) })
	return j
}

func (l *waitingLog) isDurable() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// slow is a disk whose sync takes a time.
func slow(d time.Duration) *faultfs.FS {
	return faultfs.New(vfs.NewMem(), faultfs.Plan{Hook: func(op faultfs.Op) error {
		if op.Kind == faultfs.Sync {
			time.Sleep(d)
		}
		return nil
	}})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := started(t, Options{})
		l := join(t, j, 1, 10)
		for range 3 {
			time.Sleep(time.Second)
			end := l.publish(0, nil)
			time.Sleep(DelayDefault / 2)
			end = max(end, l.publish(0, nil)) // does not make it later
			time.Sleep(DelayDefault/2 - 1)
			synctest.Wait()
			if l.isDurable() == end {
				t.Error("flushed before the delay")
			}
			time.Sleep(1)
			synctest.Wait()
			if l.isDurable() != end {
				t.Errorf("durable to %d of %d after the delay", l.isDurable(), end)
			}
		}
		if s := j.Stats(); s.Runs != 3 || s.Frames != 3 || s.Bytes != 6*waitingBatch || s.Queued != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestDelayBesideFlush: the delay ends while a flush is under way that began
// before the publishing.
func TestDelayBesideFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := started(t, Options{FS: slow(10 * DelayDefault)})
		l := join(t, j, 1, 10)
		first := l.publish(0, nil)
		go func() { must(t, l.wait(first)) }()
		synctest.Wait() // in its sync
		end := l.publish(0, nil)
		time.Sleep(20 * DelayDefault)
		synctest.Wait()
		if l.isDurable() != end {
			t.Errorf("durable to %d of %d after the second flush", l.isDurable(), end)
		}
	})
}

// TestHandOver: who waited during a flush of somebody who never comes back is
// served by the next one.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := started(t, Options{FS: slow(time.Millisecond), Delay: never})
		l := join(t, j, 1, 10)
		first := l.publish(0, nil)
		var wg sync.WaitGroup
		wg.Go(func() { must(t, l.wait(first)) })
		synctest.Wait() // in its sync
		begin := time.Now()
		must(t, l.wait(l.publish(0, nil)))
		if d := time.Since(begin); d != 2*time.Millisecond {
			t.Errorf("waited for %v", d)
		}
		wg.Wait()
	})
}

// TestHandOverOfNothing: the holder of the lock found nothing to do, the waiter
// came in between, and there is no goroutine to help.
func TestHandOverOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := started(t, Options{Manual: true})
		l := join(t, j, 1, 10)
		end := l.publish(0, nil)
		j.flushMu.Lock()
		var wg sync.WaitGroup
		wg.Go(func() { must(t, j.Flush(t.Context())) })
		synctest.Wait()
		j.release()
		if wg.Wait(); l.isDurable() != end {
			t.Error("not durable")
		}
	})
}

// TestCutRuns: what one run has no place for comes in the next, without anybody
// asking, and Flush waits for all of it.
func TestCutRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const logs = 5
		j := started(t, Options{Bytes: BytesMin, Delay: never})
		members := make([]*plain, logs)
		for i := range members {
			members[i] = &plain{memory: make([]byte, 2<<20)}
			members[i].handle = j.Join([16]byte{byte(i)}, 1, members[i])
			members[i].publish(j.BatchMax())
		}
		if !j.TryFlush() {
			t.Fatal("nothing flushed")
		}
		if synctest.Wait(); j.Stats().Runs != logs {
			t.Errorf("%+v", j.Stats())
		}
		for _, m := range members {
			m.publish(j.BatchMax())
		}
		must(t, j.Flush(t.Context()))
		for i, m := range members {
			if m.durable != m.end {
				t.Errorf("log %d durable to %d of %d", i, m.durable, m.end)
			}
		}
	})
}

func TestBytesDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := started(t, Options{Delay: never})
		l := join(t, j, 1, dueBytes/waitingBatch)
		var end int64
		for i := range int64(dueBytes / waitingBatch) {
			if synctest.Wait(); i == dueBytes/waitingBatch-1 && l.isDurable() != 0 {
				t.Error("flushed before it is due")
			}
			end = l.publish(0, nil)
		}
		if synctest.Wait(); l.isDurable() != end {
			t.Errorf("durable to %d of %d", l.isDurable(), end)
		}
	})
}

// TestLoneWaiter flushes on its own goroutine, as often as it appends.
func TestLoneWaiter(t *testing.T) {
	j := started(t, Options{Delay: never, Manual: true})
	l := join(t, j, 1, 100)
	for range 100 {
		must(t, l.wait(l.publish(0, nil)))
	}
	if s := j.Stats(); s.Runs != 100 {
		t.Errorf("%d runs", s.Runs)
	}
}

// TestCompany: every wait ends after at most two flushes, and they are shared.
func TestCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, appends = 64, 50
		j := started(t, Options{FS: slow(time.Millisecond), Delay: never})
		var wg sync.WaitGroup
		for i := range writers {
			l := join(t, j, int32(i), appends)
			wg.Go(func() {
				for range appends {
					begin := time.Now()
					must(t, l.wait(l.publish(0, nil)))
					if d := time.Since(begin); d > 2*time.Millisecond {
						t.Errorf("waited for %v", d)
					}
				}
			})
		}
		wg.Wait()
		if s := j.Stats(); s.Frames != writers*appends || s.Runs > 3*appends {
			t.Errorf("%+v", s)
		}
	})
}

// TestNoLostWakeUp: no delay helps, and the journal is so small that flushers
// are without room all the time.
func TestNoLostWakeUp(t *testing.T) {
	const writers, logs, appends = 8, 3, 1500
	full := make(chan struct{}, 1)
	mem := vfs.NewMem()
	j := started(t, Options{FS: mem, Bytes: BytesMin, Delay: never, Full: func() {
		select {
		case full <- struct{}{}:
		default:
		}
	}})
	members := make([]*waitingLog, logs)
	for i := range members {
		members[i] = join(t, j, int32(i), writers*appends)
	}
	stop := make(chan struct{})
	var checkpoints, wg sync.WaitGroup
	checkpoints.Go(func() {
		for {
			select {
			case <-full:
			case <-stop:
				return
			}
			if _, mark, ok := j.Due(); ok {
				must(t, j.Free(mark))
			}
		}
	})
	for i := range writers {
		wg.Go(func() {
			for n := range appends {
				l := members[(i+n)%logs]
				end := l.publish(0, nil)
				switch {
				case i == 0 && n%20 == 0:
					must(t, j.Flush(t.Context()))
				case i == 1 && n%50 == 0:
					guest := join(t, j, 99, 1)
					guest.publish(0, nil)
					guest.handle.Leave()
				case n%3 > 0:
					must(t, l.wait(end))
				}
			}
		})
	}
	wg.Wait()
	must(t, j.Flush(t.Context()))
	close(stop)
	checkpoints.Wait()
	for _, l := range members {
		if l.durable != l.next {
			t.Errorf("durable to %d of %d", l.durable, l.next)
		}
	}
	batches(t, read(t, mem), func(int32, int64, uint64) {})
}

// TestClosure: what survives a power loss at any sync is closed under "was
// published before the other began", over all logs, with many publishers.
func TestClosure(t *testing.T) {
	type record struct{ begin, published uint64 }
	const writers, appends = 6, 150
	var clock atomic.Uint64
	var mu sync.Mutex
	records := map[[2]int64]record{}
	mem := vfs.NewMem()
	r := seeded(1)
	fsys := faultfs.New(mem, faultfs.Plan{})
	j := started(t, Options{FS: fsys, Bytes: 32 << 20, Delay: time.Millisecond})
	check := func(op faultfs.Op) error {
		if op.Kind != faultfs.Sync || r.IntN(5) > 0 {
			return nil
		}
		c := read(t, mem.CrashClone(vfs.CrashOptions{Rand: r, KeepUnsynced: 0.7}))
		survivors := map[[2]int64]bool{}
		var latest uint64
		batches(t, c, func(id int32, offset int64, begin uint64) {
			survivors[[2]int64{int64(id), offset}] = true
			latest = max(latest, begin)
		})
		mu.Lock()
		defer mu.Unlock()
		for k, rec := range records {
			if !survivors[k] && rec.published < latest {
				t.Errorf("%v, published at %d, is lost; what began at %d survives", k, rec.published, latest)
			}
		}
		return nil
	}
	fsys.SetPlan(faultfs.Plan{Hook: check})
	var wg sync.WaitGroup
	for i := range writers {
		l := join(t, j, int32(i), appends)
		wg.Go(func() {
			for n := range appends {
				begin := clock.Add(1)
				end := l.publish(begin, nil)
				mu.Lock()
				records[[2]int64{int64(l.id), end - 1}] = record{begin, clock.Add(1)}
				mu.Unlock()
				if n%4 == 0 {
					must(t, l.wait(end))
				}
			}
		})
	}
	wg.Wait()
}

// orderedMember notes the order in which members hear of what is durable.
type orderedMember struct {
	waitingLog
	heard *[]int64
}

func (m *orderedMember) Durable(_, _, next int64) { *m.heard = append(*m.heard, int64(m.id)*100+next) }

// TestDurableInOrder: who hears of a commit finds its markers visible.
func TestDurableInOrder(t *testing.T) {
	j := started(t, Options{Manual: true})
	var heard []int64
	var members [2]*orderedMember
	for i := range members {
		m := &orderedMember{heard: &heard, waitingLog: waitingLog{t: t, id: int32(i + 1), memory: make([]byte, 1<<10)}}
		m.handle = j.Join([16]byte{}, m.id, m)
		members[i] = m
	}
	for _, i := range []int{0, 1, 1, 0, 1} {
		members[i].publish(0, nil)
	}
	j.Run()
	if want := []int64{101, 202, 102, 203}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

func TestFlushEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := started(t, Options{Bytes: BytesMin, Delay: never})
		l := join(t, j, 1, 1000)
		must(t, j.Flush(t.Context()))
		for j.TryFlush() || j.Stats().Stalls == 0 {
			l.publish(0, nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := j.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without room: %v", err)
		}
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { err = j.Flush(t.Context()) })
		synctest.Wait()
		must(t, j.Close())
		if wg.Wait(); !errors.Is(err, ErrClosed) || !errors.Is(j.Err(), ErrClosed) {
			t.Errorf("closed: %v, %v", err, j.Err())
		}
		l.publish(0, nil)
		if j.TryFlush() || j.CloseHalf() || !errors.Is(j.Free(0), ErrClosed) {
			t.Error("goes on after Close")
		}
	})
}
