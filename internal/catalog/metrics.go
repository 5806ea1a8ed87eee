package catalog

import (
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Count calls do as Each, and gives the counters (nothing else) of the logs
// that were closed since Open, by deletion or reopening: with those of the logs
// that are open, a counter never falls.
func (c *Catalog) Count(do func(tp topic.Partition, l *log.Log, err error)) (closed log.Metrics) {
	c.mu.RLock()
	closed, leaving := c.retired, c.leaving
	open := c.allLocked()
	c.mu.RUnlock()
	for _, p := range open {
		do(p.Partition, p.log, p.err)
	}
	for _, p := range leaving {
		addCounters(&closed, p.log.Metrics())
	}
	return closed
}

// retireLocked keeps the counters of a log that is closed, so that they are
// final; mu is held, in the same hold that takes the log out.
func (c *Catalog) retireLocked(final log.Metrics) { addCounters(&c.retired, final) }

func addCounters(to *log.Metrics, m log.Metrics) {
	to.Appends += m.Appends
	to.AppendedBytes += m.AppendedBytes
	to.Duplicates += m.Duplicates
	to.Reads += m.Reads
	to.ReadBytes += m.ReadBytes
	to.Flushes += m.Flushes
	to.Rolls += m.Rolls
	to.Checkpoints += m.Checkpoints
	to.NoSpace += m.NoSpace
	to.IndexFallbacks += m.IndexFallbacks
	to.MemoryWaits += m.MemoryWaits
	to.ProducersEvicted += m.ProducersEvicted
}
