package log

import (
	"context"
	"fmt"
	"math"

	"github.com/oncelog/oncelog/batch"
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
// batches are appended or none.
func (l *Log) AppendReplica(ctx context.Context, raw []byte, o ReplicaOptions) (Appended, error) {
	if err := l.admit(ctx); err != nil {
		return Appended{}, err
	}
	if int64(len(raw)) > l.config.Load().SegmentBytes {
		return Appended{}, fmt.Errorf("%w: %d bytes, segments of %d", ErrBatchTooLarge, len(raw), l.config.Load().SegmentBytes)
	}
	first, last, err := l.checkReplica(raw)
	if err != nil {
		return Appended{}, err
	}
	now := l.o.Now().UnixMilli()
	for again := true; again; {
		l.lockAppend()
		err = l.appendReplicaLocked(raw, first, last, now)
		l.appendMu.Unlock()
		again, err = l.again(ctx, err)
	}
	if err != nil {
		return Appended{}, l.refused(err)
	}
	l.written(raw)
	a := Appended{BaseOffset: first.BaseOffset, LastOffset: last.LastOffset(), Timestamp: batch.None, LogStart: l.logStart.Load()}
	if !o.NoWait && l.level() == DurabilityFsync {
		return a, l.waitDurable(ctx, last.NextOffset())
	}
	l.flushIfDue()
	return a, nil
}

// checkReplica verifies what does not depend on the state of the log.
func (l *Log) checkReplica(raw []byte) (first, last batch.Header, err error) {
	for pos := 0; pos < len(raw); {
		b, err := batch.Parse(raw[pos:])
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			return first, last, fmt.Errorf("replica append at byte %d: %w", pos, err)
		}
		h := b.Header()
		if pos == 0 {
			first = h
		} else if h.BaseOffset != last.NextOffset() {
			return first, last, fmt.Errorf("%w: batch at byte %d starts at offset %d, the one before ends at %d", ErrUnexpectedOffset, pos, h.BaseOffset, last.NextOffset())
		} else if h.LeaderEpoch < last.LeaderEpoch {
			return first, last, fmt.Errorf("%w: %d after %d", ErrStaleLeaderEpoch, h.LeaderEpoch, last.LeaderEpoch)
		}
		last = h
		pos += len(b)
	}
	if len(raw) == 0 {
		return first, last, fmt.Errorf("%w: no batch", batch.ErrShort)
	}
	if last.LastOffset()-first.BaseOffset > math.MaxInt32 {
		return first, last, fmt.Errorf("%w: offsets %d to %d do not fit into one", ErrBatchTooLarge, first.BaseOffset, last.LastOffset())
	}
	return first, last, nil
}

func (l *Log) appendReplicaLocked(raw []byte, first, last batch.Header, now int64) error {
	if err := l.writable(); err != nil {
		return err
	}
	if end := l.logEnd.Load(); first.BaseOffset != end {
		return fmt.Errorf("%w: offset %d, the log ends at %d", ErrUnexpectedOffset, first.BaseOffset, end)
	}
	if latest, ok := l.epochs.latest(); ok && first.LeaderEpoch >= 0 && first.LeaderEpoch < latest.Epoch {
		return fmt.Errorf("%w: %d, the log is at %d", ErrStaleLeaderEpoch, first.LeaderEpoch, latest.Epoch)
	}
	whole := first
	whole.Size, whole.LastOffsetDelta = len(raw), int32(last.LastOffset()-first.BaseOffset)
	whole.MaxTimestamp = max(first.MaxTimestamp, last.MaxTimestamp)
	if err := l.makeRoomLocked(&whole, now, false); err != nil {
		return err
	}
	at, err := l.seatLocked(first.BaseOffset, len(raw))
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
