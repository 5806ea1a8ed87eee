package log

import (
	"log/slog"

	"github.com/oncelog/oncelog/internal/topic"
)

// EventKind says what happened to a log.
type EventKind uint8

const (
	EventRecovered         EventKind = iota + 1 // an unclean log was checked and made whole
	EventTailCut                                // a torn tail was cut; File is where it is kept, none if it was zeros
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
	From, To  int64 // offsets, where they apply
	Bytes     int64
	Count     int
	// ValidAfter says of a cut tail that whole batches follow the damage.
	ValidAfter bool
	Err        error
}

// event tells the embedding program and the logger. No lock may be held.
func (l *Log) event(e Event) {
	e.Partition = l.o.Partition
	l.o.Logger.Info("log: "+e.Kind.String(), slog.String("partition", e.Partition.String()), slog.String("file", e.File),
		slog.Int64("from", e.From), slog.Int64("to", e.To), slog.Int64("bytes", e.Bytes), slog.Any("error", e.Err))
	if l.o.Events != nil {
		l.o.Events(e)
	}
}
