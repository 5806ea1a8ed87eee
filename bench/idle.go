package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cleanMark is the file by which a directory says that it was closed; without
// it every partition is recovered.
const cleanMark = ".kafka_cleanshutdown"

// idlePartitions is a store of many partitions that each hold one batch.
type idlePartitions struct {
	engine *engine
	// What the last opening took.
	resident, descriptors, goroutines float64
}

// make fills the store, and closes it.
func (i *idlePartitions) make(ctx context.Context) error {
	e := i.engine
	if err := descriptorsOf(e.config.Partitions); err != nil {
		return err
	}
	if err := e.open(ctx); err != nil {
		return err
	}
	for p := range e.config.Partitions {
		s := newSource(e.config, int64(1+p)<<32)
		if err := s.fill(1); err != nil {
			return err
		}
		if err := e.append(ctx, writer{partition: p}, s.next()); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	err := e.store.Close(ctx)
	e.store = nil
	return err
}

// open takes the time of opening, in ms, after a clean stop or an unclean one.
func (i *idlePartitions) open(ctx context.Context, clean bool) (float64, error) {
	e := i.engine
	if !clean {
		if err := os.Remove(filepath.Join(e.dir, cleanMark)); err != nil {
			return 0, err
		}
	}
	debug.FreeOSMemory() // what other trials left would be used first
	before := countProcess()
	start := time.Now()
	if err := e.reopen(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	runtime.GC()
	after, n := countProcess(), float64(e.config.Partitions)
	i.resident = max(0, float64(after.resident-before.resident)/1024) / n
	i.descriptors = float64(after.descriptors-before.descriptors) / n
	i.goroutines = float64(after.goroutines-before.goroutines) / n
	err := errors.Join(e.refuses(), e.store.Close(context.Background()))
	e.store = nil
	return took.Seconds() * 1e3, err
}

func (i *idlePartitions) close() error {
	e := i.engine
	var err error
	if e.store != nil {
		err = e.store.Close(context.Background())
	}
	return errors.Join(err, os.RemoveAll(e.dir))
}

// process is what the program holds.
type process struct {
	resident                int64 // bytes
	descriptors, goroutines int
}

func countProcess() process {
	p := process{goroutines: runtime.NumGoroutine(), resident: field(readText("/proc/self/status"), "VmRSS:") << 10}
	if names, err := os.ReadDir("/proc/self/fd"); err == nil {
		p.descriptors = len(names)
	}
	return p
}

// diskOf sums up the blocks of a directory, in bytes.
func diskOf(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var s unix.Stat_t
		if err := unix.Lstat(name, &s); err != nil {
			return &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
		if d.IsDir() || !strings.HasPrefix(d.Name(), "oncelog.") {
			sum += int64(s.Blocks) * 512
		}
		return nil
	})
	return sum, err
}

// descriptorsOf answers an error if the process may not open as many files as
// so many partitions may need.
func descriptorsOf(partitions int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(4*partitions + 256); limit.Cur < need {
		return fmt.Errorf("%d partitions may need %d open files, the limit is %d; raise it: ulimit -n %d", partitions, need, limit.Cur, need)
	}
	return nil
}

// The goals of P15 for 10 000 partitions.
const (
	idleAll         = 10_000
	idleCleanOpen   = 2000.0  // ms
	idleUncleanOpen = 10000.0 // ms
)

// idleSides are P15. With fewer partitions than the promise has, the time to
// open them is held against its share.
func idleSides(c *Config, dir string) ([]contestant, []goal) {
	idle := &idlePartitions{engine: newEngine(c, dir)}
	n, share := c.Partitions, float64(c.Partitions)/idleAll
	side := func(name string, unit Metric, f *figure) contestant {
		return contestant{name: name, params: fmt.Sprintf("idle/partitions=%d", n), metric: unit, side: f}
	}
	value := func(v *float64) *figure {
		return &figure{measure: func(context.Context) (float64, error) { return *v, nil }}
	}
	disk := &figure{measure: func(context.Context) (float64, error) {
		size, err := diskOf(idle.engine.dir)
		return float64(size) / 1024 / float64(n), err
	}}
	clean := &figure{make: idle.make, end: idle.close,
		measure: func(ctx context.Context) (float64, error) { return idle.open(ctx, true) }}
	unclean := &figure{measure: func(ctx context.Context) (float64, error) { return idle.open(ctx, false) }}
	sides := []contestant{
		side("open clean", unitMilliseconds, clean),
		side("resident", unitKiB, value(&idle.resident)),
		side("descriptors", unitCount, value(&idle.descriptors)),
		side("goroutines", unitCount, value(&idle.goroutines)),
		side("disk", unitKiB, disk),
		side("open unclean", unitMilliseconds, unclean),
	}
	what := func(s string) string { return fmt.Sprintf("%s, %d idle partitions", s, n) }
	return sides, []goal{
		{id: "P15/clean", what: what("open after a clean stop"), metric: unitMilliseconds, engine: "open clean", bound: atMost(idleCleanOpen * share)},
		{id: "P15/unclean", what: what("open after an unclean one"), metric: unitMilliseconds, engine: "open unclean", bound: atMost(idleUncleanOpen * share)},
		{id: "P15/memory", what: what("resident memory of each"), metric: unitKiB, engine: "resident", bound: atMost(64)},
		{id: "P15/disk", what: what("disk of each"), metric: unitKiB, engine: "disk", bound: atMost(64)},
		{id: "P15/goroutines", what: what("goroutines of each"), metric: unitCount, engine: "goroutines", bound: bound{limit: 0.05, most: true, text: "0 (the store's own aside)"}},
		{id: "P15/descriptors", what: what("descriptors of each"), metric: unitCount, engine: "descriptors", bound: bound{limit: 4.1, most: true, text: "≤ 4 (the store's own aside)"}},
	}
}

// busyMemory finds what the program's own memory grows by, in KiB for each
// partition, when idle partitions become busy. Mapped memory does not count.
func busyMemory(c *Config, dir string) *figure {
	e := newEngine(c, dir)
	return &figure{
		measure: func(ctx context.Context) (float64, error) {
			if err := e.open(ctx); err != nil {
				return 0, err
			}
			before := ownMemory()
			if err := e.fill(ctx); err != nil {
				return 0, err
			}
			grown := max(0, ownMemory()-before)
			return float64(grown) / 1024 / float64(c.Partitions), e.close()
		},
		end: e.close,
	}
}

// ownMemory is the heap in use and the stacks, after a collection.
func ownMemory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // empties pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// writtenBytes finds how many bytes the process hands to write for each byte
// that is appended, until the store is closed.
func writtenBytes(c *Config, dir string) *figure {
	e := newEngine(c, dir)
	return &figure{
		measure: func(ctx context.Context) (float64, error) {
			if err := e.open(ctx); err != nil {
				return 0, err
			}
			// The first append makes files that are never made again.
			if err := e.once(ctx); err != nil {
				return 0, err
			}
			before := handedToWrite()
			s, err := newLoad(c, stageAppend, e).run(ctx, c.Length)
			if err != nil || s.bytes == 0 {
				return 0, err
			}
			if err := e.store.Close(ctx); err != nil {
				return 0, err
			}
			written := handedToWrite() - before
			e.store = nil
			return float64(written) / float64(s.bytes), os.RemoveAll(e.dir)
		},
		end: e.close,
	}
}

// handedToWrite is how many bytes the process has passed to write and its like.
func handedToWrite() int64 { return field(readText("/proc/self/io"), "wchar:") }

// writtenSides are P16.
func writtenSides(small, large, busy *Config, dir string) ([]contestant, []goal) {
	side := func(name string, unit Metric, c *Config, f *figure) contestant {
		return contestant{name: name, params: c.name(), metric: unit, side: f}
	}
	sides := []contestant{
		side("written small", unitWritten, small, writtenBytes(small, filepath.Join(dir, "small"))),
		side("written large", unitWritten, large, writtenBytes(large, filepath.Join(dir, "large"))),
		side("busy memory", unitKiB, busy, busyMemory(busy, filepath.Join(dir, "busy"))),
	}
	return sides, []goal{
		{id: "P16/small", what: fmt.Sprintf("bytes written a byte, %s, %d writers", SizeText(int64(small.RecordBytes)), small.Writers), metric: unitWritten, engine: "written small", bound: atMost(2.1)},
		{id: "P16/large", what: fmt.Sprintf("bytes written a byte, batches of %s", SizeText(large.batchBytes()/1024*1024)), metric: unitWritten, engine: "written large", bound: atMost(1.1)},
		{id: "P16/memory", what: "memory of a busy partition, its tail aside", metric: unitKiB, engine: "busy memory", bound: atMost(64)},
	}
}
