package log

import (
	"errors"
	"sync/atomic"
)

// counters count since the log was opened.
type counters struct {
	appendedBytes, duplicates            atomic.Int64
	reads, readBytes                     atomic.Int64
	flushes, rolls, checkpoints, noSpace atomic.Int64
	indexFallbacks, memoryWaits          atomic.Int64
	latched                              atomic.Int32
}

// Metrics is a snapshot of what a log counts and holds.
type Metrics struct {
	Frontiers
	Appends, AppendedBytes int64 // batches (replica appends count once) and bytes
	Duplicates             int64 // batches answered from memory
	Reads, ReadBytes       int64
	Flushes, Rolls         int64
	Checkpoints            int64
	NoSpace                int64 // appends refused because the device was full
	IndexFallbacks         int64 // times an index led astray and the log was scanned
	MemoryWaits            int64 // times an append waited for memory: back-pressure
	MemoryBytes            int64 // that appends landed in and still hold
	Segments               int
	Bytes                  int64 // of all segments
	Producers              int
	ProducerBytes          int   // memory of their state
	ProducersEvicted       int64 // forgotten because of Config.ProducersMax
	OpenTransactions       bool
	Failed                 error // what latched the log
}

// AppendedBytes counts the bytes appended since the log was opened. It takes no
// lock.
func (l *Log) AppendedBytes() int64 { return l.metrics.appendedBytes.Load() }

// Metrics takes a snapshot. It holds the append lock for an instant.
func (l *Log) Metrics() Metrics {
	m := Metrics{
		Frontiers:     l.Frontiers(),
		AppendedBytes: l.metrics.appendedBytes.Load(),
		Duplicates:    l.metrics.duplicates.Load(),
		Reads:         l.metrics.reads.Load(), ReadBytes: l.metrics.readBytes.Load(),
		Flushes: l.metrics.flushes.Load(), Rolls: l.metrics.rolls.Load(), Checkpoints: l.metrics.checkpoints.Load(),
		NoSpace: l.metrics.noSpace.Load(), IndexFallbacks: l.metrics.indexFallbacks.Load(), MemoryWaits: l.metrics.memoryWaits.Load(),
		Failed: l.latched(),
	}
	for s := range l.Segments() {
		m.Segments++
		m.Bytes += s.Bytes
	}
	for _, s := range l.view.Load().segments {
		m.MemoryBytes += s.MemoryBytes()
	}
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	m.Appends = l.appends
	m.Producers, m.ProducerBytes, m.ProducersEvicted = l.table.Len(), l.table.Bytes(), int64(l.table.Evicted())
	_, m.OpenTransactions = l.table.FirstUndecided()
	return m
}

// joinClose retires the segments of a closed log.
func joinClose(err error, v *view) error {
	if v == nil {
		return err
	}
	for _, s := range v.segments {
		err = errors.Join(err, s.Retire())
	}
	return err
}
