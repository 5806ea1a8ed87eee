package log

import (
	"context"
	"fmt"
	"math"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/tail"
)

// ReplicaOptions of the replica's door.
type ReplicaOptions struct {
	NoWait bool // return once the batches are published
}

// AppendReplica is the replica's door: raw, whole batches whose offsets a
// leader gave, is appended byte for byte. The first must start at the log
// end, each other where the one before ends; CRC, offsets and leader epochs
// are checked, records are not: a leader stored them. The effect on producer
// state, indexes and epochs is that of the leader's own append. Either all
// batches are appended or none, unless an I/O error latches the log in the middle
// or it crashes: that may leave the first ones, whole.
func (l *Log) AppendReplica(ctx context.Context, raw []byte, o ReplicaOptions) (Appended, error) {
	if err := l.admit(ctx); err != nil {
		return Appended{}, err
	}
	if int64(len(raw)) > l.config.Load().SegmentBytes {
		return Appended{}, fmt.Errorf("%w: %d bytes, segments of %d", ErrBatchTooLarge, len(raw), l.config.Load().SegmentBytes)
	}
	run, err := checkRun(raw)
	if err != nil {
		return Appended{}, err
	}
	now := l.o.Now().UnixMilli()
	safe := promise{offset: run.NextOffset()}
	for again := true; again; {
		l.lockAppend()
		safe.era = l.era()
		err = l.appendReplicaLocked(raw, &run, now)
		l.appendMu.Unlock()
		again, err = l.again(ctx, err)
	}
	if err != nil {
		return Appended{}, l.refused(err)
	}
	l.metrics.appendedBytes.Add(int64(len(raw)))
	a := Appended{BaseOffset: run.BaseOffset, LastOffset: run.LastOffset(), Timestamp: batch.None, LogStart: l.logStart.Load()}
	if !o.NoWait && l.level() == DurabilityFsync {
		return a, l.waitDurable(ctx, safe)
	}
	l.flushIfDue(DurabilityDefault, len(raw))
	return a, nil
}

// replicaRun is what the batches of an append are together: the header as if
// they were one, but for its leader epoch, which is the oldest that any carries,
// -1 if none does.
type replicaRun struct {
	batch.Header
	batches int
}

// checkRun verifies what does not depend on the state of the log.
func checkRun(raw []byte) (run replicaRun, err error) {
	next, newest := int64(0), int32(batch.None)
	for pos := 0; pos < len(raw); {
		b, err := batch.Parse(raw[pos:])
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			return run, fmt.Errorf("replica append at byte %d: %w", pos, err)
		}
		h := b.Header()
		switch {
		case pos == 0:
			run.Header = h
		case h.BaseOffset != next:
			return run, fmt.Errorf("%w: batch at byte %d starts at offset %d, the one before ends at %d", ErrUnexpectedOffset, pos, h.BaseOffset, next)
		case h.LeaderEpoch >= 0 && h.LeaderEpoch < newest:
			return run, fmt.Errorf("%w: %d after %d", ErrStaleLeaderEpoch, h.LeaderEpoch, newest)
		}
		if run.LeaderEpoch < 0 {
			run.LeaderEpoch = h.LeaderEpoch
		}
		run.MaxTimestamp = max(run.MaxTimestamp, h.MaxTimestamp)
		next, newest = h.NextOffset(), max(newest, h.LeaderEpoch)
		run.batches++
		pos += len(b)
	}
	if len(raw) == 0 {
		return run, fmt.Errorf("%w: no batch", batch.ErrShort)
	}
	if next-1-run.BaseOffset > math.MaxInt32 {
		return run, fmt.Errorf("%w: offsets %d to %d do not fit into one", ErrBatchTooLarge, run.BaseOffset, next-1)
	}
	run.Size, run.LastOffsetDelta = len(raw), int32(next-1-run.BaseOffset)
	return run, nil
}

func (l *Log) appendReplicaLocked(raw []byte, run *replicaRun, now int64) error {
	if err := l.writable(); err != nil {
		return err
	}
	if end := l.logEnd.Load(); run.BaseOffset != end {
		return fmt.Errorf("%w: offset %d, the log ends at %d", ErrUnexpectedOffset, run.BaseOffset, end)
	}
	if latest, ok := l.epochs.latest(); ok && run.LeaderEpoch >= 0 && run.LeaderEpoch < latest.Epoch {
		return fmt.Errorf("%w: %d, the log is at %d", ErrStaleLeaderEpoch, run.LeaderEpoch, latest.Epoch)
	}
	if err := l.makeRoomLocked(&run.Header, now, false); err != nil {
		return err
	}
	at, err := l.seatLocked(run.BaseOffset, tail.RoomFor(len(raw), run.batches))
	if err != nil {
		return err
	}
	if at != seatMemory { // else batch by batch, as they are entered
		l.vecs[0], l.vecs[1] = raw, nil
		err = l.storeLocked(at, l.vecs[:1])
		l.vecs[0] = nil
	}
	if err == nil {
		err = l.enterReplicaLocked(raw, now, at)
	}
	if err != nil {
		return l.latch("append to", err)
	}
	l.appends++
	return nil
}

// enterReplicaLocked enters written batches one by one and publishes them.
func (l *Log) enterReplicaLocked(raw []byte, now int64, at seat) error {
	for pos := 0; pos < len(raw); {
		b, err := batch.Parse(raw[pos:])
		if err != nil {
			return err
		}
		h := b.Header()
		l.epochs.assign(h.LeaderEpoch, h.BaseOffset)
		marker, err := markerOf(b)
		if err != nil {
			return err
		}
		if at == seatMemory {
			l.vecs[0] = b
			err = l.storeLocked(at, l.vecs[:1])
			l.vecs[0] = nil
		}
		if err != nil {
			return err
		}
		done, isDone, err := l.indexLocked(&h, marker, 0, now)
		if err != nil {
			return err
		}
		l.enqueueLocked(at, h.Size, h.BaseOffset, h.NextOffset(), b.CRC())
		l.active.Publish(int64(h.Size))
		l.publishLocked(h.NextOffset(), done, isDone)
		pos += len(b)
	}
	return nil
}

// markerOf is the marker in a control batch, nil if it holds none. What a
// leader stored is taken as it is: a control record that cannot be read has
// no effect.
func markerOf(b batch.Batch) (*batch.Marker, error) {
	if !b.IsControl() {
		return nil, nil
	}
	m, ok, err := batch.ReadMarker(b)
	if err != nil || !ok {
		return nil, nil
	}
	return &m, nil
}
