package log

import (
	"maps"
	"slices"
	"sync/atomic"
)

// What the workers do about memory: they write it back in large pieces while
// appends go on, and when there is none left they get back what idle logs hold.
type memoryWork struct {
	writes   []*Log // have a piece of memory to write back
	holders  map[*Log]struct{}
	pressure bool          // all that can be given back is asked for
	ready    chan struct{} // there is something to do
	waiting  atomic.Int32  // appends that wait for memory
}

func newMemoryWork() *memoryWork {
	return &memoryWork{holders: map[*Log]struct{}{}, ready: make(chan struct{}, 1)}
}

// writeDue puts a log in the list of those whose memory is written back.
func (w *Workers) writeDue(l *Log) {
	w.mu.Lock()
	w.memory.writes = append(w.memory.writes, l)
	w.mu.Unlock()
	signal(w.memory.ready)
}

// holds notes that a log has memory.
func (w *Workers) holds(l *Log) {
	w.mu.Lock()
	w.memory.holders[l] = struct{}{}
	w.mu.Unlock()
}

// released notes that it has none any more.
func (w *Workers) released(l *Log) {
	w.mu.Lock()
	delete(w.memory.holders, l)
	w.mu.Unlock()
}

// pressed asks for the memory that can be given back.
func (w *Workers) pressed() {
	w.mu.Lock()
	w.memory.pressure = true
	w.mu.Unlock()
	signal(w.memory.ready)
}

// flushed asks again while somebody waits: what the journal took since can be given
// back now.
func (w *Workers) flushed() {
	if w.memory.waiting.Load() > 0 {
		w.pressed()
	}
}

// writeLoop ends when stop is closed.
func (w *Workers) writeLoop() {
	for {
		select {
		case <-w.memory.ready:
		case <-w.stop:
			return
		}
		for w.writeMemory() {
		}
	}
}

// writeMemory does what is due now, and tells whether there was anything. A
// failure latched the log and was told.
func (w *Workers) writeMemory() bool {
	w.mu.Lock()
	writes, pressure := w.memory.writes, w.memory.pressure
	w.memory.writes, w.memory.pressure = nil, false
	var holders []*Log
	if pressure {
		holders = slices.SortedFunc(maps.Keys(w.memory.holders), func(a, b *Log) int { return a.o.Partition.Compare(b.o.Partition) })
	}
	w.mu.Unlock()
	for _, l := range writes {
		_ = l.writeBack(false)
	}
	for _, l := range holders {
		_ = l.Unseat()
		if l.unsealed.Load() > 0 { // they hold memory until they are sealed, which may have failed
			w.submit(l)
		}
	}
	return len(writes) > 0
}
