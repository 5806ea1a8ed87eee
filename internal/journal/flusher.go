package journal

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/oncelog/oncelog/internal/invariant"
	"github.com/oncelog/oncelog/internal/plant"
)

// pendingKept is how many entries an empty list keeps memory for.
const pendingKept = 16 << 10

// Waiting says that n more waiters wait for a member's frontier (n > 0: all
// that is queued is asked for), or that -n stopped. A waiter
// registers with its log, calls Waiting(1), looks at the frontier again, then
// calls TryFlush, and if that gives false waits for its log to wake it. See
// Journal for why nothing is lost.
func (j *Journal) Waiting(n int) {
	j.queue.mu.Lock()
	j.queue.waiters += n
	if n > 0 {
		j.queue.wanted = j.queue.last
	}
	j.queue.mu.Unlock()
}

// TryFlush becomes the flusher if nobody is and makes one run durable. False:
// somebody is, nothing is queued, there is no room, or the journal has failed.
func (j *Journal) TryFlush() bool {
	if !j.flushMu.TryLock() {
		return false
	}
	defer j.release()
	return j.flushOne()
}

// Flush returns once all that was queued before the call is durable, making
// flushes itself when nobody is at it. It fails with the journal, or when the
// context ends; then the outcome is unknown.
func (j *Journal) Flush(ctx context.Context) error {
	return j.through(ctx, j.queue.want())
}

// Run makes the flushes that can be made now. It is for a journal without a
// goroutine.
func (j *Journal) Run() {
	for j.TryFlush() {
	}
}

// through waits until all up to the ticket is durable.
func (j *Journal) through(ctx context.Context, ticket int64) error {
	j.queue.want()
	for {
		// Looked at before trying: what changes afterwards closes the channel.
		done, changed, err := j.queue.look(ticket)
		if done || err != nil {
			return err
		}
		if j.TryFlush() {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// work is the goroutine of the journal; Close stops it.
func (j *Journal) work() {
	defer j.delay.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-j.delay.C:
			j.queue.want()
		case <-j.kicked:
		}
		for j.queue.isWanted() && j.TryFlush() {
		}
	}
}

// beginDelay is called when the queue is no longer empty. It may run late,
// beside another one: then the delay ends later by as much.
func (j *Journal) beginDelay() {
	if j.delay != nil {
		j.delay.Reset(j.o.Delay)
	}
}

// kick leaves a token for the goroutine.
func (j *Journal) kick() {
	select {
	case j.kicked <- struct{}{}:
	default:
	}
}

// release gives flushMu back and hands over what is wanted.
func (j *Journal) release() {
	stalled, progress, full := j.stalled, j.progress, j.full
	j.progress, j.full = false, false
	j.flushMu.Unlock()

	j.queue.mu.Lock()
	more := !stalled && j.queue.err == nil && j.queue.wanted > j.queue.done
	if progress || more {
		j.queue.notifyLocked()
	}
	j.queue.mu.Unlock()
	if more {
		j.kick()
	}
	if full && j.o.Full != nil {
		j.o.Full()
	}
}

// flushOne makes one run of the front of the queue durable, with flushMu held.
func (j *Journal) flushOne() bool {
	if !j.collect() {
		return false
	}
	run, size := j.cut()
	if len(run) == 0 || !j.makeRoom(padded(size)) {
		return false
	}
	if err := j.write(run, size); err != nil {
		_ = j.fail(fmt.Sprintf("write run %d", j.sequence), err) // the members are told
		return false
	}
	j.settle(run, size)
	return true
}

// collect moves what is queued behind what is pending. False if the journal
// has failed or is closed.
func (j *Journal) collect() bool {
	n := copy(j.pending, j.pending[j.used:])
	clear(j.pending[n:])
	j.pending, j.used = j.pending[:n], 0
	if n == 0 && cap(j.pending) > pendingKept {
		j.pending = nil
	}
	q := &j.queue
	q.mu.Lock()
	company := q.waiters > 1
	q.mu.Unlock()
	if company {
		runtime.Gosched() // those just released come back with their next append
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return false
	}
	if n == 0 {
		j.pending, q.entries = q.entries, j.pending
	} else {
		j.pending = append(j.pending, q.entries...)
		clear(q.entries)
		q.entries = q.entries[:0]
	}
	q.bytes = 0
	if plant.Enabled && plant.Is(plant.TicketIgnored) {
		slices.SortStableFunc(j.pending, func(a, b entry) int { return bytes.Compare(a.frame.Topic[:], b.frame.Topic[:]) })
	}
	return true
}

// cut gives the entries of the next run and its size.
func (j *Journal) cut() ([]entry, int64) {
	size := int64(runFixedBytes)
	for i := range j.pending {
		more := j.pending[i].runBytes()
		if size+more > j.runMax {
			return j.pending[:i], size
		}
		size += more
	}
	return j.pending, size
}

// write writes a run at pos and syncs it.
func (j *Journal) write(run []entry, size int64) error {
	h := runHeader{
		session: j.session, sequence: j.sequence, chain: j.chain,
		size: size, pos: j.pos, frames: uint32(len(run)),
	}
	err := j.writer.begin(&h)
	for i := 0; i < len(run) && err == nil; i++ {
		err = j.writer.frame(&run[i].frame)
	}
	for i := 0; i < len(run) && err == nil; i++ {
		if run[i].frame.Kind == KindBytes {
			err = j.writeBytes(&run[i])
		}
	}
	if err != nil {
		return err
	}
	sum, err := j.writer.end(&h)
	if err != nil {
		return err
	}
	if plant.Enabled && plant.Is(plant.NoFlush) {
		j.chain, j.pos = sum, j.writer.pos
		return nil
	}
	if err := j.file.Datasync(); err != nil {
		return err
	}
	if end := j.pos + padded(size); j.writer.pos != end {
		invariant.Check(false, "run of %d bytes at %d ends at %d", size, j.pos, j.writer.pos)
	}
	j.chain, j.pos = sum, j.writer.pos
	return nil
}

// writeBytes writes what an entry carries.
func (j *Journal) writeBytes(e *entry) error {
	f := &e.frame
	j.pieces = e.handle.member.Pieces(j.pieces[:0], f.Segment, f.Pos, f.Pos+f.Length)
	defer func() { clear(j.pieces) }()
	var n int64
	for _, p := range j.pieces {
		n += int64(len(p))
	}
	if n != f.Length { // written, it would be a run that cannot be read
		return fmt.Errorf("%d bytes given for the %d from %d of segment %d", n, f.Length, f.Pos, f.Segment)
	}
	for _, p := range j.pieces {
		if err := j.writer.add(p); err != nil {
			return err
		}
	}
	return nil
}

// settle tells everybody that a run is durable.
func (j *Journal) settle(run []entry, size int64) {
	current := &j.halves[j.current]
	var carried int64
	for i := range run {
		e := &run[i]
		carried += e.frame.carried()
		if !e.handle.in[j.current] {
			e.handle.in[j.current] = true
			current.handles = append(current.handles, e.handle)
		}
		// In the order of publishing: see Member.Durable.
		last := i+1 == len(run) || run[i+1].handle != e.handle || run[i+1].frame.Kind == KindTruncation
		if e.frame.Kind != KindTruncation && last {
			e.handle.member.Durable(e.frame.Segment, e.frame.Pos+e.frame.Length, e.frame.Next)
		}
	}
	j.sequence++
	j.used = len(run)
	j.progress = true
	left := j.pending[j.used:]
	q := &j.queue
	q.mu.Lock()
	q.settleLocked(left)
	if len(left) > 0 { // due, or this run would not have been cut
		q.wanted = max(q.wanted, left[len(left)-1].ticket)
	}
	q.stats.Runs++
	q.stats.Frames += int64(len(run))
	q.stats.Bytes += carried
	q.stats.Written += padded(size)
	q.mu.Unlock()
}

// removeLocked drops the entries, queued or taken, that keep does not keep, with
// flushMu held. keep may change them.
func (j *Journal) removeLocked(keep func(*entry) bool) {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	j.pending = filter(j.pending[:copy(j.pending, j.pending[j.used:])], keep)
	j.used = 0
	j.queue.entries = filter(j.queue.entries, keep)
	j.queue.bytes = 0
	for i := range j.queue.entries {
		j.queue.bytes += j.queue.entries[i].frame.carried()
	}
	j.queue.settleLocked(j.pending)
	j.stalled, j.progress = false, true
}

// filter keeps entries in place.
func filter(entries []entry, keep func(*entry) bool) []entry {
	kept := entries[:0]
	for i := range entries {
		if keep(&entries[i]) {
			kept = append(kept, entries[i])
		}
	}
	clear(entries[len(kept):])
	return kept
}

// fail latches the journal and tells all members, with flushMu held.
func (j *Journal) fail(deed string, cause error) error {
	err := fmt.Errorf("%w: %s: %w", ErrFailed, deed, cause)
	j.queue.mu.Lock()
	first := j.queue.failLocked(err)
	members := make([]*Handle, 0, len(j.members))
	for h := range j.members {
		members = append(members, h)
	}
	j.queue.mu.Unlock()
	j.pending, j.used, j.progress = nil, 0, true
	if first {
		for _, h := range members {
			h.member.Fail(err)
		}
	}
	return err
}
