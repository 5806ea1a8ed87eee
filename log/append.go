package log

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
)

// Origin tells who appends.
type Origin uint8

const (
	OriginClient      Origin = iota // validated in full, deduplicated, fenced
	OriginCoordinator               // a group's offsets: no sequences
)

// AppendOptions of the leader's door.
type AppendOptions struct {
	Origin Origin
	// Guard of the first batch of a transaction in this partition; see
	// Log.Guard.
	Guard producerstate.Guard
	// Durability strengthens the acknowledgement of this append beyond the
	// topic's; it does not change when readers see it.
	Durability Durability
	// NoWait returns once the batch is published; the caller waits for
	// FrontierDurable or FrontierHighWatermark as it likes.
	NoWait bool
}

// Appended tells where a batch is.
type Appended struct {
	BaseOffset, LastOffset int64
	// Timestamp is the log's append time in ms where the topic stamps it, else
	// -1; of a duplicate the greatest timestamp of the original.
	Timestamp int64
	LogStart  int64
	Duplicate bool // the batch was in the log already; nothing was written
}

// request is one append on its way through the log.
type request struct {
	batch  batch.Batch
	header batch.Header
	marker *batch.Marker
	check  producerstate.Request

	maxTimestamp int64 // as it must be stored
	now          int64 // ms
	appendTime   bool

	try    bool         // rather not at all than wait
	ended  batch.Marker // what marker points to
	buffer [2 * batch.HeaderSize]byte
}

// requests are reused: what the checks of producer state are given escapes.
var requests = sync.Pool{New: func() any { return new(request) }}

func (r *request) release() {
	r.batch = nil // the caller's
	requests.Put(r)
}

// Append is the leader's door: b, exactly one batch as a producer built it,
// gets the next offsets. It is not modified and not kept. Append returns when
// the batch is safe at the level of the topic, or of o if that is stronger.
//
// A batch that the producer sent before is not written again: the answer is
// that of the original, once that is safe. Errors: those of batch.Rules, of
// producer state, ErrNoSpace (nothing was written, try again later),
// ErrBatchTooLarge, ErrLatched, ErrClosed, ErrReadOnly; ErrOutcomeUnknown if
// ctx ended while the batch waited to be durable, ErrTruncated if a truncation
// took it meanwhile. It allocates nothing in
// steady state.
func (l *Log) Append(ctx context.Context, b batch.Batch, o AppendOptions) (Appended, error) {
	if err := l.admit(ctx); err != nil {
		return Appended{}, err
	}
	c := l.config.Load()
	r := requests.Get().(*request)
	defer r.release()
	r.batch, r.marker, r.try, r.appendTime = b, nil, false, c.Timestamps == batch.LogAppendTime
	if r.appendTime || c.TimestampBeforeMax != 0 || c.TimestampAfterMax != 0 {
		r.now = l.o.Now().UnixMilli()
	} else {
		r.now = l.coarse()
	}
	rules := batch.Rules{
		SizeMax: c.BatchBytesMax, KeysRequired: c.Compact, Timestamps: c.Timestamps, Now: r.now,
		BeforeMax: c.TimestampBeforeMax.Milliseconds(), AfterMax: c.TimestampAfterMax.Milliseconds(),
		Coordinator: o.Origin == OriginCoordinator,
	}
	v, err := rules.Validate(b)
	if err != nil {
		return Appended{}, err
	}
	r.header = b.Header()
	r.maxTimestamp = v.MaxTimestamp
	if r.appendTime {
		r.maxTimestamp = r.now
	}
	origin := producerstate.OriginClient
	if o.Origin == OriginCoordinator {
		origin = producerstate.OriginCoordinator
	}
	r.check = producerstate.Request{Header: &r.header, Origin: origin, Guard: o.Guard}
	return l.append(ctx, r, o.Durability, o.NoWait)
}

// MarkerOptions of AppendMarker.
type MarkerOptions struct {
	// TV2 says that the producer's epoch rises with every transaction, so that
	// a marker must carry a newer epoch than the batches it ends.
	TV2        bool
	Durability Durability
	NoWait     bool
	// Try answers ErrBusy where the append would have to wait for memory or for
	// whoever keeps appends out. For whoever has markers for other logs, too.
	Try bool
}

// AppendMarker ends the transaction of a producer in this partition, if one is
// open, and fences writes of older epochs. Only the coordinator appends
// markers. A repeated marker that TV2 recognises is answered without a second
// one: Duplicate is true and the offsets are -1, once the first one is safe. With
// NoWait nothing below the log end of the answer's time may be safe yet.
func (l *Log) AppendMarker(ctx context.Context, m batch.Marker, o MarkerOptions) (Appended, error) {
	if err := l.admit(ctx); err != nil {
		return Appended{}, err
	}
	r := requests.Get().(*request)
	defer r.release()
	*r = request{ended: m, now: l.o.Now().UnixMilli(), try: o.Try}
	r.batch = batch.AppendMarker(r.buffer[:0], m)
	r.header, r.marker, r.maxTimestamp = r.batch.Header(), &r.ended, r.batch.MaxTimestamp()
	if l.config.Load().Timestamps == batch.LogAppendTime {
		r.appendTime, r.maxTimestamp = true, r.now
		r.ended.Timestamp = r.now // as it will be read
	}
	r.check = producerstate.Request{Header: &r.header, Marker: r.marker, Origin: producerstate.OriginCoordinator, TV2: o.TV2}
	return l.append(ctx, r, o.Durability, o.NoWait)
}

// admit is what every append asks first.
func (l *Log) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.writable()
}

// append decides, writes and publishes under appendMu, then waits.
func (l *Log) append(ctx context.Context, r *request, level Durability, noWait bool) (Appended, error) {
	var a Appended
	var safe promise
	var err error
	for again := true; again; {
		if !l.enterAppend(r.try) {
			return Appended{}, ErrBusy
		}
		a, safe, err = l.appendLocked(r)
		l.appendMu.Unlock()
		if r.try && (err == errNoMemory || err == errUnsealed) {
			return Appended{}, ErrBusy
		}
		again, err = l.again(ctx, err)
	}
	if err != nil {
		return Appended{}, l.refused(err)
	}
	if !a.Duplicate {
		l.metrics.appendedBytes.Add(int64(len(r.batch)))
	}
	if plant.Enabled && (plant.Is(plant.AcknowledgedBefore) || a.Duplicate && plant.Is(plant.DuplicateEarly)) {
		return a, nil
	}
	if noWait || max(level, l.level()) != DurabilityFsync {
		l.flushIfDue(level, len(r.batch))
		l.writeIfDue()
		return a, nil
	}
	return a, l.waitDurable(ctx, safe)
}

// appendLocked decides and writes. The answer may be given once what is promised
// is safe.
func (l *Log) appendLocked(r *request) (a Appended, safe promise, err error) {
	if err := l.writable(); err != nil {
		return Appended{}, promise{}, err
	}
	safe = l.upTo()
	end := safe.offset
	r.check.FirstEver = end == 0 && l.table.Len() == 0
	verdict, err := l.table.Check(r.check)
	if err != nil {
		return Appended{}, promise{}, err
	}
	start := l.logStart.Load()
	switch verdict.Kind {
	case producerstate.Duplicate:
		l.metrics.duplicates.Add(1)
		a = Appended{BaseOffset: verdict.FirstOffset, LastOffset: verdict.LastOffset, Timestamp: verdict.Timestamp, LogStart: start, Duplicate: true}
		safe.offset = a.LastOffset + 1
		return a, safe, nil
	case producerstate.DoneMarker: // where the marker is nobody remembers, but it is in the log
		return Appended{BaseOffset: -1, LastOffset: -1, Timestamp: -1, LogStart: start, Duplicate: true}, safe, nil
	}
	r.header.BaseOffset, r.header.MaxTimestamp = end, r.maxTimestamp
	if err := l.makeRoomLocked(&r.header, r.now, r.marker != nil); err != nil {
		return Appended{}, promise{}, err
	}
	at, err := l.seatLocked(end, r.header.Size)
	if err != nil {
		return Appended{}, promise{}, err
	}
	if err := l.writeLocked(r, at); err != nil {
		return Appended{}, promise{}, l.latch("append to", err)
	}
	a = Appended{BaseOffset: end, LastOffset: r.header.LastOffset(), Timestamp: batch.None, LogStart: start}
	if r.appendTime {
		a.Timestamp = r.now
	}
	safe.offset = r.header.NextOffset()
	return a, safe, nil
}

// writeLocked writes one admitted batch and makes it part of the log. An
// error leaves it outside of everything but the bytes behind the published
// ones; the caller latches.
func (l *Log) writeLocked(r *request, at seat) error {
	epoch, err := l.epochs.appended(r.header.BaseOffset)
	if err != nil {
		return err
	}
	head := batch.Batch(l.head[:])
	copy(head, r.batch)
	if r.appendTime || r.maxTimestamp != r.batch.MaxTimestamp() || r.batch.Timestamps() != batch.CreateTime {
		timestamps := batch.CreateTime
		if r.appendTime {
			timestamps = batch.LogAppendTime
		}
		batch.Restamp(head, r.batch[batch.HeaderSize:], timestamps, r.maxTimestamp)
	}
	head.Stamp(r.header.BaseOffset, epoch)
	r.header.LeaderEpoch, r.header.Attributes = epoch, head.Attributes()
	l.vecs[0], l.vecs[1] = head, r.batch[batch.HeaderSize:]
	err = l.storeLocked(at, l.vecs[:])
	l.vecs[1] = nil
	if err != nil {
		return err
	}
	done, isDone, err := l.indexLocked(&r.header, r.marker, 0, r.now)
	if err != nil {
		return err
	}
	l.enqueueLocked(at, r.header.Size, r.header.BaseOffset, r.header.NextOffset(), head.CRC())
	l.active.Publish(int64(r.header.Size))
	l.publishLocked(r.header.NextOffset(), done, isDone)
	l.appends++
	return nil
}

// indexLocked enters a written batch, pos bytes behind the published ones of
// the active segment, into indexes and producer state.
func (l *Log) indexLocked(h *batch.Header, m *batch.Marker, pos, now int64) (done producerstate.CompletedTxn, isDone bool, err error) {
	err = l.active.Index(segment.Entry{LastOffset: h.LastOffset(), MaxTimestamp: h.MaxTimestamp, Size: h.Size}, pos)
	if err != nil {
		return done, false, err
	}
	if h.Producer.ID < 0 || h.IsControl() && m == nil {
		return done, false, nil
	}
	done, isDone = l.table.Apply(h, m, now)
	if isDone && !done.Commit {
		err = l.active.IndexAborted(index.AbortedTxn{ProducerID: done.ProducerID, First: done.First, Last: done.Last, LastStable: done.LastStable})
	}
	return done, isDone, err
}

// makeRoomLocked rolls or extends the active segment so that a batch fits.
func (l *Log) makeRoomLocked(h *batch.Header, now int64, marker bool) error {
	c := l.config.Load()
	if int64(h.Size) > c.SegmentBytes {
		return fmt.Errorf("%w: %d bytes, segments of %d", ErrBatchTooLarge, h.Size, c.SegmentBytes)
	}
	if h.LastOffset() < h.BaseOffset {
		return fmt.Errorf("%w: offsets are used up", batch.ErrInvalidRecord)
	}
	if j := l.journal(); j != nil && !marker && j.IsStuck() {
		return errFull
	}
	need := int64(h.Size)
	if !marker {
		need += segment.MarkerReserve
	}
	if l.mustRoll(c, h, now) {
		err := l.mayRollLocked()
		if err == nil {
			err = l.rollLocked(h.BaseOffset, now, need)
		}
		if full := err == errUnsealed && l.noSpace || errors.Is(err, ErrNoSpace); full && marker && l.fitsReserve(h) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if l.active.Room() < need {
		if err := l.active.Extend(need); errors.Is(err, ErrNoSpace) {
			return err
		} else if err != nil {
			return l.latch("extend", err)
		}
	}
	if !marker { // a marker may live on the reserve
		l.noSpace = false
	}
	return nil
}

// fitsReserve tells whether a marker that finds no room for a new segment may
// make the old one a little larger than it should be.
func (l *Log) fitsReserve(h *batch.Header) bool {
	return l.active.Room() >= int64(h.Size) && l.active.Size()+int64(h.Size) <= SegmentBytesLimit &&
		h.LastOffset()-l.active.Base <= math.MaxInt32
}

// mustRoll tells whether the batch goes into a new segment.
func (l *Log) mustRoll(c *Config, h *batch.Header, now int64) bool {
	size := l.active.Size()
	if size == 0 {
		return false
	}
	if size > c.SegmentBytes-int64(h.Size) || h.LastOffset()-l.active.Base > math.MaxInt32 || l.active.IndexesFull(c.IndexBytesMax) {
		return true
	}
	// The age of a segment is counted in record time where records have one.
	waited := now - l.rollAfter
	if first := l.active.FirstTimestamp(); first >= 0 && h.MaxTimestamp >= first {
		waited = h.MaxTimestamp - first
	}
	return waited > c.SegmentAge.Milliseconds()
}

// again tells whether an append that could not go on yet should be tried again,
// once it waited for what it lacked.
func (l *Log) again(ctx context.Context, err error) (bool, error) {
	switch err {
	case errUnbacked:
		err = l.back()
	case errNoMemory:
		err = l.waitMemory(ctx)
	case errUnsealed:
		err = l.relieve(ctx)
	default:
		return false, err
	}
	return err == nil, err
}

// refused tells an append's caller and, once a shortage, the operator.
func (l *Log) refused(err error) error {
	if errors.Is(err, ErrNoSpace) {
		l.appendMu.Lock()
		first := !l.noSpace
		l.noSpace = true
		l.appendMu.Unlock()
		l.metrics.noSpace.Add(1)
		if first {
			l.event(Event{Kind: EventNoSpace, Err: err})
		}
	} else if errors.Is(err, ErrLatched) && l.metrics.latched.CompareAndSwap(0, 1) {
		l.event(Event{Kind: EventLatched, Err: err})
	}
	return err
}
