package bench

import (
	"context"
	"errors"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/oncelog/oncelog/batch"
)

// writer names who appends, and where to.
type writer struct {
	index     int
	partition int
}

// sink takes appends: the engine, or a bare reference. append is called by
// many goroutines at once, the rest by one while nobody appends; flush, if
// Config.FlushEvery asks for it, beside them.
type sink interface {
	append(ctx context.Context, w writer, b batch.Batch) error
	// flush makes durable what was appended.
	flush(ctx context.Context) error
	// drain empties the memory that appends land in, between bursts.
	drain(ctx context.Context) error
	// reset goes back to empty files, or at least gives disk space back; fresh
	// says that all was made anew.
	reset(ctx context.Context) (fresh bool, err error)
	open(ctx context.Context) error
	close() error
}

// How many bytes of batches are made at a time.
const chunkBytes = 256 << 10

// load is the side that appends to a sink.
type load struct {
	config  *Config
	stage   string // for profiles
	sink    sink
	sources [][]*source // of each writer: of each of its partitions
	parts   [][]int
}

// newLoad makes the side and its sources: writers share partitions, or each
// takes several in turn.
func newLoad(c *Config, stage string, s sink) *load {
	l := &load{config: c, stage: stage, sink: s}
	for w := range c.Writers {
		var parts []int
		for p := w % c.Partitions; p < c.Partitions; p += c.Writers {
			parts = append(parts, p)
		}
		sources := make([]*source, len(parts))
		for i, p := range parts {
			sources[i] = newSource(c, int64(1+w*c.Partitions+p)<<32)
		}
		l.parts, l.sources = append(l.parts, parts), append(l.sources, sources)
	}
	return l
}

func (l *load) prepare(ctx context.Context) error {
	if err := l.sink.open(ctx); err != nil {
		return err
	}
	// The first append of each writer makes files that are never made again; it
	// would use up the time to warm up.
	_, err := l.run(ctx, 1)
	if err == nil && l.config.Warmup > 0 {
		_, err = l.run(ctx, l.config.Warmup)
	}
	return err
}

func (l *load) round(ctx context.Context) (sample, error) {
	fresh, err := l.sink.reset(ctx)
	if err != nil {
		return sample{}, err
	}
	if fresh {
		for _, sources := range l.sources {
			for _, s := range sources {
				s.restart()
			}
		}
	}
	s, err := l.run(ctx, l.config.Length)
	return s, errors.Join(err, l.sink.drain(ctx))
}

func (l *load) close() error { return l.sink.close() }

// run appends for a time, or as many bytes as a round has; each writer once at
// least.
func (l *load) run(ctx context.Context, length time.Duration) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := l.flushBeside(ctx, cancel)
	workers := make([]worker, l.config.Writers)
	var running sync.WaitGroup
	start := time.Now()
	for i := range workers {
		w := &workers[i]
		*w = worker{load: l, index: i, deadline: start.Add(length), bytesMax: l.config.Bytes / int64(l.config.Writers)}
		if l.config.Timed {
			w.latency = newHistogram()
		}
		running.Go(func() {
			labels := pprof.Labels("stage", l.stage, "partition", strconv.Itoa(l.parts[i][0]))
			pprof.Do(ctx, labels, func(ctx context.Context) {
				if err := w.work(ctx, start); err != nil {
					cancel(err)
				}
			})
		})
	}
	running.Wait()
	err := context.Cause(ctx)
	stop()
	return sumUp(workers), err
}

// flushBeside flushes the sink in the interval of the configuration, until
// stop, which waits for the goroutine.
func (l *load) flushBeside(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	if l.config.FlushEvery == 0 {
		return func() {}
	}
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(l.config.FlushEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := l.sink.flush(context.WithoutCancel(ctx)); err != nil {
					cancel(err)
					return
				}
			}
		}
	})
	return func() { end(); running.Wait() }
}

// sumUp adds the workers up. The rate is the sum of the workers' rates, each by
// the time in which it appended, because making batches is no part of it.
func sumUp(workers []worker) sample {
	var s sample
	rate := 0.0
	for i := range workers {
		w := &workers[i]
		s.ops, s.bytes = s.ops+w.ops, s.bytes+w.bytes
		rate += perSecond(w.ops, w.active)
		if w.latency == nil {
			continue
		}
		if s.latency == nil {
			s.latency = w.latency
		} else {
			s.latency.Merge(w.latency)
		}
	}
	if rate > 0 {
		s.elapsed = time.Duration(float64(s.ops) / rate * float64(time.Second))
	}
	return s
}

// worker is one writer in one round.
type worker struct {
	load     *load
	index    int
	deadline time.Time
	bytesMax int64
	latency  *hdrhistogram.Histogram // nil: single appends are not timed

	ops, bytes int64
	active     time.Duration
}

func (w *worker) work(ctx context.Context, start time.Time) error {
	switch c := w.load.config; {
	case c.Rate > 0:
		return w.openLoop(ctx, start)
	case c.Timed:
		return w.timedLoop(ctx)
	}
	return w.closedLoop(ctx)
}

// turn is the source and the partition of the n-th piece of work.
func (w *worker) turn(n int) (*source, writer) {
	i := n % len(w.load.parts[w.index])
	return w.load.sources[w.index][i], writer{index: w.index, partition: w.load.parts[w.index][i]}
}

func (w *worker) took(b batch.Batch) {
	w.ops++
	w.bytes += int64(len(b))
}

// closedLoop appends chunk by chunk and takes the time of chunks.
func (w *worker) closedLoop(ctx context.Context) error {
	size := int64(chunkBytes)
	if w.load.config.Burst > 0 {
		size = w.load.config.Burst
	}
	for n := 0; ctx.Err() == nil && (n == 0 || w.bytes < w.bytesMax && time.Now().Before(w.deadline)); n++ {
		source, to := w.turn(n)
		if err := source.fill(min(size, w.bytesMax)); err != nil {
			return err
		}
		start := time.Now()
		for source.left() > 0 {
			b := source.next()
			if err := w.load.sink.append(ctx, to, b); err != nil {
				return err
			}
			w.took(b)
		}
		w.active += time.Since(start)
		if w.load.config.Burst > 0 {
			if err := w.load.sink.drain(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// timedLoop takes the time of each append.
func (w *worker) timedLoop(ctx context.Context) error {
	for n := 0; ctx.Err() == nil && (n == 0 || w.bytes < w.bytesMax); n++ {
		source, to := w.turn(n)
		if err := source.fill(1); err != nil {
			return err
		}
		b := source.next()
		start := time.Now()
		if start.After(w.deadline) && w.ops > 0 {
			source.taken-- // it was not appended, and its sequence must be
			return nil
		}
		if err := w.load.sink.append(ctx, to, b); err != nil {
			return err
		}
		latency := time.Since(start)
		record(w.latency, latency)
		w.active += latency
		w.took(b)
	}
	return nil
}

// openLoop appends at fixed times and takes latency from then.
func (w *worker) openLoop(ctx context.Context, start time.Time) error {
	c := w.load.config
	interval := time.Duration(float64(c.Writers) / c.Rate * float64(time.Second))
	due := start.Add(interval * time.Duration(w.index) / time.Duration(c.Writers))
	for n := 0; ctx.Err() == nil && (n == 0 || w.bytes < w.bytesMax && due.Before(w.deadline)); n++ {
		source, to := w.turn(n)
		if err := source.fill(1); err != nil {
			return err
		}
		b := source.next()
		sleepUntil(due)
		if err := w.load.sink.append(ctx, to, b); err != nil {
			return err
		}
		record(w.latency, time.Since(due))
		w.took(b)
		due = due.Add(interval)
	}
	w.active = max(time.Since(start), w.deadline.Sub(start))
	return nil
}

// timerSlack is by how much a timer may be late; the rest is waited out by
// looking at the clock.
const timerSlack = 200 * time.Microsecond

func sleepUntil(due time.Time) {
	if rest := time.Until(due); rest > timerSlack {
		time.Sleep(rest - timerSlack)
	}
	for time.Now().Before(due) {
		// Giving the processor away here would make the harness late.
	}
}
