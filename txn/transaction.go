package txn

import (
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
)

// Transaction is what the transaction log says of a transactional id: its
// producer, and its last transaction.
type Transaction struct {
	Producer batch.Producer // epoch -1: made, and not logged yet
	// PrevID is the producer id before the latest transition: it differs from
	// Producer.ID only if that took another one, and recognises retries then.
	PrevID int64
	NextID int64 // of a decision that used the last epoch up: the producer id from its completion on; -1: none
	// LastEpoch is the epoch before the last one that the same client asked for;
	// -1 after somebody else was fenced.
	LastEpoch int16
	NextEpoch int16 // of a two-phase prepare; -1: none
	TimeoutMs int32 // noTimeout: never

	State      State
	Partitions []topic.Partition // sorted; of an ongoing transaction or a decision
	StartMs    int64             // when the first partition was added; -1: no transaction
	UpdatedMs  int64
	// ClientVersion is 2 if the client's epoch rises with every transaction.
	ClientVersion int16
}

// noTimeout is the timeout of a transaction that waits for an outside decision.
const noTimeout = 1<<31 - 1

// epochsUsed is the epoch that has no next one to be handed out: a decision at
// it goes out with lastEpoch, and its completion takes another producer id.
const (
	epochsUsed = 1<<15 - 2
	lastEpoch  = 1<<15 - 1
)

// has tells whether a partition is part of the transaction.
func (t *Transaction) has(p topic.Partition) bool {
	_, found := slices.BinarySearchFunc(t.Partitions, p, topic.Partition.Compare)
	return found
}

// missing are the partitions of a list that are not part of the transaction.
func (t *Transaction) missing(list []topic.Partition) (absent []topic.Partition) {
	for _, p := range list {
		if t.State != Ongoing || !t.has(p) {
			absent = append(absent, p)
		}
	}
	return absent
}

// hasAll tells whether all of a list are part of the transaction.
func (t *Transaction) hasAll(list []topic.Partition) bool {
	for _, p := range list {
		if !t.has(p) {
			return false
		}
	}
	return true
}

// union is the sorted union of both, in the memory of dst.
func (t *Transaction) union(dst, list []topic.Partition) []topic.Partition {
	dst = append(dst[:0], t.Partitions...)
	for _, p := range list {
		if i, found := slices.BinarySearchFunc(dst, p, topic.Partition.Compare); !found {
			dst = slices.Insert(dst, i, p)
		}
	}
	return dst
}

// expired tells whether an ongoing transaction has taken too long.
func (t *Transaction) expired(now int64) bool {
	return t.State == Ongoing && t.TimeoutMs != noTimeout && t.StartMs >= 0 && t.StartMs+int64(t.TimeoutMs) < now
}
