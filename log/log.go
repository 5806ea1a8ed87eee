package log

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/overlay"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// Log is the log of one partition. All methods are safe for concurrent use.
type Log struct {
	// Set by Load.
	o       Options         // FS shows the pieces of o until Recover has written them
	disk    vfs.FS          // without them; nil if there are none
	written []overlay.Piece // by Recover, in order; nil afterwards
	env     *segment.Environment

	config atomic.Pointer[Config]
	view   atomic.Pointer[view] // what readers see; replaced under appendMu

	// Published frontiers. Written under frontierMu, but for logStart, which
	// maintainMu guards.
	logStart, lastStable, highWatermark, logEnd, durable atomic.Int64

	maintainMu maintainLock // one seal, checkpoint, retention, truncation or close at a time
	// Guarded by maintainMu.
	recoveryPoint int64
	indexed       map[int64]int64    // by base of the active segment: bytes that its index files were written for
	snapshots     []int64            // offsets of the snapshot files, ascending
	leftover      []*segment.Segment // deleted, but their files could not be removed
	markOffered   int64              // high watermark of the last checkpoint, which its caller records
	markRecorded  int64              // high watermark that a crash would start from
	plan          *loadPlan

	flushMu   sync.Mutex  // being the one who flushes
	dirUnsync atomic.Bool // a segment file was made whose name is not durable yet

	appendMu sync.Mutex
	// Guarded by appendMu.
	table     *producerstate.Table
	active    *segment.Segment
	head      [batch.HeaderSize]byte // stamped copy of a batch's header
	vecs      [2][]byte
	sealing   []sealing // rolled segments that are not sealed yet
	prepared  bool      // a file for the next segment is ready
	rollAfter int64     // ms: when the active segment was made
	noSpace   bool      // reported, and there has been no room since
	appends   int64     // taken, those of a replica in one go as one
	// snapshotting says that snapshotNow is at it: a table has one snapshot
	// under way at most.
	snapshotting bool
	holds        bool      // memory, as far as Workers know
	busy         bool      // appends wait: the log is frozen, or
	writing      bool      // one is under way outside of appendMu
	idle         sync.Cond // busy ended

	frontierMu sync.Mutex // leaf
	journaled  reach      // what the journal holds lies below
	undecided  int64      // first offset of the earliest open transaction
	completed  completed
	cutting    bool  // a truncation begins,
	cutAt      int64 // at an offset that the high watermark must not pass

	waitMu       sync.Mutex // leaf
	waiting      []*waiter
	waitingCount atomic.Int32
	waiters      sync.Pool // of *waiter

	firstEra era
	lastEra  atomic.Pointer[era] // nil: there was no truncation yet

	outbox outbox

	epochs      epochCache
	failure     atomic.Pointer[error]
	closed      atomic.Bool
	closing     atomic.Bool             // Close has begun: no more appends
	opened      atomic.Bool             // Recover is done: appends are taken
	queued      atomic.Bool             // in the list of logs that a flush is due for
	unflushed   atomic.Int64            // bytes that nobody waits for published since the last flush collected, about
	backed      atomic.Pointer[backing] // nil until the first append at the present level
	writeQueued atomic.Bool             // in the list of logs whose memory is to be written back
	filed       atomic.Int64            // offsets below are synced in their files
	unsealed    atomic.Int32            // rolled segments that are not sealed yet
	metrics     counters
}

// sealing is a rolled segment on its way to a sealed one, and the producer
// state at its end.
type sealing struct {
	segment  *segment.Segment
	end      int64 // base offset of its successor
	snapshot *producerstate.Snapshot
}

// view is the list of segments, ascending. It never changes.
type view struct{ segments []*segment.Segment }

// find is the index of the segment that holds offset or would; -1 if offset
// lies before the first.
func (v *view) find(offset int64) int {
	i, found := slices.BinarySearchFunc(v.segments, offset, func(s *segment.Segment, o int64) int {
		switch {
		case s.Base < o:
			return -1
		case s.Base > o:
			return 1
		}
		return 0
	})
	if found {
		return i
	}
	return i - 1
}

// Partition is the partition this log belongs to.
func (l *Log) Partition() topic.Partition { return l.o.Partition }

// TopicID names the log's topic in journal and tail; see Options.
func (l *Log) TopicID() [16]byte { return l.o.TopicID }

// Config is the configuration in force.
func (l *Log) Config() Config { return *l.config.Load() }

// SetConfig changes the configuration from the next operation on. When the
// durability level rises, what was appended before may stay visible without
// being on the device until the next flush: see the root package's AlterTopic.
// When it falls, readers see at once what waited for a flush.
func (l *Log) SetConfig(c Config) {
	c = c.withDefaults()
	l.appendMu.Lock()
	if b := l.backed.Load(); b != nil && c.Durability != l.level() {
		if b.handle != nil {
			b.handle.Leave()
		}
		l.backed.Store(nil)
	}
	l.config.Store(&c)
	l.table.SetProducersMax(c.ProducersMax)
	l.frontierMu.Lock()
	if !l.o.Replicated && c.Durability == DurabilityOS {
		l.raiseLocked(l.logEnd.Load())
	}
	l.frontierMu.Unlock()
	l.appendMu.Unlock()
	l.wake()
}

// latched is the error that ended appends, or nil.
func (l *Log) latched() error {
	if p := l.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// latch ends appends for good: the page cache cannot be believed any more.
// All waiters wake with the error. Of a log that is closed, and its files with
// it, nothing failed: ErrClosed.
func (l *Log) latch(deed string, cause error) error {
	if l.closed.Load() {
		return fmt.Errorf("%w: %s %s: %w", ErrClosed, deed, l.o.Partition, cause)
	}
	advice := "reopen the partition"
	if errors.Is(cause, journal.ErrFailed) { // which latches all that go through it
		advice = "close the store and open it again"
	}
	err := fmt.Errorf("%w; %s: %s %s: %w", ErrLatched, advice, deed, l.o.Partition, cause)
	if !l.failure.CompareAndSwap(nil, &err) {
		return l.latched()
	}
	l.wakeAll()
	return err
}

// writable tells why the log takes no appends, nil if it does.
func (l *Log) writable() error {
	switch {
	case l.closed.Load() || l.closing.Load():
		return ErrClosed
	case l.o.ReadOnly:
		return ErrReadOnly
	case !l.opened.Load():
		return errors.New("log: not recovered yet")
	}
	return l.latched()
}

// Failed is the I/O error that latched the log, nil if none did.
func (l *Log) Failed() error { return l.latched() }

// Producers tells the state of every producer id the partition remembers, in
// no order. It holds the append lock: a tool's door, not a hot path's.
func (l *Log) Producers() []producerstate.Info {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return slices.Collect(l.table.All())
}

// Producer tells the state of one producer id.
func (l *Log) Producer(id int64) (producerstate.Info, bool) {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return l.table.Info(id)
}

// Ongoing are the open transactions, by first offset.
func (l *Log) Ongoing() []producerstate.OngoingTxn {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return slices.Collect(l.table.Ongoing())
}

// HasOngoing tells whether this producer and epoch has an open transaction
// here.
func (l *Log) HasOngoing(p batch.Producer) bool {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return l.table.HasOngoing(p)
}

// Guard prepares the first batch of a transaction here: the caller takes the
// guard, has the coordinator confirm that the partition belongs to the
// transaction, and appends with it. needed is false if the transaction is
// open here already. tv2 is for producers whose epoch rises with every
// transaction. A guard is void after any transactional write or marker of the
// producer.
func (l *Log) Guard(p batch.Producer, baseSequence int32, tv2 bool) (g producerstate.Guard, needed bool, err error) {
	if err := l.writable(); err != nil {
		return 0, false, err
	}
	now := l.o.Now().UnixMilli()
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	g, needed = l.table.Verify(p, baseSequence, tv2, now)
	return g, needed, nil
}

// ExpireProducers forgets producers that were idle for longer than the
// configuration says, a bounded number at a time under the append lock.
func (l *Log) ExpireProducers() int {
	now, age := l.o.Now().UnixMilli(), l.config.Load().ProducerExpiration.Milliseconds()
	const piece = 1024
	total := 0
	for {
		l.appendMu.Lock()
		n := l.table.ExpireSome(now, age, piece)
		l.appendMu.Unlock()
		total += n
		if n < piece {
			break
		}
	}
	if total > 0 {
		l.event(Event{Kind: EventProducersExpired, Count: total})
	}
	return total
}

// Segments describes the segments, oldest first.
func (l *Log) Segments() iter.Seq[SegmentInfo] {
	v := l.view.Load()
	return func(yield func(SegmentInfo) bool) {
		for i, s := range v.segments {
			info := SegmentInfo{Base: s.Base, Bytes: s.Size(), Sealed: i < len(v.segments)-1, Path: s.Path(segment.KindLog)}
			if !yield(info) {
				return
			}
		}
	}
}

// SegmentInfo describes one segment.
type SegmentInfo struct {
	Base   int64  // base offset
	Bytes  int64  // of whole batches
	Sealed bool   // takes no more appends
	Path   string // of the .log file
}
