package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// source is the log that a consumer reads: one partition of a log directory,
// as it was when it was loaded. It can be loaded again, to see what another
// process has done since. Not safe for concurrent use.
type source struct {
	fs  vfs.FS
	dir string // the log directory
	tp  topic.Partition

	log     *log.Log      // nil before open
	release func()        // closes it
	damage  error         // why the log seems to end where it does, nil if that is its end
	seen    sighting      // of the files, taken before they were loaded
	took    time.Duration // to load them
}

// open loads the log. The error says what to do.
func (s *source) open() error {
	if _, err := s.fs.ReadDir(s.path()); err != nil {
		return s.explain(err)
	}
	return s.load()
}

func (s *source) path() string { return filepath.Join(s.dir, s.tp.String()) }

func (s *source) close() {
	if s.release != nil {
		s.release()
	}
}

// explain tells why there is no such partition.
func (s *source) explain(err error) error {
	c, e := listContents(s.fs, s.dir)
	switch {
	case e != nil:
		return e
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is a file; a partition is a directory", s.path())
	case !errors.Is(err, fs.ErrNotExist):
		return cannotLook(s.path(), err)
	case c.isPartition():
		return fmt.Errorf("%s is the directory of a partition; name the log directory that it lies in", s.dir)
	case !c.isLogDirectory():
		return fmt.Errorf("%s is no log directory: it holds no partition (a directory topic-number)", s.dir)
	}
	var topics, partitions []string
	for _, tp := range c.partitions {
		topics = append(topics, tp.Topic)
		if tp.Topic == s.tp.Topic {
			partitions = append(partitions, strconv.Itoa(int(tp.Index)))
		}
	}
	if len(partitions) > 0 {
		return fmt.Errorf("topic %q has no partition %d in %s, only %s", s.tp.Topic, s.tp.Index, s.dir, some(partitions))
	}
	if len(topics) == 0 {
		return fmt.Errorf("no topic %q in %s, nor any other", s.tp.Topic, s.dir)
	}
	return fmt.Errorf("no topic %q in %s, only %s", s.tp.Topic, s.dir, some(slices.Compact(topics)))
}

// namesMax is how many names an error lists.
const namesMax = 20

func some(names []string) string {
	if n := len(names) - namesMax; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesMax], ", "), n)
	}
	return strings.Join(names, ", ")
}

// loadTries bounds how often a log is loaded again that another process changes
// meanwhile.
const loadTries = 20

// load loads the log as it is now, in place of the one from before.
func (s *source) load() error {
	for try := 1; ; try++ {
		seen, clean, begun := s.sight(), s.marked(), time.Now()
		l, err := s.loadOnce()
		if err == nil || try == loadTries || clean == s.marked() {
			if err == nil {
				s.close()
				s.log, s.release, s.damage, s.seen, s.took = l.log, l.release, l.damage, seen, time.Since(begun)
			}
			return err
		}
	}
}

// marked tells whether there is a mark of a clean stop. It is gone before
// anything is written.
func (s *source) marked() bool {
	_, err := s.fs.Stat(filepath.Join(s.dir, checkpoint.CleanShutdownFile))
	return err == nil
}

// loaded is what loading once gave.
type loaded struct {
	log     *log.Log
	release func()
	damage  error
}

// loadOnce loads the log, and if it refuses because of damage, as much of it as
// lies before that.
func (s *source) loadOnce() (loaded, error) {
	view := &onePartitionFS{FS: s.fs, dir: s.dir, tp: s.tp}
	if s.log != nil {
		view.checked = s.log.Frontiers().LogEnd
	}
	store, err := oncelog.Open(s.dir, oncelog.Options{ReadOnly: true, FS: view, ProducerExpiration: forever})
	if err != nil {
		return loaded{}, s.refused(err)
	}
	// Nothing is written: what closing could report is of no consequence.
	closeStore := func() { _ = store.Close(context.Background()) }
	l, err := store.Partition(s.tp)
	if err == nil {
		return loaded{log: l, release: closeStore}, nil
	}
	closeStore()
	bad, corrupt := errors.AsType[*log.CorruptionError](err)
	if !corrupt {
		return loaded{}, s.refused(fmt.Errorf("%s: %w", s.path(), err))
	}
	// With the recovery point at the damage it is taken for a torn tail.
	o := log.Options{FS: s.fs, Dir: s.path(), Partition: s.tp, ReadOnly: true}
	o.Points.LogStart = s.checkpointed(checkpoint.LogStartFile)
	for _, o.Points.RecoveryPoint = range []int64{max(bad.Offset, 0), 0} {
		if l, e := log.Load(o); e == nil {
			found := loaded{log: l, release: func() { _ = l.Abandon() }, damage: bad}
			if bad.ReadableFrom >= 0 {
				found.damage = fmt.Errorf("%w: 'oncelog dump --records %s' shows it", bad, bad.File)
			}
			return found, nil
		}
	}
	return loaded{}, bad
}

// checkpointed reads what a file at the root says of the partition. One that
// cannot be read says nothing, as for whoever opens the directory.
func (s *source) checkpointed(name string) int64 {
	for _, e := range readCheckpoint(s.fs, filepath.Join(s.dir, name)) {
		if e.Partition == s.tp {
			return e.Offset
		}
	}
	return 0
}

func readCheckpoint(fsys vfs.FS, path string) []checkpoint.OffsetEntry {
	b, err := vfs.ReadFile(fsys, path, rootFileMax)
	if err != nil {
		return nil
	}
	entries, err := checkpoint.ReadOffsets(b)
	if err != nil {
		return nil
	}
	return entries
}

// refused is the error of a log that cannot be loaded.
func (s *source) refused(err error) error {
	if errors.Is(err, catalog.ErrJournalMissing) || errors.Is(err, catalog.ErrTailMissing) {
		return err // the text says what to do
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return cannotLook(path.Path, err)
	}
	if errors.Is(err, batch.ErrLegacyMagic) {
		return fmt.Errorf("%w; let a Kafka of version 3 rewrite the topic, or copy it to a new one", err)
	}
	return err
}

// read reads from an offset on. Files that another process has removed since
// the log was loaded make it look again.
func (s *source) read(offset int64, i log.Isolation) (*log.Fetched, error) {
	for try := 1; ; try++ {
		f, err := s.log.Read(offset, log.ReadOptions{Isolation: i})
		if errors.Is(err, fs.ErrNotExist) && try < loadTries {
			if err = s.load(); err == nil {
				continue
			}
		}
		if out, ok := errors.AsType[*log.OffsetError](err); ok {
			return nil, &rangeError{partition: s.tp, offset: offset, start: out.LogStart, next: out.LogEnd}
		}
		if bad, ok := errors.AsType[*log.CorruptionError](err); ok && bad.ReadableFrom >= 0 {
			return nil, fmt.Errorf("%w; --from %d goes on there", bad, bad.ReadableFrom)
		}
		return f, err
	}
}

// isDamage tells whether an error is about bytes that are not what they should
// be.
func isDamage(err error) bool {
	for _, damage := range []error{log.ErrCorrupt, batch.ErrCorrupt, batch.ErrInvalidRecord, batch.ErrUnsupportedCodec, oncelog.ErrManifest, journal.ErrDamaged} {
		if errors.Is(err, damage) {
			return true
		}
	}
	_, file := errors.AsType[*tail.FormatError](err)
	_, slot := errors.AsType[*tail.SlotError](err)
	return file || slot
}
