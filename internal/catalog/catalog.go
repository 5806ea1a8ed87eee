package catalog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// Catalog is an open data directory.
type Catalog struct {
	// Set by Open.
	o           Options
	fs          vfs.FS
	dir         string
	lock        *dirLock // nil if read-only
	book        *book
	workers     *log.Workers  // nil if read-only
	backing     *backing      // nil if read-only or direct
	full        chan struct{} // half of the journal is full
	freeing     atomic.Bool   // somebody is in tryFreeJournal
	drained     atomic.Bool   // the journal holds all there will be, and no half is freed any more
	background  context.Context
	stop        context.CancelFunc // ends background
	loop        sync.WaitGroup     // the maintenance loop
	clean       bool               // there was a clean mark
	keptAside   bool               // journal, rescue and tail, by Open
	powerLost   bool               // there was none, and the machine may have stopped
	unseen      bool               // there are logs that are not opened and may be unclean
	brokerEpoch int64              // in that mark, -1 if it said none
	maintained  maintenance        // the loop's own
	recalled    *recalled          // while Open recovers
	ended       chan struct{}      // closed when close has ended; then closeErr is set
	closeErr    error

	changeMu sync.Mutex // one change of structure at a time; held over I/O
	// Guarded by changeMu.
	manifest *manifest   // as it is durable, or will be
	unsure   atomic.Bool // the file may differ from it: a write failed. Read without the lock too

	roster roster      // partitions, for who takes no lock
	closed atomic.Bool // written under mu

	mu sync.RWMutex // only the book's is taken after it
	// Guarded by mu. The values are never modified, only replaced.
	topics     map[string]manifestTopic
	partitions map[topic.Partition]*partition
	leaving    []*partition // of topics that are being deleted, or that is in doubt: they take no appends. Changed with changeMu held too
	retired    log.Metrics  // counters of logs that were closed
}

// partition is a partition with its open log, or why there is none.
type partition struct {
	topic.Partition
	log     *log.Log // nil if the partition refuses
	err     error    // why
	missing bool     // nothing is there that could be damaged
}

// Partition is the open log of a partition. Errors: ErrUnknownPartition; what
// the partition refused with when it was opened (*log.CorruptionError,
// batch.ErrLegacyMagic, ErrPartitionMissing); log.ErrClosed.
func (c *Catalog) Partition(tp topic.Partition) (*log.Log, error) {
	p := c.roster.find(tp)
	switch {
	case c.closed.Load():
		return nil, log.ErrClosed
	case p == nil:
		return nil, fmt.Errorf("%w: %s", ErrUnknownPartition, tp)
	}
	return p.log, p.err
}

// Width is how many partitions of a topic are here, 0 if there is no such topic.
// It takes no lock and allocates nothing, as Nth.
func (c *Catalog) Width(name string) int { return len(c.roster.of(name)) }

// Nth is the partition of a topic that n others come before; false if there are
// not so many.
func (c *Catalog) Nth(name string, n int) (topic.Partition, bool) {
	list := c.roster.of(name)
	if n < 0 || n >= len(list) {
		return topic.Partition{}, false
	}
	return list[n].Partition, true
}

// Total is how many partitions a topic has, also if some are elsewhere; 0 if there
// is no such topic.
func (c *Catalog) Total(name string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int(c.topics[name].partitions)
}

// placeLocked enters partitions under their names.
func (c *Catalog) placeLocked(list ...*partition) {
	for _, p := range list {
		c.partitions[p.Partition] = p
	}
	c.roster.place(list...)
}

// all lists the partitions, in order.
func (c *Catalog) all() []*partition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.allLocked()
}

func (c *Catalog) allLocked() []*partition {
	list := make([]*partition, 0, len(c.partitions))
	for _, p := range c.partitions {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *partition) int { return a.Compare(b.Partition) })
	return list
}

// Each calls do for every partition, in order, with its log or what it refuses
// with.
func (c *Catalog) Each(do func(tp topic.Partition, l *log.Log, err error)) {
	for _, p := range c.all() {
		do(p.Partition, p.log, p.err)
	}
}

// Topics describes all topics, by name.
func (c *Catalog) Topics() []TopicInfo {
	c.mu.RLock()
	indexes := map[string][]int32{}
	for tp := range c.partitions {
		indexes[tp.Topic] = append(indexes[tp.Topic], tp.Index)
	}
	topics := make([]TopicInfo, 0, len(c.topics))
	for _, t := range c.topics {
		info := TopicInfo{Name: t.name, ID: t.id, Partitions: indexes[t.name], Foreign: t.foreign}
		if t.config != nil {
			info.Config, info.Stored = *t.config, true
		}
		topics = append(topics, info)
	}
	c.mu.RUnlock()
	for _, t := range topics {
		slices.Sort(t.Partitions)
	}
	slices.SortFunc(topics, func(a, b TopicInfo) int { return compareNames(a.Name, b.Name) })
	return topics
}

// Sync returns once everything appended before the call is on the device, in
// all partitions that serve: those that refuse, and those that are deleted
// meanwhile, are skipped. A latched one is an error.
func (c *Catalog) Sync(ctx context.Context) error {
	if c.o.ReadOnly {
		return log.ErrReadOnly
	}
	list := c.all()
	return sideBySide(len(list), c.o.Parallelism, func(i int) error {
		if list[i].log == nil {
			return nil
		}
		err := list[i].log.Sync(ctx)
		if errors.Is(err, log.ErrClosed) && !c.current(list[i]) {
			return nil // deleted, or opened again, which syncs what it finds
		}
		return err
	})
}

// current tells whether p is what stands under its name now.
func (c *Catalog) current(p *partition) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.partitions[p.Partition] == p
}

// CheckpointWrites is how often the checkpoint files were written.
func (c *Catalog) CheckpointWrites() int64 {
	if c.book == nil {
		return 0
	}
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	return c.book.writes
}

// closeGrace is what Close waits beyond the end of its context: enough to close
// the files of logs that are left as after a crash.
const closeGrace = 200 * time.Millisecond

// Close closes every log and leaves a directory that opens without recovery,
// here and in Kafka. When ctx ends first, the logs that are not closed yet are
// left as after a crash, and the error is that of ctx. If a call of the file
// system, or a change of topics, hangs, Close returns without it: the directory
// stays locked, and files open, until that ends and the rest is done. A second Close waits for the
// first, as long as its own ctx lets it, and does nothing.
func (c *Catalog) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closed.Swap(true)
	c.mu.Unlock()
	if c.o.Manual { // on this goroutine, so that a simulation is the same every time
		if again {
			return nil
		}
		return c.close(ctx)
	}
	if !again {
		go func() { // ends with the last call of the file system
			c.closeErr = c.close(ctx)
			close(c.ended)
		}()
	}
	if !c.awaitEnd(ctx) {
		return fmt.Errorf("close data directory %s: %w: a call of the file system is still under way, and the directory locked until it ends", c.dir, ctx.Err())
	}
	if again {
		return nil
	}
	return c.closeErr
}

// awaitEnd waits until close has ended; false if ctx ended long before.
func (c *Catalog) awaitEnd(ctx context.Context) bool {
	select {
	case <-c.ended:
		return true
	case <-ctx.Done():
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-c.ended:
		return true
	case <-grace.C:
		return false
	}
}

// close is what the first Close does.
func (c *Catalog) close(ctx context.Context) error {
	c.stopAppends(c.all())
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	c.stop()
	c.loop.Wait()
	doubt := c.endChanges(ctx)
	list := c.all()
	settled := c.settleJournal(ctx, list)
	if c.workers != nil {
		c.workers.Close()
	}
	err := sideBySide(len(list), c.o.Parallelism, func(i int) error { return c.closeLog(ctx, list[i]) })
	if c.o.ReadOnly {
		return err
	}
	err = errors.Join(err, settled, doubt)
	whole := err == nil && !c.unseen && !c.deletionInPlace() && !slices.ContainsFunc(list, func(p *partition) bool { return p.err != nil && !p.missing })
	if e := c.book.write(context.WithoutCancel(ctx), true); e != nil {
		err = errors.Join(err, fmt.Errorf("write the checkpoints of %s: %w", c.dir, e))
	}
	if c.backing != nil {
		err = errors.Join(err, c.backing.end(err == nil))
	}
	if whole && err == nil {
		err = c.dropRescue()
	}
	if whole && err == nil {
		if e := c.markClean(); e != nil {
			err = fmt.Errorf("write the clean mark of %s: %w", c.dir, e)
		}
	}
	return errors.Join(err, c.lock.release())
}

// endChanges ends the doubt of changes that failed, and tries deletions that
// are pending once more. The error is that the doubt cannot be ended.
func (c *Catalog) endChanges(ctx context.Context) error {
	if c.o.ReadOnly {
		return nil
	}
	if err := c.settle(); err != nil {
		for _, p := range c.leaving {
			_ = p.log.Abandon() // what it has in memory stays, as after a crash
		}
		return err
	}
	if ctx.Err() == nil {
		_ = c.finishDeletions("") // it tells what it could not do
	}
	return nil
}

// stopAppends refuses appends from now on; what was admitted is in.
func (c *Catalog) stopAppends(list []*partition) {
	_ = sideBySide(len(list), c.o.Parallelism, func(i int) error {
		if list[i].log != nil {
			list[i].log.StopAppends()
		}
		return nil
	})
}

// settleJournal stops appends and lets the journal take what is queued, with
// the checkpoints that it may need for that.
func (c *Catalog) settleJournal(ctx context.Context, list []*partition) error {
	j := c.backing.running()
	if j == nil {
		return nil
	}
	c.stopAppends(list) // also those of partitions made since
	err := c.drainJournal(ctx, j)
	// Logs are closed from here on: their checkpoints are over.
	c.drained.Store(true)
	return err
}

// drainJournal lets the journal take all that is queued, with the checkpoints
// that it may need for that.
func (c *Catalog) drainJournal(ctx context.Context, j *journal.Journal) error {
	for !j.Settled() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if j.TryFlush() {
			continue
		}
		if err := errors.Join(j.Err(), c.freeJournal(context.WithoutCancel(ctx))); err != nil {
			return err
		}
		runtime.Gosched() // a flusher may be at it
	}
	return nil
}

// closeLog closes one log and enters its points.
func (c *Catalog) closeLog(ctx context.Context, p *partition) error {
	if p.log == nil {
		return nil
	}
	if c.o.ReadOnly {
		return p.log.Abandon()
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(fmt.Errorf("close %s: %w", p.Partition, err), p.log.Abandon())
	}
	points, err := p.log.Close(ctx)
	if err != nil {
		return fmt.Errorf("close %s: %w", p.Partition, err)
	}
	c.book.set(p.Partition, points)
	return nil
}

// markClean writes Kafka's mark of a clean stop, after everything else is
// durable. It carries the broker epoch of the mark that was found, since the
// logs still hold all that the broker stopped with.
func (c *Catalog) markClean() error {
	if err := c.fs.SyncDir(c.dir); err != nil {
		return err
	}
	mark := checkpoint.CleanShutdown{BrokerEpoch: c.brokerEpoch}
	return vfs.Replace(c.fs, filepath.Join(c.dir, checkpoint.CleanShutdownFile), checkpoint.AppendCleanShutdown(nil, mark))
}

// sideBySide calls do for 0 to n-1, at most limit at a time, and joins the
// errors.
func sideBySide(n, limit int, do func(i int) error) error {
	if limit == 1 { // on this goroutine, so that a simulation is the same every time
		var errs error
		for i := range n {
			errs = errors.Join(errs, do(i))
		}
		return errs
	}
	var group sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	var errs error
	for range min(n, limit) {
		group.Go(func() { // ends when nothing is left
			for {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					mu.Lock()
					errs = errors.Join(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return errs
}
