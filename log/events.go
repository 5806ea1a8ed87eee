package log

import (
	"log/slog"
	"sync"

	"github.com/oncelog/oncelog/internal/topic"
)

// EventKind says what happened to a log.
type EventKind uint8

const (
	EventRecovered         EventKind = iota + 1 // an unclean log was checked and made whole
	EventTailCut                                // a torn tail was cut; File is where it is kept, none if it was zeros before segments that were cut too
	EventIndexRebuilt                           // an index could not be used and was made anew
	EventSnapshotBad                            // a producer snapshot was ignored
	EventProducerStateLost                      // no snapshot, and the log from its first offset is gone
	EventLatched                                // an I/O error ended appends
	EventNoSpace                                // the device is full; once per shortage
	EventSegmentsDeleted                        // retention or DeleteRecords removed segments
	EventProducersExpired                       // idle producers were forgotten
	EventPointBeyondEnd                         // the recovery point lies behind the log end
)

var eventNames = [...]string{"", "recovered", "tail cut", "index rebuilt", "snapshot ignored", "producer state lost",
	"latched", "no space", "segments deleted", "producers expired", "recovery point beyond the log end"}

func (k EventKind) String() string { return eventNames[k] }

// Event is something that an operator or an embedding program may want to
// know of.
type Event struct {
	Kind      EventKind
	Partition topic.Partition
	File      string
	From, To  int64 // offsets, where they apply; equal if no more is known than where it begins
	Bytes     int64
	Count     int
	// ValidAfter says of a cut tail that whole batches follow the damage.
	ValidAfter bool
	Err        error
}

// outbox holds events until they can be told.
type outbox struct {
	mu     sync.Mutex // leaf
	events []Event
}

// event tells the embedding program and the logger, or lets whoever holds
// maintainMu do so when done: perhaps that is the caller, and what is called may
// want the lock. No other lock may be held.
func (l *Log) event(e Event) {
	e.Partition = l.o.Partition
	l.outbox.mu.Lock()
	l.outbox.events = append(l.outbox.events, e)
	l.outbox.mu.Unlock()
	if l.maintainMu.TryLock() {
		l.maintainMu.Unlock()
	}
}

// maintainLock is a mutex that tells what happened under it once it is
// unlocked. An event is put into the outbox before somebody looks whether the
// lock is held, and the outbox is emptied after it was: so none stays there.
type maintainLock struct {
	sync.Mutex
	unlocked func() // set before the first use
}

func (m *maintainLock) Unlock() {
	m.Mutex.Unlock()
	m.unlocked()
}

// deliver tells the events of the outbox.
func (l *Log) deliver() {
	l.outbox.mu.Lock()
	events := l.outbox.events
	l.outbox.events = nil
	l.outbox.mu.Unlock()
	for _, e := range events {
		l.o.Logger.Info("log: "+e.Kind.String(), slog.String("partition", e.Partition.String()), slog.String("file", e.File),
			slog.Int64("from", e.From), slog.Int64("to", e.To), slog.Int64("bytes", e.Bytes), slog.Any("error", e.Err))
		if l.o.Events != nil {
			l.o.Events(e)
		}
	}
}
