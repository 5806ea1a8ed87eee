package log

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// flushDelay is how long a published append may stay invisible at
// DurabilityFsync when nobody waits for it.
const flushDelay = 5 * time.Millisecond

// Workers are the background goroutines of all logs of a store: one flusher
// for appends that nobody waits for, one that writes memory back, and a few
// that seal rolled segments and prepare the next ones. A log has no goroutine
// of its own.
type Workers struct {
	group sync.WaitGroup
	stop  chan struct{} // closed by Close; ends every goroutine

	mu     sync.Mutex // leaf
	due    []*Log     // wait for a flush
	spare  []*Log     // the other buffer of due
	tasks  map[*Log]bool
	dueCh  chan struct{} // first log due
	nowCh  chan struct{} // do not wait for the delay
	taskCh chan struct{}

	memory *memoryWork // guarded by mu
	manual bool

	clock atomic.Int64 // ms, of the last Tick; 0: there was none
}

// Tick tells the time to logs that need to know it to a second or so. Whoever
// calls it calls it about as often; without it they look at their own clock.
func (w *Workers) Tick(now time.Time) { w.clock.Store(now.UnixMilli()) }

// coarse is the time in ms to a second or so: reading a clock costs as much as
// the rest of a small append.
func (l *Log) coarse() int64 {
	if l.o.Workers != nil {
		if now := l.o.Workers.clock.Load(); now != 0 {
			return now
		}
	}
	return l.o.Now().UnixMilli()
}

// NewWorkers starts them; n goroutines seal and prepare. Close waits for all.
func NewWorkers(n int) *Workers {
	w := &Workers{
		stop: make(chan struct{}), tasks: map[*Log]bool{},
		dueCh: make(chan struct{}, 1), nowCh: make(chan struct{}, 1), taskCh: make(chan struct{}, 1), memory: newMemoryWork(),
	}
	w.group.Go(w.flushLoop)
	w.group.Go(w.writeLoop)
	for range max(n, 1) {
		w.group.Go(w.taskLoop)
	}
	return w
}

// ManualWorkers are workers without goroutines: what is due waits for Run. It
// is for simulations, which must be the same every time.
func ManualWorkers() *Workers {
	return &Workers{
		stop: make(chan struct{}), tasks: map[*Log]bool{},
		dueCh: make(chan struct{}, 1), nowCh: make(chan struct{}, 1), taskCh: make(chan struct{}, 1), memory: newMemoryWork(), manual: true,
	}
}

// Run does what is due now of manual workers, in a fixed order.
func (w *Workers) Run() {
	w.mu.Lock()
	due := w.due
	w.due = nil
	tasks := slices.SortedFunc(maps.Keys(w.tasks), func(a, b *Log) int { return a.o.Partition.Compare(b.o.Partition) })
	clear(w.tasks)
	w.mu.Unlock()
	for _, l := range due {
		l.queued.Store(false)
		_ = l.flush() // a failure latched the log and was told
	}
	for _, l := range tasks {
		_ = l.maintain()
	}
	w.writeMemory()
}

// Close ends the goroutines and waits for them. Logs must be closed after it
// or do without: what is due then is done by their Close.
func (w *Workers) Close() {
	close(w.stop)
	w.group.Wait()
}

// flushDue puts a log in the list that the flusher works off after the delay.
func (w *Workers) flushDue(l *Log) {
	w.mu.Lock()
	w.due = append(w.due, l)
	w.mu.Unlock()
	signal(w.dueCh)
}

// flushNow ends the delay.
func (w *Workers) flushNow() { signal(w.nowCh) }

// submit asks for the maintenance of a log that rolled.
func (w *Workers) submit(l *Log) {
	w.mu.Lock()
	w.tasks[l] = true
	w.mu.Unlock()
	signal(w.taskCh)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// flushLoop ends when stop is closed.
func (w *Workers) flushLoop() {
	timer := time.NewTimer(flushDelay)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-w.dueCh:
			timer.Reset(flushDelay)
		case <-w.stop:
			return
		}
		select {
		case <-timer.C:
		case <-w.nowCh:
		case <-w.stop:
			return
		}
		w.mu.Lock()
		due := w.due
		w.due, w.spare = w.spare[:0], nil
		w.mu.Unlock()
		for i, l := range due {
			// First out of the list, then flushed: an append published after
			// this flush collected puts the log in again.
			l.queued.Store(false)
			// A failure latched the log and was told.
			_ = l.flush()
			due[i] = nil
		}
		w.mu.Lock()
		w.spare = due
		w.mu.Unlock()
	}
}

// taskLoop ends when stop is closed.
func (w *Workers) taskLoop() {
	for {
		select {
		case <-w.taskCh:
		case <-w.stop:
			return
		}
		for l := w.takeTask(); l != nil; l = w.takeTask() {
			// A failure latched the log and was told.
			_ = l.maintain()
		}
	}
}

func (w *Workers) takeTask() *Log {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.tasks {
		delete(w.tasks, l)
		if len(w.tasks) > 0 {
			signal(w.taskCh) // another worker may take the next
		}
		return l
	}
	return nil
}
