package journal

import (
	"slices"

	"github.com/oncelog/oncelog/internal/plant"
)

// half is one of the two halves of the file while it has runs. The zero value
// is a free one.
type half struct {
	sequence uint64 // of its first run
	chain    uint64 // before this run
	closed   bool   // no run goes in any more: it waits to be freed
	handles  []*Handle
}

// Mark names the closed half that a checkpoint is about to free.
type Mark uint64

// enter makes a free half the current one.
func (j *Journal) enter(i int) {
	j.current = i
	j.pos, _ = j.header.half(i)
	j.halves[i] = half{sequence: j.sequence, chain: j.chain, handles: j.halves[i].handles[:0]}
}

// makeRoom finds room for a run of so many bytes, in the current half or by
// closing it and entering the other one. Runs are at most a quarter of a half,
// so an empty half always has room.
func (j *Journal) makeRoom(size int64) bool {
	if _, end := j.header.half(j.current); size <= end-j.pos {
		return true
	}
	if j.closeHalf() {
		return true
	}
	if !j.stalled {
		j.stalled, j.full = true, true
		j.queue.mu.Lock()
		j.queue.stats.Stalls++
		j.queue.mu.Unlock()
	}
	return false
}

// closeHalf closes the current half and enters the other one if it is free.
func (j *Journal) closeHalf() bool {
	other := 1 - j.current
	if j.halves[other].closed {
		return false
	}
	j.halves[j.current].closed = true
	j.enter(other)
	j.full = true
	return true
}

// CloseHalf closes the half that runs go into, if there are any in it, so that
// Due and Free can free all that was flushed before. False if there is nothing
// to close, or another half waits to be freed first.
func (j *Journal) CloseHalf() bool {
	j.flushMu.Lock()
	defer j.release()
	if j.Err() != nil || j.sequence == j.halves[j.current].sequence {
		return false
	}
	return j.closeHalf()
}

// Block says that the half that is due cannot be freed now, and perhaps not for
// long. If the journal is full, whoever waits for it hears of that: see Stuck.
func (j *Journal) Block() {
	j.flushMu.Lock()
	defer j.release()
	if !j.stalled {
		return
	}
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	j.queue.stick()
}

// Stuck is closed while the journal is full and cannot be emptied. What is queued
// stays queued, and becomes durable once there is room; the channel is another
// one then.
func (j *Journal) Stuck() <-chan struct{} {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	return j.queue.stuck
}

// IsStuck tells whether Stuck is closed. It takes no lock.
func (j *Journal) IsStuck() bool { return j.queue.isStuck.Load() }

// Due gives the logs with frames in the half that is closed, and its mark for
// Free; false if none is closed. Logs that left are among them.
func (j *Journal) Due() ([]*Handle, Mark, bool) {
	j.flushMu.Lock()
	defer j.flushMu.Unlock()
	h := &j.halves[1-j.current]
	if !h.closed {
		return nil, 0, false
	}
	return slices.Clone(h.handles), Mark(h.sequence), true
}

// Free says that all that the marked half holds is durable elsewhere: the data
// in the segments, the recovery points above it. It makes the header durable
// that no longer counts the half, then the half is used again, and a flusher
// without room goes on. A mark that was freed before is no error. It needs no
// room in the journal, and keeps flushes waiting for two small ones of its own.
func (j *Journal) Free(m Mark) error {
	j.flushMu.Lock()
	defer j.release()
	if err := j.Err(); err != nil {
		return err
	}
	old := 1 - j.current
	if h := &j.halves[old]; !h.closed || Mark(h.sequence) != m {
		return nil
	}
	next := j.header
	next.write++
	next.first, next.sequence, next.chain = uint32(j.current), j.halves[j.current].sequence, j.halves[j.current].chain
	if plant.Enabled && plant.Is(plant.HeaderLazy) {
		next = j.header
	} else if err := writeHeader(j.file, &next, journalMagic, 0); err != nil {
		return j.fail("write the header", err)
	}
	j.header = next
	for _, h := range j.halves[old].handles {
		h.in[old] = false
	}
	clear(j.halves[old].handles)
	j.halves[old] = half{handles: j.halves[old].handles[:0]}
	j.stalled, j.progress = false, true
	j.queue.mu.Lock()
	j.queue.unstick()
	j.queue.stats.Freed++
	j.queue.wanted = j.queue.last
	j.queue.mu.Unlock()
	return nil
}
