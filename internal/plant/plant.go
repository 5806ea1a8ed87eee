// Package plant has bugs, to prove that the crash model finds them. Without the
// build tag "plant" there are none: Enabled is a constant false, and the
// compiler removes every place that asks.
//
// A place in the engine looks like this:
//
//	if plant.Enabled && plant.Is(plant.AcknowledgedEarly) {
//
// With the tag, Set chooses the one bug that is there.
package plant

// Bug is one of them.
type Bug string

const (
	None Bug = ""
	// AcknowledgedEarly: a flush does not sync the file.
	AcknowledgedEarly Bug = "acknowledged before the sync"
	// SnapshotAhead: a producer snapshot knows of appends behind its offset.
	SnapshotAhead Bug = "snapshot ahead of the log"
	// IndexBelieved: recovery starts at the last index entry, wherever that is.
	IndexBelieved Bug = "index believed over the log"
	// DuplicateEarly: a retry is answered before its original is safe.
	DuplicateEarly Bug = "duplicate acknowledged early"
	// NotCut: a truncation leaves the batches in the file.
	NotCut Bug = "dead batches after a truncation"
	// NotRewritten: recovery believes the page cache.
	NotRewritten Bug = "recovered without writing again in place"
	// NameNotSynced: what is in a new segment is acknowledged before its name
	// is durable.
	NameNotSynced Bug = "directory not synced before acknowledging"
	// TicketIgnored: the journal takes what is queued partition by partition.
	TicketIgnored Bug = "ticket ignored"
	// TornRun: recovery believes a run of the journal that is not whole.
	TornRun Bug = "torn run replayed"
	// StaleSlot: all uses of a slot of the mapped tail have the same generation.
	StaleSlot Bug = "stale slot replayed"
	// HalfReused: a half of the journal is free before what it holds is in the
	// segments.
	HalfReused Bug = "half reused before the segments are synced"
	// HeaderLazy: it is used again before the header says so.
	HeaderLazy Bug = "header written lazily"
	// PointAhead: a checkpoint answers a recovery point that the journal has not
	// reached.
	PointAhead Bug = "recovery point above the journaled frontier"
	// RunNotRewritten: recovery believes the page cache about the journal.
	RunNotRewritten Bug = "last run not rewritten"
	// WatermarkEarly: readers at level fsync see what is published.
	WatermarkEarly Bug = "watermark before the flush"
	// AcknowledgedBefore: an append does not wait for the flush.
	AcknowledgedBefore Bug = "acknowledged before the flush"
	// NoFlush: the journal is not synced.
	NoFlush Bug = "no flush at all"
	// TruncationEarly: a truncation does not wait for its frame.
	TruncationEarly Bug = "truncation acknowledged before its frame"
	// LargeUnsynced: the journal refers to a large batch that is not synced.
	LargeUnsynced Bug = "large batch referred to unsynced"
	// AboveJournal: recovery keeps valid batches that the journal does not have.
	AboveJournal Bug = "valid bytes above the journal kept"
	// QueueDropped: what a latched log has in the queue of the journal goes when
	// it is opened again.
	QueueDropped Bug = "queue of a latched log dropped"
	// ForeignOverwritten: recovery writes over what another program wrote where the
	// journal has a batch.
	ForeignOverwritten Bug = "another program's batch overwritten"
	// StartNotRecorded: records are deleted before the new log start is durable.
	StartNotRecorded Bug = "log start not recorded before removal"
)

// All are the bugs there are.
var All = []Bug{
	AcknowledgedEarly, SnapshotAhead, IndexBelieved, DuplicateEarly,
	NotCut, NotRewritten, NameNotSynced, StartNotRecorded,
	TicketIgnored, TornRun, StaleSlot, HalfReused, HeaderLazy, PointAhead, RunNotRewritten,
	WatermarkEarly, AcknowledgedBefore, NoFlush, TruncationEarly, LargeUnsynced, AboveJournal, QueueDropped, ForeignOverwritten,
}
