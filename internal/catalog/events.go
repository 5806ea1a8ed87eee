package catalog

import (
	"log/slog"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// EventKind says what happened. The kinds of package log keep their numbers.
type EventKind uint8

// Kinds of events: those of one log, and those of the directory.
const (
	EventRecovered         = EventKind(log.EventRecovered)         // an unclean log was checked and made whole
	EventTailCut           = EventKind(log.EventTailCut)           // a torn tail was cut; File is where it is kept
	EventIndexRebuilt      = EventKind(log.EventIndexRebuilt)      // an index could not be used and was made anew
	EventSnapshotBad       = EventKind(log.EventSnapshotBad)       // a producer snapshot was ignored
	EventProducerStateLost = EventKind(log.EventProducerStateLost) // no snapshot, and the log from its first offset is gone
	EventLatched           = EventKind(log.EventLatched)           // an I/O error ended appends
	EventNoSpace           = EventKind(log.EventNoSpace)           // the device is full; once per shortage
	EventSegmentsDeleted   = EventKind(log.EventSegmentsDeleted)   // retention or DeleteRecords removed segments
	EventProducersExpired  = EventKind(log.EventProducersExpired)  // idle producers were forgotten
	EventPointBeyondEnd    = EventKind(log.EventPointBeyondEnd)    // the recovery point lies behind the log end

	EventPartitionRefused  = EventKind(iota + 54) // a partition is damaged and not served; the others are
	EventCheckpointBad                            // a checkpoint file could not be read and was taken for empty
	EventMaintenanceFailed                        // background work on a partition failed; it is tried again
	EventDeletionPending                          // a deleted topic's files could not be removed yet
	EventProgress                                 // of Open: Count of Total partitions are done; File names the stage
	EventNoTail                                   // File, the file system, takes no mapped tail: appends at DurabilityOS go straight into the segments
	EventVolatile                                 // the directory lies on File, which ends with the machine or container
	EventRunDropped                               // the last run of the journal was not whole: From its position, none of it was acknowledged
	EventSetAside                                 // journal, rescue or tail was set aside as File, since another program wrote over what it holds
)

// storeEventFirst is the first kind that is not package log's.
const storeEventFirst = EventPartitionRefused

var storeEventNames = [...]string{"partition refused", "checkpoint file ignored", "maintenance failed", "deletion pending", "progress",
	"no mapped tail", "volatile file system", "unfinished run dropped", "set aside"}

// String is the kind in words.
func (k EventKind) String() string {
	if k < storeEventFirst {
		return log.EventKind(k).String()
	}
	if i := int(k - storeEventFirst); i < len(storeEventNames) {
		return storeEventNames[i]
	}
	return "unknown"
}

// Event is something that an operator or an embedding program may want to know
// of. Fields that do not apply are zero.
type Event struct {
	Kind       EventKind
	Partition  topic.Partition
	File       string
	From, To   int64 // offsets
	Bytes      int64
	Count      int
	Total      int
	ValidAfter bool // of a cut tail: whole batches follow the damage
	Err        error
}

// logEvent passes on what a log tells; the log wrote it to the logger.
func (c *Catalog) logEvent(e log.Event) {
	if c.o.Events == nil {
		return
	}
	c.o.Events(Event{Kind: EventKind(e.Kind), Partition: e.Partition, File: e.File, From: e.From, To: e.To,
		Bytes: e.Bytes, Count: e.Count, ValidAfter: e.ValidAfter, Err: e.Err})
}

// event tells the embedding program and the logger. No lock may be held but
// changeMu.
func (c *Catalog) event(e Event) {
	level := slog.LevelWarn
	if e.Err == nil {
		level = slog.LevelInfo
	}
	c.o.Log.Logger.LogAttrs(c.background, level, "catalog: "+e.Kind.String(), slog.String("partition", e.Partition.String()),
		slog.String("file", e.File), slog.Int("count", e.Count), slog.Int("total", e.Total), slog.Any("error", e.Err))
	if c.o.Events != nil {
		c.o.Events(e)
	}
}
