package bench

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"

	"github.com/oncelog/oncelog/batch"
)

// rawFileBytes is the size of the files that raw flushes go round in.
const rawFileBytes = 64 << 20

// circle is a file that is written from its start to its end, and again.
type circle struct {
	name  string
	state FileState // Written, or Fresh: preallocated, and made anew for each round
	file  *os.File
	pos   int64
}

func (c *circle) open(context.Context) (err error) {
	if c.state == Fresh {
		c.file, err = makeFile(c.name, rawFileBytes)
	} else {
		c.file, err = writtenFile(c.name, rawFileBytes)
	}
	c.pos = 0
	return err
}

func (c *circle) reset(ctx context.Context) (bool, error) {
	if c.state != Fresh {
		return false, nil
	}
	if err := c.close(); err != nil {
		return false, err
	}
	return false, c.open(ctx)
}

// write writes b behind what was written last.
func (c *circle) write(b []byte) error {
	if c.pos+int64(len(b)) > rawFileBytes {
		c.pos = 0
	}
	_, err := c.file.WriteAt(b, c.pos)
	c.pos += int64(len(b))
	return err
}

func (c *circle) flush(context.Context) error { return datasync(c.file) }
func (c *circle) drain(context.Context) error { return datasync(c.file) }

func (c *circle) close() error {
	if c.file == nil {
		return nil
	}
	err := errors.Join(c.file.Close(), os.Remove(c.name))
	c.file = nil
	return err
}

// rawWrite is one write an append, no flush.
type rawWrite struct {
	circle
	mu sync.Mutex
}

func (r *rawWrite) append(_ context.Context, _ writer, b batch.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.write(b)
}

// rawFlush is one write and one flush an append.
type rawFlush struct {
	circle
	mu sync.Mutex
}

func (r *rawFlush) append(_ context.Context, _ writer, b batch.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.write(b); err != nil {
		return err
	}
	return datasync(r.file)
}

// groupCommit is many writers that share the flushes of one file: they leave
// their bytes in a buffer, one goroutine writes it and flushes, and lets those
// go whose bytes were in it.
type groupCommit struct {
	circle
	mu      sync.Mutex
	pending []byte
	spare   []byte
	waiting []chan error
	idle    []chan error // of writers that wait no more; reused
	wake    chan struct{}
	end     chan struct{}
	running sync.WaitGroup
}

func (g *groupCommit) open(ctx context.Context) error {
	if err := g.circle.open(ctx); err != nil {
		return err
	}
	g.wake, g.end = make(chan struct{}, 1), make(chan struct{})
	g.running.Go(func() {
		pprof.Do(ctx, pprof.Labels("stage", "group-commit-flusher"), func(context.Context) { g.commit() })
	})
	return nil
}

func (g *groupCommit) append(_ context.Context, _ writer, b batch.Batch) error {
	g.mu.Lock()
	g.pending = append(g.pending, b...)
	var done chan error
	if n := len(g.idle); n > 0 {
		done, g.idle = g.idle[n-1], g.idle[:n-1]
	} else {
		done = make(chan error, 1)
	}
	g.waiting = append(g.waiting, done)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	err := <-done
	g.mu.Lock()
	g.idle = append(g.idle, done)
	g.mu.Unlock()
	return err
}

// commit is the goroutine that flushes; close ends it.
func (g *groupCommit) commit() {
	var released []chan error
	for {
		select {
		case <-g.end:
			return
		case <-g.wake:
		}
		runtime.Gosched() // those who were just let go come back first
		g.mu.Lock()
		bytes := g.pending
		g.pending, g.spare = g.spare[:0], nil
		released, g.waiting = append(released[:0], g.waiting...), g.waiting[:0]
		g.mu.Unlock()
		if len(released) == 0 {
			g.spare = bytes
			continue
		}
		err := g.write(bytes)
		if err == nil {
			err = datasync(g.file)
		}
		g.mu.Lock()
		g.spare = bytes
		g.mu.Unlock()
		for _, done := range released {
			done <- err
		}
	}
}

func (g *groupCommit) close() error {
	if g.end != nil {
		close(g.end)
		g.running.Wait()
		g.end = nil
	}
	return g.circle.close()
}
