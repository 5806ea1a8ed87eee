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
	// StartNotRecorded: records are deleted before the new log start is durable.
	StartNotRecorded Bug = "log start not recorded before removal"
)

// All are the bugs there are.
var All = []Bug{
	AcknowledgedEarly, SnapshotAhead, IndexBelieved, DuplicateEarly,
	NotCut, NotRewritten, NameNotSynced, StartNotRecorded,
}
