package oncelog

import (
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/txn"
)

// Undecided is the open transaction that holds the last stable offset of a partition
// back: readers at ReadCommitted wait for its end.
type Undecided struct {
	Producer batch.Producer
	// TransactionalID is whose it is. "": nobody's that this store knows of; see
	// Transactions().Hanging.
	TransactionalID string
	Since           time.Time // when it began; if that is not known, its last batch, by its own timestamp
	Offset          int64     // of its first record here
	Bytes           int64     // from there to the high watermark
}

// Undecided tells which transaction holds the last stable offset of a partition back;
// false if none does.
//
// Errors: ErrUnknownPartition, what the partition refuses with.
func (s *Store) Undecided(tp TopicPartition) (u Undecided, held bool, err error) {
	l, err := s.Partition(tp)
	if err != nil {
		return u, false, err
	}
	open := l.Ongoing()
	if len(open) == 0 {
		return u, false, nil
	}
	first := open[0]
	u = Undecided{Producer: first.Producer, Offset: max(first.First, l.Frontiers().LogStart), Since: time.UnixMilli(first.LastTimestamp)}
	for _, d := range s.transactions.List(txn.Filter{ProducerIDs: []int64{first.Producer.ID}}) {
		u.TransactionalID = d.TransactionalID
		if !d.Start.IsZero() {
			u.Since = d.Start
		}
	}
	m, err := l.Measure(u.Offset, ReadUncommitted)
	u.Bytes = m.Bytes
	return u, true, err
}
