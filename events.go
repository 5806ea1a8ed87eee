package oncelog

import "github.com/oncelog/oncelog/internal/catalog"

// Event is something that an operator or an embedding program may want to know
// of; see Options.Events.
type Event = catalog.Event

// EventKind says what happened.
type EventKind = catalog.EventKind

// Kinds of events.
const (
	EventRecovered         = catalog.EventRecovered         // an unclean log was checked and made whole
	EventTailCut           = catalog.EventTailCut           // a torn tail was cut; File is where it is kept
	EventIndexRebuilt      = catalog.EventIndexRebuilt      // an index could not be used and was made anew
	EventSnapshotBad       = catalog.EventSnapshotBad       // a producer snapshot was ignored
	EventProducerStateLost = catalog.EventProducerStateLost // no snapshot, and the log from its first offset is gone
	EventLatched           = catalog.EventLatched           // an I/O error ended appends to a partition
	EventNoSpace           = catalog.EventNoSpace           // the device is full; once per shortage
	EventSegmentsDeleted   = catalog.EventSegmentsDeleted   // retention or DeleteRecords removed segments
	EventProducersExpired  = catalog.EventProducersExpired  // idle producers were forgotten
	EventPointBeyondEnd    = catalog.EventPointBeyondEnd    // the recovery point lies behind the log end
	EventPartitionRefused  = catalog.EventPartitionRefused  // a partition is damaged and not served
	EventCheckpointBad     = catalog.EventCheckpointBad     // a checkpoint file was taken for empty
	EventMaintenanceFailed = catalog.EventMaintenanceFailed // background work failed and is tried again
	EventDeletionPending   = catalog.EventDeletionPending   // files of a deleted topic could not be removed yet
	EventProgress          = catalog.EventProgress          // of Open: Count of Total partitions
	EventNoTail            = catalog.EventNoTail            // the file system takes no mapped tail
	EventVolatile          = catalog.EventVolatile          // the directory ends with the machine or container
	EventRunDropped        = catalog.EventRunDropped        // the last run of the journal was not whole, and never acknowledged
	EventSetAside          = catalog.EventSetAside          // journal, rescue or tail was set aside: Options.AcceptForeign
)
