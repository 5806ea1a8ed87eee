package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
)

// readBytes is how much one read asks for.
const readBytes = 1 << 20

// reading is what the sides that read have in common: each of the readers goes
// from the first byte to the last, again and again, for the time of a round.
type reading struct {
	config *Config
	stage  string
	// pass reads a partition once, from start to end.
	pass func(ctx context.Context, reader, partition int, until time.Time) (ops, bytes int64, err error)
}

func (r *reading) read(ctx context.Context, length time.Duration) (sample, error) {
	samples := make([]sample, r.config.Writers)
	errs := make([]error, r.config.Writers)
	var running sync.WaitGroup
	start := time.Now()
	for i := range samples {
		running.Go(func() {
			labels := pprof.Labels("stage", r.stage, "partition", strconv.Itoa(i%r.config.Partitions))
			pprof.Do(ctx, labels, func(ctx context.Context) {
				s := &samples[i]
				// A cold round is one pass: the second would not be cold.
				for first := true; errs[i] == nil && ctx.Err() == nil && (first || r.config.Cache == Warm && time.Since(start) < length); first = false {
					ops, bytes, err := r.pass(ctx, i, i%r.config.Partitions, start.Add(length))
					s.ops, s.bytes, errs[i] = s.ops+ops, s.bytes+bytes, err
				}
			})
		})
	}
	running.Wait()
	sum := sample{elapsed: time.Since(start)}
	for _, s := range samples {
		sum.ops, sum.bytes = sum.ops+s.ops, sum.bytes+s.bytes
	}
	return sum, errors.Join(errs...)
}

// engineRead reads a store.
type engineRead struct {
	reading
	engine *engine
}

func newEngineRead(c *Config, dir string) *engineRead {
	r := &engineRead{engine: newEngine(c, dir)}
	r.reading = reading{config: c, stage: "read", pass: r.pass}
	return r
}

func (r *engineRead) prepare(ctx context.Context) error {
	if err := r.engine.open(ctx); err != nil {
		return err
	}
	if err := r.engine.fill(ctx); err != nil {
		return err
	}
	if r.config.Cache == Cold {
		return nil
	}
	_, err := r.read(ctx, r.config.Warmup)
	return err
}

// fill fills the store, without waiting for a flush an append.
func (e *engine) fill(ctx context.Context) error {
	e.noWait = true
	defer func() { e.noWait = false }()
	return fill(ctx, e.config, e)
}

// fill appends the bytes of a configuration, spread over the partitions.
func fill(ctx context.Context, c *Config, s sink) error {
	share := max(c.Bytes/int64(c.Partitions), 1)
	for p := range c.Partitions {
		source := newSource(c, int64(1+p)<<32)
		for written := int64(0); written < share; {
			if err := source.fill(min(chunkBytes, share)); err != nil {
				return err
			}
			for source.left() > 0 {
				b := source.next()
				if err := s.append(ctx, writer{partition: p}, b); err != nil {
					return err
				}
				written += int64(len(b))
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return s.drain(ctx)
}

func (r *engineRead) round(ctx context.Context) (sample, error) {
	if r.config.Cache == Cold {
		if err := dropTree(r.engine.dir); err != nil {
			return sample{}, err
		}
	}
	return r.read(ctx, r.config.Length)
}

func (r *engineRead) close() error { return r.engine.close() }

// pass fetches a partition from its first offset to its high watermark.
func (r *engineRead) pass(ctx context.Context, _, partition int, until time.Time) (ops, bytes int64, err error) {
	request := []oncelog.FetchRequest{{TopicPartition: r.engine.partitions[partition], BytesMax: readBytes}}
	var o oncelog.FetchOptions
	for ops == 0 || r.config.Cache == Cold || time.Now().Before(until) {
		results, err := r.engine.store.Fetch(ctx, request, o)
		if err != nil {
			return ops, bytes, err
		}
		o.Results = results
		f := &results[0]
		if f.Err != nil {
			return ops, bytes, f.Err
		}
		n, next := len(f.Bytes()), f.NextOffset()
		f.Close()
		if n == 0 {
			return ops, bytes, nil
		}
		ops, bytes, request[0].Offset = ops+1, bytes+int64(n), next
	}
	return ops, bytes, nil
}

// rawRead reads files of the same batches by pread of 1 MiB and verifies their
// checksums.
type rawRead struct {
	reading
	dir     string
	files   []*os.File
	buffers [][]byte // of each reader: fresh memory is dear
}

func newRawRead(c *Config, dir string) *rawRead {
	r := &rawRead{dir: dir}
	r.reading = reading{config: c, stage: "raw-read", pass: r.pass}
	return r
}

func (r *rawRead) prepare(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	for range r.config.Writers {
		r.buffers = append(r.buffers, make([]byte, readBytes))
	}
	for p := range r.config.Partitions {
		f, err := os.OpenFile(filepath.Join(r.dir, fmt.Sprintf("batches-%d", p)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		r.files = append(r.files, f)
	}
	if err := fill(ctx, r.config, &fileWriter{files: r.files}); err != nil {
		return err
	}
	if r.config.Cache == Cold {
		return nil
	}
	_, err := r.read(ctx, r.config.Warmup)
	return err
}

// fileWriter is the sink that fills the files of references, one partition
// after the other. It writes large pieces: the page cache of a file that was
// written in small ones is slower to read.
type fileWriter struct {
	noFlush
	files   []*os.File
	pending []byte
	to      int   // partition of pending
	pos     int64 // in its file
}

// fileWriterBytes is the size of a piece: that of the prototype's writes.
const fileWriterBytes = ringWriteBytes

func (w *fileWriter) open(context.Context) error { return nil }
func (w *fileWriter) close() error               { return nil }

func (w *fileWriter) append(ctx context.Context, to writer, b batch.Batch) error {
	if to.partition != w.to {
		if err := w.drain(ctx); err != nil {
			return err
		}
		w.to, w.pos = to.partition, 0
	}
	w.pending = append(w.pending, b...)
	if len(w.pending) < fileWriterBytes {
		return nil
	}
	return w.drain(ctx)
}

func (w *fileWriter) drain(context.Context) error {
	_, err := w.files[w.to].WriteAt(w.pending, w.pos)
	w.pos += int64(len(w.pending))
	w.pending = w.pending[:0]
	return err
}

func (r *rawRead) round(ctx context.Context) (sample, error) {
	if r.config.Cache == Cold {
		if err := dropTree(r.dir); err != nil {
			return sample{}, err
		}
	}
	return r.read(ctx, r.config.Length)
}

func (r *rawRead) pass(ctx context.Context, reader, partition int, until time.Time) (ops, bytes int64, err error) {
	buffer := r.buffers[reader]
	for pos := int64(0); ctx.Err() == nil && (ops == 0 || r.config.Cache == Cold || time.Now().Before(until)); {
		n, err := r.files[partition].ReadAt(buffer, pos)
		if err != nil && err != io.EOF {
			return ops, bytes, err
		}
		whole, bad := checkBatches(buffer[:n])
		if bad != nil {
			return ops, bytes, bad
		}
		if whole == 0 {
			return ops, bytes, nil
		}
		pos, ops, bytes = pos+int64(whole), ops+1, bytes+int64(whole)
	}
	return ops, bytes, nil
}

// checkBatches verifies the whole batches at the start of b and gives their
// size.
func checkBatches(b []byte) (whole int, err error) {
	for whole < len(b) {
		one, err := batch.Parse(b[whole:])
		if errors.Is(err, batch.ErrShort) {
			break
		}
		if err == nil {
			err = one.CheckCRC()
		}
		if err != nil {
			return whole, err
		}
		whole += len(one)
	}
	return whole, nil
}

func (r *rawRead) close() (err error) {
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// dropTree flushes the files of a directory and drops them from the page
// cache.
func dropTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), dropCache(f), f.Close())
	})
}
