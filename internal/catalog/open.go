package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// Open opens a data directory: of Kafka, of ours, or an empty one. If only the
// last element of its path is missing it is made, unless read-only.
//
// Errors: vfs.ErrLocked, *ManifestError, ErrNewerFormat, those of the file
// system. Up to the point where recovery begins, a failed Open leaves the
// directory byte for byte as it was, but for a dead process's id in .lock.
func Open(o Options) (*Catalog, error) {
	o = o.withDefaults()
	c := &Catalog{o: o, fs: o.Log.FS, dir: o.Dir, brokerEpoch: -1, full: make(chan struct{}, 1), ended: make(chan struct{})}
	c.backing = newBacking(c)
	c.background, c.stop = context.WithCancel(context.Background())
	if err := c.open(); err != nil {
		c.stop()
		return nil, fmt.Errorf("open data directory %s: %w%s", c.dir, err, advice(err))
	}
	return c, nil
}

func (c *Catalog) open() error {
	made, err := c.findDir()
	if err != nil {
		return err
	}
	if !c.o.ReadOnly {
		if c.lock, err = lockDir(c.fs, c.dir); err != nil {
			return errors.Join(err, c.unmake(made))
		}
		if c.o.Manual {
			c.workers = log.ManualWorkers()
		} else {
			c.workers = log.NewWorkers(workers)
		}
	}
	survey, err := c.read()
	for try := 1; err != nil && c.o.ReadOnly && c.inMotion(err) && try < loadTries; try++ {
		if err = c.abandonAll(); err == nil {
			survey, err = c.read()
		}
	}
	if c.acceptable(err) {
		if err = errors.Join(c.abandonLogs(), survey.close()); err == nil {
			err = c.keepMemory()
		}
		if err == nil {
			survey, err = c.read()
		}
	}
	if err == nil && !c.o.ReadOnly {
		err = c.syncParent()
	}
	if err != nil {
		err = errors.Join(err, c.abandonAll(), survey.close())
		if c.lock != nil {
			err = errors.Join(err, c.lock.undo())
		}
		return errors.Join(err, c.unmake(made))
	}
	if c.o.ReadOnly {
		c.tellRefused()
		return nil
	}
	if err := c.begin(survey); err != nil {
		return errors.Join(err, c.abandonAll(), c.lock.release())
	}
	c.tellRefused()
	if !c.o.Manual {
		c.tick(time.Now())
		c.loop.Go(c.maintain) // ends when background does
	}
	return nil
}

// workers is how many goroutines seal rolled segments.
const workers = 2

// findDir makes sure that there is a directory.
func (c *Catalog) findDir() (made bool, err error) {
	info, err := c.fs.Stat(c.dir)
	switch {
	case err == nil && info.IsDir():
		return false, nil
	case err == nil:
		return false, errors.New("it is a file: name a directory, or move the file away")
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	case c.o.ReadOnly:
		return false, fmt.Errorf("%w: check the path, or open it for writing once to make it", err)
	}
	if err := c.fs.Mkdir(c.dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("%w: make its parent directory first", err)
		}
		return false, err
	}
	if err := c.fs.SyncDir(filepath.Dir(filepath.Clean(c.dir))); err != nil {
		return false, errors.Join(err, c.unmake(true))
	}
	return true, nil
}

// unmake removes a directory that was made.
func (c *Catalog) unmake(made bool) error {
	if !made {
		return nil
	}
	return c.fs.Remove(c.dir)
}

// abandonAll closes the files of a catalog that does not open.
func (c *Catalog) abandonAll() error {
	if c.workers != nil {
		c.workers.Close()
	}
	return c.abandonLogs()
}

func (c *Catalog) abandonLogs() error {
	var err error
	for _, p := range c.all() {
		if p.log != nil {
			err = errors.Join(err, p.log.Abandon())
		}
	}
	return err
}

// survey is what reading a directory found out.
type survey struct {
	marked   bool      // there is a clean mark
	loaded   bool      // what is recalled is in memory
	manifest *manifest // as it should be
	changed  bool      // the file says something else
	members  []member
	future   []topic.Partition // of replica moves, which Kafka goes on with
	recalled *recalled         // nil after a clean stop
}

// close closes what was recalled, if it reads from files.
func (s *survey) close() error {
	if s == nil || s.recalled == nil || s.loaded {
		return nil
	}
	return s.recalled.close()
}

// read reads everything and changes nothing.
func (c *Catalog) read() (*survey, error) {
	m, err := readManifest(c.fs, c.dir)
	if err != nil {
		return nil, err
	}
	if c.clean, err = c.readMark(); err != nil {
		return nil, err
	}
	if c.book, err = readBook(c.fs, c.dir, func(file string, err error) {
		c.event(Event{Kind: EventCheckpointBad, File: file, Err: err})
	}); err != nil {
		return nil, err
	}
	c.book.replicated = c.o.Log.Replicated
	dirs, future, err := listPartitions(c.fs, c.dir)
	if err != nil {
		return nil, err
	}
	if dirs, err = c.inspectAll(dirs); err != nil {
		return nil, err
	}
	c.manifest = m
	c.unseen = len(future) > 0 && !c.clean
	s := &survey{future: future, marked: c.clean}
	s.manifest, s.members = resolve(m, dirs)
	s.changed = !equalTopics(m, s.manifest)
	c.tellLeftOut(dirs, s.members)
	// The clean mark says nothing while memory is in use: whoever made it was
	// another program, which knew nothing of that.
	if m.memory != (memoryState{}) {
		c.clean = false
	}
	if !c.clean {
		s.loaded = c.o.ReadOnly
		c.powerLost = !c.sameBoot()
		if s.recalled, err = recall(c.fs, c.dir, m.memory, c.o.ReadOnly); err != nil {
			return nil, err
		}
	}
	c.recalled = s.recalled
	return s, c.loadAll(s)
}

// sameBoot tells whether what is in the page cache must still be there: the machine
// has not stopped since the directory was written.
func (c *Catalog) sameBoot() bool {
	place, err := c.fs.Place(c.dir)
	if err != nil {
		return false
	}
	boot, err := tail.ReadBoot(c.fs, c.dir)
	return err == nil && boot == place.Boot
}

// PowerLost tells whether the directory was not closed cleanly, and nothing shows
// that the machine has been up since: appends at DurabilityOS may be lost.
func (c *Catalog) PowerLost() bool { return c.powerLost }

// readMark tells whether there is a clean mark.
func (c *Catalog) readMark() (bool, error) {
	b, err := vfs.ReadFile(c.fs, filepath.Join(c.dir, checkpoint.CleanShutdownFile), rootFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// What it says may be damaged: that it is there is what counts.
	if mark, err := checkpoint.ReadCleanShutdown(b); err == nil {
		c.brokerEpoch = mark.BrokerEpoch
	}
	return true, nil
}

// inspectAll looks into the directories. One that vanishes meanwhile, on a
// directory that is live, is left out.
func (c *Catalog) inspectAll(dirs []directory) ([]directory, error) {
	gone := make([]bool, len(dirs))
	err := sideBySide(len(dirs), c.o.Parallelism, func(i int) error {
		err := dirs[i].inspect(c.fs, c.dir)
		if c.o.ReadOnly && errors.Is(err, fs.ErrNotExist) {
			gone[i] = true
			return nil
		}
		if confined(err) { // it is some partition's, and that one refuses
			dirs[i].segments, dirs[i].err = true, err
			return nil
		}
		return err
	})
	kept := dirs[:0]
	for i, d := range dirs {
		if !gone[i] {
			kept = append(kept, d)
		}
	}
	return kept, err
}

// loadAll loads the logs side by side. The partitions are set whether it
// succeeds or not, so that they can be closed.
func (c *Catalog) loadAll(s *survey) error {
	list := make([]*partition, len(s.members))
	bar := c.progress("read", len(s.members))
	err := sideBySide(len(list), c.o.Parallelism, func(i int) error {
		p, err := c.load(s.members[i])
		list[i] = p
		bar.step()
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics, c.partitions = map[string]manifestTopic{}, make(map[topic.Partition]*partition, len(list))
	c.placeLocked(slices.DeleteFunc(list, func(p *partition) bool { return p == nil })...)
	for _, t := range s.manifest.topics {
		c.topics[t.name] = t
	}
	return err
}

// loadTries bounds how often a log is looked at again that another process
// changes meanwhile.
const loadTries = 20

// load loads one log. An error is the whole directory's; what concerns only
// the partition is in it.
func (c *Catalog) load(m member) (*partition, error) {
	p := &partition{Partition: m.partition, err: m.err, missing: m.missing}
	if m.err != nil {
		return p, nil
	}
	for try := 1; ; try++ {
		p.log, p.err = log.Load(c.logOptions(m, c.book.get(m.partition), c.clean))
		switch {
		case p.err == nil:
			return p, nil
		case c.o.ReadOnly && try < loadTries && c.movedOn(m.partition, p.err):
			continue
		case errors.Is(p.err, log.ErrCorrupt) || errors.Is(p.err, batch.ErrLegacyMagic):
			return p, nil
		case c.o.ReadOnly && errors.Is(p.err, fs.ErrNotExist):
			p.missing = true // its topic was deleted meanwhile
			return p, nil
		case confined(p.err):
			p.err = unusable(m.partition, p.err)
			return p, nil
		}
		return nil, p.err
	}
}

// movedOn tells whether an error may come from another process that writes:
// files vanish when segments are deleted, and shrink when they are sealed; the
// recovery point read before may be older than a truncation. The points are
// read again.
func (c *Catalog) movedOn(tp topic.Partition, err error) bool {
	moved := errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if !moved && !errors.Is(err, log.ErrCorrupt) {
		return false
	}
	now, e := readBook(c.fs, c.dir, func(string, error) {})
	if e != nil {
		return false
	}
	old := c.book.get(tp)
	c.book.add(tp, now.points[tp])
	return moved || now.points[tp] != old
}

// logOptions are those of one log.
func (c *Catalog) logOptions(m member, points log.Points, clean bool) log.Options {
	o := c.o.Log
	o.Dir, o.Partition = filepath.Join(c.dir, m.partition.String()), m.partition
	o.Config = c.o.logConfig(m.partition.Topic, m.topic.config)
	o.Clean, o.Points, o.OwnOnly = clean, points, !m.topic.foreign && !m.topic.compacted
	o.ReadOnly, o.Events = c.o.ReadOnly, c.logEvent
	o.TopicID = memoryID(m.partition.Topic, m.topic.id)
	if !c.o.ReadOnly {
		o.Checkpoints, o.Workers = c.book, c.workers
		if c.backing != nil {
			o.Backing = c.backing
		}
	}
	if c.recalled != nil {
		level := c.manifest.memory.durability
		if t := m.topic.config; t != nil && t.Durability != log.DurabilityDefault {
			level = t.Durability
		}
		c.recalled.apply(&o, c.manifest.memory, level)
	}
	return o
}

// begin makes the directory ours: from here on it changes.
func (c *Catalog) begin(s *survey) error {
	if s.marked { // believed or not: the next opening might believe it
		if err := c.fs.Remove(filepath.Join(c.dir, checkpoint.CleanShutdownFile)); err != nil {
			return err
		}
	}
	// Also without a mark: its removal by an opener that died then may not be
	// durable, and it must not come back after something was written.
	if err := c.fs.SyncDir(c.dir); err != nil {
		return err
	}
	if r := s.recalled; r != nil && r.journal != nil && !(plant.Enabled && plant.Is(plant.RunNotRewritten)) {
		if err := r.journal.Harden(); err != nil {
			return fmt.Errorf("make the journal durable: %w", err)
		}
		if d := r.journal.DroppedRun; d != nil {
			c.event(Event{Kind: EventRunDropped, File: filepath.Join(c.dir, journal.Name), From: d.Pos})
		}
	}
	kept := make([]topic.Partition, len(s.members))
	for i, m := range s.members {
		kept[i] = m.partition
	}
	c.book.keep(kept, s.future)
	if err := c.recoverAll(); err != nil {
		return err
	}
	if err := c.book.write(c.background, false); err != nil {
		return fmt.Errorf("write the checkpoints: %w", err)
	}
	if s.changed {
		if err := c.commit(s.manifest); err != nil {
			return err
		}
	}
	c.manifest = s.manifest
	if s.recalled != nil {
		c.recalled = nil
		if err := c.settleRecalled(s.recalled); err != nil {
			return err
		}
	}
	return c.finishDeletions("")
}

// syncParent makes the name of a directory durable that nobody has worked in:
// whoever made it may have died before that.
func (c *Catalog) syncParent() error {
	_, err := c.fs.Stat(filepath.Join(c.dir, ManifestFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = c.fs.SyncDir(filepath.Dir(filepath.Clean(c.dir)))
	if errors.Is(err, fs.ErrPermission) {
		return nil // then it is not ours to make, and was there before
	}
	return err
}

// recoverAll recovers the logs side by side.
func (c *Catalog) recoverAll() error {
	list := c.all()
	bar := c.progress("recover", len(list))
	return sideBySide(len(list), c.o.Parallelism, func(i int) error {
		defer bar.step()
		p := list[i]
		if p.log == nil {
			return nil
		}
		if _, err := p.log.Recover(c.background); err != nil {
			if !confined(err) && !errors.Is(err, log.ErrCorrupt) {
				return err
			}
			// As after a crash in its recovery; the others serve.
			err = errors.Join(unusable(p.Partition, err), p.log.Abandon())
			c.mu.Lock()
			c.placeLocked(&partition{Partition: p.Partition, err: err})
			c.mu.Unlock()
			return nil
		}
		c.book.set(p.Partition, p.log.Points())
		if bar.due() {
			return c.book.write(c.background, false)
		}
		return nil
	})
}

// tellLeftOut reports directories that cannot be looked into and that the
// manifest does not know. They may be partitions, clean or not.
func (c *Catalog) tellLeftOut(dirs []directory, members []member) {
	for _, d := range dirs {
		known := func(m member) bool { return m.partition == d.partition }
		if d.err == nil || slices.ContainsFunc(members, known) {
			continue
		}
		c.unseen = true
		c.event(Event{Kind: EventPartitionRefused, Partition: d.partition,
			Err: fmt.Errorf("look into %s: %w; it is left out until the data directory is opened again", d.partition, d.err)})
	}
}

// tellRefused reports the partitions that are not served.
func (c *Catalog) tellRefused() {
	for _, p := range c.all() {
		if p.err != nil {
			c.event(Event{Kind: EventPartitionRefused, Partition: p.Partition, Err: p.err})
		}
	}
}

// equalTopics tells whether two manifests say the same about topics.
func equalTopics(a, b *manifest) bool {
	return slices.EqualFunc(a.topics, b.topics, func(t, u manifestTopic) bool {
		same := t.name == u.name && t.id == u.id && t.partitions == u.partitions && t.foreign == u.foreign && t.compacted == u.compacted
		return same && (t.config == nil) == (u.config == nil) && (t.config == nil || *t.config == *u.config)
	})
}

func compareNames(a, b string) int { return strings.Compare(a, b) }
