package txn

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Options of a coordinator. The zero value takes every default.
type Options struct {
	TimeoutMax    time.Duration // of a transaction; 0: 15 min
	Expiration    time.Duration // an unused transactional id is forgotten; 0: 7 days
	AbortInterval time.Duration // between two looks for transactions that took too long; 0: 10 s
	ExpiryBatch   int           // ids forgotten in one go; 0: 1000
	// TV1 fences open transactions as a cluster at transaction.version 1 does:
	// their clients cannot go on. Producers choose for themselves which version
	// they speak.
	TV1 bool

	// ReadOnly reads the transaction log and changes nothing: what would, answers
	// log.ErrReadOnly.
	ReadOnly bool
	// Torn tells of a partition that it may have lost what was published in it: it
	// is kept in the page cache, and power was lost since. Open aborts the open
	// transactions that such a partition takes part in. nil: none.
	Torn func(topic.Partition) bool

	Now    func() time.Time // nil: time.Now
	Events func(Event)      // nil: none; called without locks, must not call the coordinator
	// Manual says that nothing happens by itself: Work does what is due.
	Manual bool
}

func (o Options) withDefaults() Options {
	if o.TimeoutMax == 0 {
		o.TimeoutMax = 15 * time.Minute
	}
	if o.Expiration == 0 {
		o.Expiration = 7 * 24 * time.Hour
	}
	if o.AbortInterval == 0 {
		o.AbortInterval = 10 * time.Second
	}
	if o.ExpiryBatch == 0 {
		o.ExpiryBatch = 1000
	}
	if o.Torn == nil {
		o.Torn = func(topic.Partition) bool { return false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	return o
}

// Participants are the partitions that transactions go over, those of the
// transaction log and of committed offsets among them. Their methods are safe
// for concurrent use.
type Participants interface {
	// Partition is the open log of a partition. ErrPartitionGone: its topic was
	// deleted. Any other error may pass.
	Partition(topic.Partition) (*log.Log, error)
	// All are the partitions that serve.
	All() iter.Seq[topic.Partition]
	// StatePartitions and OffsetsPartitions are how many partitions the two
	// internal topics have, which never changes.
	StatePartitions() int
	OffsetsPartitions() int
	// Barrier returns once everything published in these partitions survives
	// whatever is published from then on: at once where one commit journal orders
	// all of it. It must not keep the list.
	Barrier(context.Context, []topic.Partition) error
	// ReserveIDs gives a block of n producer ids that nobody had, durably.
	ReserveIDs(ctx context.Context, n int) (first int64, err error)
	// Reserved tells whether a producer id is from such a block.
	Reserved(id int64) bool
}

// Event is something that an operator may want to know of.
type Event struct {
	Kind            EventKind
	TransactionalID string
	Producer        int64 // id
	Partition       topic.Partition
	Err             error
}

// EventKind says what happened.
type EventKind uint8

const (
	EventTimedOut     EventKind = iota + 1 // an open transaction took too long and was aborted
	EventFenced                            // one was aborted for a newer producer of the same id
	EventExpired                           // an id that was not used was forgotten
	EventResumed                           // a decision from before the start was carried on
	EventOrphanEnded                       // an open transaction that the log does not know was aborted
	EventMarkerFailed                      // a marker cannot be written now and is tried again
	EventMarkerVoid                        // a partition has a newer epoch than the marker: nothing is left to end there
	EventTorn                              // an open transaction was aborted, since it may have lost something
	EventSkipped                           // a record of the transaction log has a version that is not known
)

// String is for logs.
func (k EventKind) String() string {
	names := [...]string{"", "transaction timed out", "producer fenced", "transactional id expired", "decision resumed",
		"orphaned transaction ended", "marker failed", "marker void", "torn transaction aborted", "record skipped"}
	if int(k) >= len(names) {
		return fmt.Sprintf("EventKind(%d)", k)
	}
	return names[k]
}
