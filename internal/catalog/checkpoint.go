package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// The checkpoint files that a book writes.
const (
	fileRecoveryPoint = iota
	fileLogStart
	fileHighWatermark
	bookFiles
)

var bookNames = [bookFiles]string{checkpoint.RecoveryPointFile, checkpoint.LogStartFile, checkpoint.HighWatermarkFile}

// book is Kafka's checkpoint files: the points of all partitions. It
// implements log.Checkpoints. Partitions that record at the same time share
// one rewrite of the files: whoever finds none under way makes it, with all
// that was entered until then; the others wait for it, and one of those it
// came too early for makes the next.
type book struct {
	// Set by readBook.
	fs  vfs.FS
	dir string
	// replicated: high watermarks come from outside, so that a crash starts from
	// those recorded, and every round writes them.
	replicated bool

	mu      sync.Mutex // leaf
	points  map[topic.Partition]log.Points
	order   []topic.Partition // keys of points, ascending
	content [bookFiles][]byte // of the files, as far as it is durable
	version uint64            // counts changes
	durable uint64            // version that the files hold
	marks   bool              // high watermarks are to be written too
	round   *round            // rewrite under way, nil if none
	writes  int64             // rewrites so far
}

// round is one rewrite of the files.
type round struct {
	done    chan struct{} // closed at its end; then err is set
	err     error
	version uint64 // that it makes durable
}

// readBook reads the files. One that is missing is empty; one that cannot be
// understood is too, as in Kafka, and bad is called with it: it costs a longer
// recovery.
func readBook(fsys vfs.FS, dir string, bad func(file string, err error)) (*book, error) {
	b := &book{fs: fsys, dir: dir, points: map[topic.Partition]log.Points{}}
	for i, name := range bookNames {
		path := filepath.Join(dir, name)
		content, err := vfs.ReadFile(fsys, path, rootFileMax)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries, err := checkpoint.ReadOffsets(content)
		if err != nil {
			bad(path, err)
		}
		b.content[i] = content
		for _, e := range entries {
			p := b.points[e.Partition]
			switch i {
			case fileRecoveryPoint:
				p.RecoveryPoint = e.Offset
			case fileLogStart:
				p.LogStart = e.Offset
			case fileHighWatermark:
				p.HighWatermark = e.Offset
			}
			b.points[e.Partition] = p
		}
	}
	return b, nil
}

// keep forgets all partitions but those given, and of others only what the
// files say. What a later topic of the same name would find of an old one goes
// with the next rewrite.
func (b *book) keep(partitions, others []topic.Partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.points
	b.points = make(map[topic.Partition]log.Points, len(partitions))
	for _, p := range partitions {
		b.points[p] = old[p]
	}
	for _, p := range others {
		if points, known := old[p]; known {
			b.points[p] = points
		}
	}
	b.order = slices.SortedFunc(maps.Keys(b.points), topic.Partition.Compare)
	b.version++
}

// get is what was last entered for a partition.
func (b *book) get(p topic.Partition) log.Points {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.points[p]
}

// add enters a partition with its points, without writing: only from then on
// are points of it taken.
func (b *book) add(p topic.Partition, points log.Points) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.points[p]; !known {
		i, _ := slices.BinarySearchFunc(b.order, p, topic.Partition.Compare)
		b.order = slices.Insert(b.order, i, p)
		b.version++
		b.points[p] = points
	}
	b.setLocked(p, points)
}

// set enters the points of a partition without writing; of one that is not in
// the book it does nothing. A checkpoint may end after its topic was deleted,
// and a topic made again under the name must not begin with what it says.
func (b *book) set(p topic.Partition, points log.Points) {
	b.mu.Lock()
	b.setLocked(p, points)
	b.mu.Unlock()
}

func (b *book) setLocked(p topic.Partition, points log.Points) (known bool) {
	old, known := b.points[p]
	if known && old != points {
		b.version++
		b.points[p] = points
	}
	return known
}

// drop forgets partitions without writing.
func (b *book) drop(partitions []topic.Partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range partitions {
		if _, known := b.points[p]; !known {
			continue
		}
		delete(b.points, p)
		i, _ := slices.BinarySearchFunc(b.order, p, topic.Partition.Compare)
		b.order = slices.Delete(b.order, i, i+1)
		b.version++
	}
}

// Record implements log.Checkpoints. It answers log.ErrClosed for a partition
// that is not in the book: its topic was deleted.
func (b *book) Record(ctx context.Context, p topic.Partition, points log.Points) error {
	b.mu.Lock()
	before := b.points[p]
	known := b.setLocked(p, points)
	b.mu.Unlock()
	if !known {
		return fmt.Errorf("record the points of %s: %w", p, log.ErrClosed)
	}
	err := b.write(ctx, false)
	if err == nil {
		return nil
	}
	// The caller goes on as if nothing had been recorded: a partition that is
	// opened again must not begin with points that never came to hold.
	b.mu.Lock()
	if b.points[p] == points {
		b.setLocked(p, before)
	}
	b.mu.Unlock()
	return err
}

// write returns once all that was entered before the call is durable. The high
// watermarks are written along if marks is set: unless they come from outside,
// they are for Kafka only.
func (b *book) write(ctx context.Context, marks bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if marks {
		b.marks = true
		b.version++
	}
	wanted := b.version
	for b.durable < wanted {
		if r := b.round; r != nil {
			b.mu.Unlock()
			select {
			case <-r.done:
			case <-ctx.Done():
			}
			b.mu.Lock()
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.err != nil && r.version >= wanted {
				return r.err
			}
			continue
		}
		if err := b.rewriteLocked(); err != nil {
			return err
		}
	}
	return nil
}

// rewriteLocked makes one round, with mu released while it works on files.
func (b *book) rewriteLocked() error {
	r := &round{done: make(chan struct{}), version: b.version}
	b.round = r
	next := b.content
	next[fileRecoveryPoint] = b.renderLocked(fileRecoveryPoint)
	next[fileLogStart] = b.renderLocked(fileLogStart)
	marks := b.marks || b.replicated
	if marks {
		next[fileHighWatermark] = b.renderLocked(fileHighWatermark)
	}
	old := b.content
	b.mu.Unlock()
	r.err = b.replace(old, next)
	b.mu.Lock()
	b.round = nil
	b.writes++
	if r.err == nil {
		b.content, b.durable = next, r.version
		b.marks = b.marks && !marks
	} else {
		// Which of the files hold what is not known: the next round writes all.
		b.content = [bookFiles][]byte{}
	}
	close(r.done)
	return r.err
}

// renderLocked is the content of a file. Kafka writes log starts only above
// the first segment and takes those of others as they are.
func (b *book) renderLocked(file int) []byte {
	entries := make([]checkpoint.OffsetEntry, 0, len(b.order))
	for _, p := range b.order {
		points := b.points[p]
		e := checkpoint.OffsetEntry{Partition: p}
		switch file {
		case fileRecoveryPoint:
			e.Offset = points.RecoveryPoint
		case fileLogStart:
			if e.Offset = points.LogStart; e.Offset == 0 {
				continue
			}
		case fileHighWatermark:
			e.Offset = points.HighWatermark
		}
		entries = append(entries, e)
	}
	return checkpoint.AppendOffsets(nil, entries)
}

// replace puts the files that differ in place, with one sync of the directory
// for all. A file that would have no entries is not made.
func (b *book) replace(old, next [bookFiles][]byte) error {
	empty := checkpoint.AppendOffsets(nil, nil)
	var changed []string
	for i, name := range bookNames {
		if bytes.Equal(old[i], next[i]) || len(old[i]) == 0 && bytes.Equal(next[i], empty) && b.absent(name) {
			continue
		}
		path := filepath.Join(b.dir, name)
		if err := vfs.WriteTemp(b.fs, path+".tmp", next[i]); err != nil {
			return err
		}
		changed = append(changed, path)
	}
	for _, path := range changed {
		if err := b.fs.Rename(path+".tmp", path); err != nil {
			return err
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return b.fs.SyncDir(b.dir)
}

// absent tells whether a file is not there, or has no bytes, which is the same.
func (b *book) absent(name string) bool {
	info, err := b.fs.Stat(filepath.Join(b.dir, name))
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// dropCleaner removes the lines of a deleted topic from Kafka's cleaner
// checkpoint. A file that cannot be understood is Kafka's to deal with.
func dropCleaner(fsys vfs.FS, dir, name string) error {
	path := filepath.Join(dir, checkpoint.CleanerFile)
	content, err := vfs.ReadFile(fsys, path, rootFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := checkpoint.ReadOffsets(content)
	if err != nil {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(entries), func(e checkpoint.OffsetEntry) bool { return e.Partition.Topic == name })
	if len(kept) == len(entries) {
		return nil
	}
	return vfs.Replace(fsys, path, checkpoint.AppendOffsets(nil, kept))
}
