package producerstate

import (
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/batch"
)

// LoadSnapshot makes a table of a snapshot file. Each producer knows its last
// batch only. Producers without an open transaction whose timestamp lies
// expiration ms or more before now are left out, as Kafka does; 0 keeps all.
// All that are kept count as seen now: the file does not tell when they were,
// and its timestamps are those of records, which may say anything.
//
// ProducersMax does not bound it, but what is applied afterwards moves the
// table there. Errors are of type *SnapshotError; b is not kept.
func LoadSnapshot(o Options, b []byte, now, expiration int64) (*Table, error) {
	if err := checkSnapshot(b); err != nil {
		return nil, err
	}
	t := New(o)
	var open []uint32
	for pos := snapshotHeaderSize; pos < len(b); pos += snapshotEntrySize {
		info := decodeEntry(b[pos:])
		if reason := implausible(&info); reason != "" {
			return nil, &SnapshotError{Pos: int64(pos), Reason: reason}
		}
		if info.TxnFirst == batch.None && expiration > 0 && now-info.LastTimestamp >= expiration {
			continue
		}
		if t.index.find(&t.entries, info.Producer.ID) != 0 {
			return nil, &SnapshotError{Pos: int64(pos), Reason: fmt.Sprintf("producer %d for the second time", info.Producer.ID)}
		}
		if handle := t.load(&info, now); info.TxnFirst != batch.None {
			open = append(open, handle)
		} else {
			t.link(handle)
		}
	}
	// In their order each finds its place at the end of the list.
	slices.SortFunc(open, func(a, b uint32) int {
		return int(max(-1, min(1, t.entries.at(a).txnFirst-t.entries.at(b).txnFirst)))
	})
	for _, handle := range open {
		t.link(handle)
	}
	return t, nil
}

// load makes the entry of a producer as a snapshot has it, on no list yet.
func (t *Table) load(i *Info, now int64) uint32 {
	handle := t.add(i.Producer.ID)
	e := t.entries.at(handle)
	e.epoch = i.Producer.Epoch
	e.coordinatorEpoch = i.CoordinatorEpoch
	e.time, e.seen = i.LastTimestamp, now
	e.txnFirst = i.TxnFirst
	if i.Batches > 0 {
		e.batches = 1
		e.last = remembered{
			lastOffset:   i.LastOffset,
			timestamp:    i.LastTimestamp,
			lastSequence: i.LastSequence,
			offsetDelta:  i.OffsetDelta,
		}
	}
	return handle
}
