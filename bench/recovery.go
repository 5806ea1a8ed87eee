package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oncelog/oncelog"
)

// Files at the root of a directory that a power loss, or a checkpoint, concern.
const (
	tailFile    = "oncelog.tail"
	journalFile = "oncelog.journal"
)

// tailHeaderBytes is what of the tail is on the device since it was made.
const tailHeaderBytes = 4096

// checkpointBytes is what a checkpoint bounds where there is no journal.
const checkpointBytes = 64 << 20

// openSlack is what opening may take beside scanning and rewriting, and a
// flush.
const openSlack = 20 * time.Millisecond

// Fill opens a store, appends the bytes of a configuration and returns with
// the store open and all of it acknowledged at its level: what Config.Crash
// then kills.
func Fill(ctx context.Context, dir string, c Config) (*oncelog.Store, error) {
	c, err := c.Normalize()
	if err != nil {
		return nil, err
	}
	e := newEngine(&c, dir)
	e.dir = dir
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	e.noWait = true
	if err := fill(ctx, &c, undrained{e}); err != nil {
		return nil, errors.Join(err, e.store.Close(context.Background()))
	}
	e.noWait = false
	last := newSource(&c, firstTransaction) // waits, and with it all before it
	err = last.fill(1)
	if err == nil {
		err = e.append(ctx, writer{}, last.next())
	}
	if err != nil {
		return nil, errors.Join(err, e.store.Close(context.Background()))
	}
	return e.store, nil
}

// undrained is the engine, left with what its last appends left in it.
type undrained struct{ *engine }

func (undrained) drain(context.Context) error { return nil }

// recovery makes a directory that was not closed, and opens copies of it: as
// kill -9 left it, and as power loss does. With references, what must be read
// and written again is, in turn with it.
func (r *Report) recovery(ctx context.Context, c *Config, dir string, goals []goal) error {
	crashed := filepath.Join(dir, "crashed")
	c.tell("%s: fill", c.name())
	if err := c.crash(ctx, crashed); err != nil {
		return err
	}
	bound := min(int64(checkpointBytes), c.Bytes)
	if info, err := os.Stat(filepath.Join(crashed, journalFile)); err == nil && c.Level == "fsync" {
		bound = min(info.Size(), c.Bytes)
	}
	side := func(name string, s side) contestant {
		return contestant{name: name, params: c.name(), metric: MetricSeconds, side: s}
	}
	sides := []contestant{
		side("after kill", &reopening{config: c, crashed: crashed, parent: dir}),
		side("after power loss", &reopening{config: c, crashed: crashed, parent: dir, power: true}),
	}
	if c.Limits {
		sides = append(sides,
			side("scan and rewrite", &rewriting{config: c, name: filepath.Join(dir, "warm"), size: bound}),
			side("cold scan and rewrite", &rewriting{config: c, name: filepath.Join(dir, "cold"), size: bound, cold: canDrop}))
	}
	if goals == nil && c.Limits {
		goals = slices.Concat(ratiosOf("recovery", MetricSeconds, sides[0].name, sides[2]), ratiosOf("recovery", MetricSeconds, sides[1].name, sides[3]))
	}
	return r.race(ctx, c, goals, sides...)
}

func (c *Config) crash(ctx context.Context, dir string) error {
	if c.Crash != nil {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return c.Crash(ctx, dir, *c)
	}
	live := dir + "-live"
	if err := os.Mkdir(live, 0o755); err != nil {
		return err
	}
	s, err := Fill(ctx, live, *c)
	if err != nil {
		return err
	}
	return errors.Join(copyTree(dir, live), s.Close(context.Background()), os.RemoveAll(live))
}

// copyTree copies a directory and makes the copy durable. Our own files at its
// root come first: what moves from them to others meanwhile is then copied
// twice, not left out.
func copyTree(to, from string) error {
	var names []string
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		}
		names = append(names, relative)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(names, func(a, b string) int { return copyOrder(a) - copyOrder(b) })
	for _, name := range names {
		err := copyFile(filepath.Join(to, name), filepath.Join(from, name), true)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a temporary file, renamed meanwhile
			return err
		}
	}
	return nil
}

func copyOrder(name string) int {
	switch {
	case strings.HasPrefix(name, "oncelog."):
		return 0
	case strings.Contains(name, string(filepath.Separator)):
		return 1
	}
	return 2 // checkpoints
}

// reopening is the side that opens a copy of a crashed directory.
type reopening struct {
	config          *Config
	crashed, parent string
	power           bool
	rounds          int
}

func (o *reopening) prepare(context.Context) error { return nil }
func (o *reopening) close() error                  { return nil }

func (o *reopening) round(ctx context.Context) (s sample, err error) {
	o.rounds++
	dir := filepath.Join(o.parent, fmt.Sprintf("opened-%t-%d", o.power, o.rounds))
	if err := copyTree(dir, o.crashed); err != nil {
		return s, err
	}
	e := newEngine(o.config, o.parent)
	e.dir = dir
	config := *o.config
	if o.power {
		if config.AfterPowerLoss != nil {
			config.FS = config.AfterPowerLoss
		}
		e.config = &config
		if err := losePower(dir, config.AfterPowerLoss != nil); err != nil {
			return s, err
		}
	}
	start := time.Now()
	if err := e.reopen(ctx); err != nil {
		return s, err
	}
	s.ops, s.elapsed = 1, time.Since(start)
	err = errors.Join(e.refuses(), e.store.Close(context.Background()))
	return s, errors.Join(err, os.RemoveAll(dir))
}

// losePower takes from a directory what was in memory only: the page cache,
// and, if the machine will seem to have started again, what was stored in the
// mapped tail since that was made. Within one boot that would be damage.
func losePower(dir string, otherBoot bool) error {
	if otherBoot {
		if err := emptyTail(filepath.Join(dir, tailFile)); err != nil {
			return err
		}
	}
	if !canDrop {
		return nil
	}
	return dropTree(dir)
}

// emptyTail makes zeros of the slots of a tail, if there is one.
func emptyTail(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	// Written, as it was made: a hole would be filled when the store opens.
	for pos := int64(tailHeaderBytes); err == nil && pos < info.Size(); pos += readBytes {
		_, err = f.WriteAt(make([]byte, min(readBytes, info.Size()-pos)), pos)
	}
	err = errors.Join(err, f.Sync())
	return errors.Join(err, f.Close())
}

// refuses tells of a partition that did not open.
func (e *engine) refuses() error {
	for i := range e.config.Partitions {
		if _, err := e.store.Partition(oncelog.TopicPartition{Topic: topicName, Index: int32(i)}); err != nil {
			return err
		}
	}
	return nil
}

// rewriting is the reference: a file is read by pieces of 1 MiB, checksums
// verified, written again in place, and flushed.
type rewriting struct {
	config *Config
	name   string
	size   int64
	cold   bool
	file   *os.File
	buffer []byte // fresh memory is dear
}

func (w *rewriting) prepare(ctx context.Context) (err error) {
	if w.file, err = os.OpenFile(w.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		return err
	}
	w.buffer = make([]byte, readBytes)
	clear(w.buffer) // touches it
	c := *w.config
	c.Partitions, c.Bytes = 1, w.size
	if err := fill(ctx, &c, &fileWriter{files: []*os.File{w.file}}); err != nil {
		return err
	}
	return w.file.Sync()
}

func (w *rewriting) round(context.Context) (s sample, err error) {
	if w.cold {
		if err := dropCache(w.file); err != nil {
			return s, err
		}
	}
	buffer := w.buffer
	start := time.Now()
	for pos := int64(0); ; {
		n, err := w.file.ReadAt(buffer, pos)
		if err != nil && err != io.EOF {
			return s, err
		}
		whole, err := checkBatches(buffer[:n])
		if err != nil {
			return s, err
		}
		if whole == 0 {
			break
		}
		if _, err := w.file.WriteAt(buffer[:whole], pos); err != nil {
			return s, err
		}
		pos += int64(whole)
		s.bytes = pos
	}
	err = datasync(w.file)
	s.ops, s.elapsed = 1, time.Since(start)
	return s, err
}

func (w *rewriting) close() error {
	if w.file == nil {
		return nil
	}
	return errors.Join(w.file.Close(), os.Remove(w.name))
}
