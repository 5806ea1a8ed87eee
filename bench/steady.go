package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncelog/oncelog"
)

// Units of single figures.
const (
	unitAllocs       Metric = "allocs/op"
	unitMilliseconds Metric = "ms"
	unitKiB          Metric = "KiB"
	unitCount        Metric = "each"
	unitWritten      Metric = "B written/B"
)

// figure is a side that finds one number a round.
type figure struct {
	make    func(ctx context.Context) error
	measure func(ctx context.Context) (float64, error)
	end     func() error
}

func (f *figure) prepare(ctx context.Context) error {
	if f.make == nil {
		return nil
	}
	return f.make(ctx)
}

func (f *figure) round(ctx context.Context) (s sample, err error) {
	start := time.Now()
	s.value, err = f.measure(ctx)
	s.ops, s.elapsed = 1, time.Since(start)
	return s, err
}

func (f *figure) close() error {
	if f.end == nil {
		return nil
	}
	return f.end()
}

// countedOps are how many operations allocations are counted over.
const countedOps = 2000

// allocations counts what n calls allocate, each; everything that runs beside
// counts too.
func allocations(n int, call func() error) (float64, error) {
	var before, after runtime.MemStats
	if err := call(); err != nil { // what is allocated once
		return 0, err
	}
	runtime.ReadMemStats(&before)
	for range n {
		if err := call(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n), nil
}

// appendAllocations counts the allocations of an append; the batches are made
// before.
func appendAllocations(c *Config, dir string) *figure {
	e, source := newEngine(c, dir), newSource(c, 1<<32)
	n := min(countedOps, max(int(c.Bytes/c.batchBytes()), 1))
	return &figure{
		make: func(ctx context.Context) error { return e.open(ctx) },
		measure: func(ctx context.Context) (float64, error) {
			if err := source.fill(int64(2*n+2) * c.batchBytes()); err != nil {
				return 0, err
			}
			defer func() {
				for source.left() > 0 { // the sequences must go on
					_ = e.append(ctx, writer{}, source.next())
				}
			}()
			return allocations(min(n, source.left()-1), func() error { return e.append(ctx, writer{}, source.next()) })
		},
		end: e.close,
	}
}

// readAllocations counts the allocations of a fetch.
func readAllocations(c *Config, dir string) *figure {
	e := newEngine(c, dir)
	var o oncelog.FetchOptions
	var request []oncelog.FetchRequest
	return &figure{
		make: func(ctx context.Context) error {
			if err := e.open(ctx); err != nil {
				return err
			}
			request = []oncelog.FetchRequest{{TopicPartition: e.partitions[0], BytesMax: 64 << 10}}
			return e.fill(ctx)
		},
		measure: func(ctx context.Context) (float64, error) {
			return allocations(countedOps, func() error {
				results, err := e.store.Fetch(ctx, request, o)
				if err != nil {
					return err
				}
				f := &results[0]
				if f.Err != nil {
					return f.Err
				}
				request[0].Offset = f.NextOffset()
				if len(f.Bytes()) == 0 {
					request[0].Offset = 0
				}
				o.Results = results
				f.Close()
				return nil
			})
		},
		end: e.close,
	}
}

// collection takes the processor time of a cycle of the collector, in ms, with
// a store that knows so many producers; with none, of the program alone.
func collection(c *Config, dir string, producers int) *figure {
	e := newEngine(c, dir)
	return &figure{
		make: func(ctx context.Context) error {
			if producers == 0 {
				return nil
			}
			if err := e.open(ctx); err != nil {
				return err
			}
			_, err := e.introduce(ctx, producers)
			return err
		},
		measure: func(context.Context) (float64, error) {
			runtime.GC() // what is left of other trials
			before := processorTime()
			runtime.GC()
			return (processorTime() - before).Seconds() * 1e3, nil
		},
		end: e.close,
	}
}

// once appends one batch, and flushes it.
func (e *engine) once(ctx context.Context) error {
	s := newSource(e.config, 1<<32-1)
	if err := s.fill(1); err != nil {
		return err
	}
	if err := e.append(ctx, writer{}, s.next()); err != nil {
		return err
	}
	return e.flush(ctx)
}

// introduce appends one batch from each of n new producers, or n batches if
// producers are plain, and gives the longest that one append took.
func (e *engine) introduce(ctx context.Context, n int) (longest time.Duration, err error) {
	s := newSource(e.config, 1<<33)
	if e.config.Producer == Idempotent {
		s.producers = int64(n)
	}
	for range n {
		if err := s.fill(1); err != nil {
			return longest, err
		}
		b := s.next()
		start := time.Now()
		if err := e.append(ctx, writer{}, b); err != nil {
			return longest, err
		}
		longest = max(longest, time.Since(start))
		if err := ctx.Err(); err != nil {
			return longest, err
		}
	}
	return longest, nil
}

// stall finds the longest append, in ms, of many new producers; of one
// producer, as often, if again is set.
func stall(c *Config, dir string, again bool) *figure {
	config := *c
	if again {
		config.Producer = Plain
	}
	e := newEngine(&config, dir)
	return &figure{
		measure: func(ctx context.Context) (float64, error) {
			if err := errors.Join(e.close(), e.open(ctx)); err != nil {
				return 0, err
			}
			if err := e.once(ctx); err != nil {
				return 0, err
			}
			longest, err := e.introduce(ctx, c.Producers)
			return longest.Seconds() * 1e3, err
		},
		end: e.close,
	}
}

// processorTime is what the process has used of its processors.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// steadySide is one of P12.
func steadySide(name string, unit Metric, producers int, f *figure) contestant {
	return contestant{name: name, params: fmt.Sprintf("steady/producers=%d", producers), metric: unit, side: f}
}

// allocationSides count allocations.
func allocationSides(c *Config, dir string) ([]contestant, []goal) {
	none := bound{limit: 0.05, most: true, text: "0 (≤ 0.05: what runs beside counts)"}
	return []contestant{
			steadySide("append", unitAllocs, c.Producers, appendAllocations(c, filepath.Join(dir, "append"))),
			steadySide("fetch", unitAllocs, c.Producers, readAllocations(c, filepath.Join(dir, "read"))),
		}, []goal{
			{id: "P12/append", what: "allocations of an append", metric: unitAllocs, engine: "append", bound: none},
			{id: "P12/read", what: "allocations of a fetch", metric: unitAllocs, engine: "fetch", bound: none},
		}
}

// stallSides find stalls, in turn with what the machine does to such a loop.
func stallSides(c *Config, dir string) ([]contestant, []goal) {
	return []contestant{
			steadySide("one producer", unitMilliseconds, c.Producers, stall(c, filepath.Join(dir, "one"), true)),
			steadySide("stall", unitMilliseconds, c.Producers, stall(c, filepath.Join(dir, "many"), false)),
		}, []goal{{id: "P12/stall", what: fmt.Sprintf("longest append while %d producers are added", c.Producers), metric: unitMilliseconds,
			engine: "stall", reference: "one producer", bound: bound{limit: 1, most: true, plain: true}, note: "the reference is what the machine does to the same loop with one producer"}}
}

// collectionSides measure the collector: alone, for comparison, or with a
// store. They cannot be measured in turn, because the store would be there.
func collectionSides(c *Config, dir string, with bool) ([]contestant, []goal) {
	if !with {
		return []contestant{steadySide("gc without", unitMilliseconds, c.Producers, collection(c, dir, 0))}, nil
	}
	return []contestant{steadySide("gc", unitMilliseconds, c.Producers, collection(c, dir, c.Producers))},
		[]goal{{id: "P12/gc", what: fmt.Sprintf("processor time of a GC cycle, %d producers", c.Producers), metric: unitMilliseconds, engine: "gc",
			bound: atMost(5), note: "the whole program's; the result \"gc without\" is its share without them"}}
}
