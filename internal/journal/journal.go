package journal

import (
	"sync"
	"time"

	"github.com/oncelog/oncelog/internal/vfs"
)

// Journal is the commit journal of a store, open for writing.
//
// Who flushes. flushMu makes the flusher. TryFlush takes it if it is free, so
// a lone waiter flushes on its own goroutine; the goroutine of the journal
// takes it when a flush is wanted and nobody is at it. A flush is wanted while
// queue.wanted > queue.done, and wanted is raised to the last ticket by every
// waiter (Waiting, Flush, Truncate), when the delay ends, when dueBytes are
// queued, when a run was cut and leaves entries behind, and when Free makes
// room. Whoever releases flushMu looks at it afterwards and hands over (kick).
//
// No wake-up is lost. A waiter raises wanted (1), looks at its frontier (2),
// tries flushMu (3). If (3) fails, somebody holds flushMu and has yet to
// release it and look (4). (1) is before (3), (3) before the release, that
// before (4), so (4) sees wanted. If the waiter's entry was in the holder's
// run, Durable came before the release, and the waiter either saw the frontier
// at (2) or had registered with its log before, and is woken by Durable. If it
// was not, done is below wanted at (4), and the holder leaves a token for the
// goroutine. The goroutine takes the token and then tries flushMu itself; if
// that fails there is another holder, and the argument begins again.
//
// No room. A flusher that finds no room sets stalled and writes nothing;
// nobody is kicked while stalled is set, else flusher and goroutine would turn
// in a circle. What can make room is Free, and a removal (Truncate, Leave) that
// makes the run smaller: both clear stalled with flushMu held, so that their
// release sees what is wanted (after Free: all that is queued) and kicks.
//
// A failed write or sync is final: queue.err is set before the members are
// told, so a log that joins later sees it in Join, and one that joined before
// is told; a waiter that registered with its log before that is woken by it,
// one that registers later finds its log latched.
type Journal struct {
	// Set by Start.
	o        Options
	file     vfs.File
	session  uint64
	batchMax int64
	runMax   int64

	queue   queue
	members map[*Handle]struct{} // guarded by queue.mu

	flushMu sync.Mutex // being the flusher; guards all below
	closed  bool
	header  header // as it is durable, in both copies
	writer  *runWriter
	pending []entry  // taken from the queue, older than all in it; from used on they are in no run
	used    int      // so many of pending are written
	pieces  [][]byte // of one entry
	// Where the next run goes.
	current  int // half
	pos      int64
	sequence uint64
	chain    uint64
	halves   [2]half
	stalled  bool // the last flusher found no room, and nothing changed since
	progress bool // since flushMu was taken: who looks at the queue must look again
	full     bool // Options.Full is to be called on release

	kicked  chan struct{} // one token: the goroutine must look
	delay   *time.Timer   // nil if Manual
	stop    chan struct{}
	workers sync.WaitGroup
}

// Start makes the journal of a directory, or takes over one whose contents
// were recovered and are durable elsewhere: they are gone afterwards. On
// return the file and its new session are durable. Join the logs, then append.
func Start(o Options) (*Journal, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	file, h, err := takeOver(&o)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		o: o, file: file, session: h.session, batchMax: BatchMax(o.Bytes), runMax: runMax(h.halfBytes),
		members: make(map[*Handle]struct{}),
		header:  h, writer: newRunWriter(file),
		sequence: h.sequence, chain: h.chain,
		kicked: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	j.queue.stuck = make(chan struct{})
	j.enter(int(h.first))
	if !o.Manual {
		j.delay = time.NewTimer(o.Delay)
		j.workers.Go(j.work)
	}
	return j, nil
}

// Join makes a log part of the journal. If the journal has failed, m is told
// before Join returns.
func (j *Journal) Join(topic [16]byte, partition int32, m Member) *Handle {
	h := &Handle{journal: j, key: Key{topic, partition}, member: m}
	j.queue.mu.Lock()
	err := j.queue.err
	j.members[h] = struct{}{}
	j.queue.mu.Unlock()
	if err != nil {
		m.Fail(err)
	}
	return h
}

// BatchMax is the largest length that Publish takes.
func (j *Journal) BatchMax() int64 { return j.batchMax }

// Session is the number of this opening, as Contents.Session has it.
func (j *Journal) Session() uint64 { return j.session }

// Err tells why nothing becomes durable any more: an error that wraps ErrFailed
// and the cause, or ErrClosed; nil if all is well.
func (j *Journal) Err() error {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	return j.queue.err
}

// Close stops the journal and closes its file, which stays. It flushes nothing:
// what is queued is lost, and who waits in Flush or Truncate gets ErrClosed.
// Members are not told.
func (j *Journal) Close() error {
	j.flushMu.Lock()
	if j.closed {
		j.flushMu.Unlock()
		return nil
	}
	j.closed, j.progress = true, true
	j.queue.mu.Lock()
	j.queue.failLocked(ErrClosed)
	j.queue.mu.Unlock()
	j.release()
	close(j.stop)
	j.workers.Wait()
	// Whoever takes flushMu from now on finds the queue ended, and leaves the
	// file alone.
	return j.file.Close()
}

// Settled tells whether all that was queued is durable.
func (j *Journal) Settled() bool {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	return j.queue.done == j.queue.last
}

// Fail ends the journal as a failed write does: what it holds cannot be brought
// where it belongs.
func (j *Journal) Fail(deed string, cause error) error {
	j.flushMu.Lock()
	defer j.release()
	return j.fail(deed, cause)
}

// Stats counts what a Journal did since Start.
type Stats struct {
	Runs    int64 // written and synced
	Frames  int64 // in these
	Bytes   int64 // that these frames carry
	Written int64 // bytes handed to the file, headers of the file not counted
	Stalls  int64 // flushes that met no room
	Freed   int64 // halves
	// Queued entries wait for a flush now, with QueuedBytes.
	Queued, QueuedBytes int64
}

// Stats gives the counts. What a flush under way has taken is not queued.
func (j *Journal) Stats() Stats {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	s := j.queue.stats
	s.Queued, s.QueuedBytes = int64(len(j.queue.entries)), j.queue.bytes
	return s
}
