// Package catalog is a data directory: which topics and partitions are in it,
// the open log of each, and the files at its root.
//
// # Opening
//
//	lock .lock                                   nobody else writes
//	read: manifest, checkpoints, every log       changes nothing; a failure leaves the directory as it was
//	remove the clean mark, sync the directory    a crash from here on is not taken for a clean stop
//	recover every log                            side by side
//	record the points of all, once               then the manifest, if topics were found
//	settle journal and tail                      what they hold is in the segments now
//	finish deletions                             those that fail are told and tried again later
//	serve
//
// A partition with damage below its recovery point, or in a message format
// before record batches, refuses alone, and so does one whose directory is
// gone, or whose files cannot be worked with (a bad sector, a permission):
// Partition answers the error, the others serve. Everything else that goes
// wrong is the whole directory's: Open fails.
//
// Opened read-only, nothing is written and no lock taken: the directory may be
// live, crashed or foreign. What another process moves away meanwhile is
// looked for again.
//
// # Closing
//
// Logs are closed side by side, checkpoints written, the directory synced, and
// then, last, the clean mark: only if every partition is whole, as Kafka does.
//
// # Topics
//
// A topic is made in this order: directories with partition.metadata, synced;
// then the manifest; then its logs. A directory that the manifest does not
// know is a topic of Kafka's, unless it holds no segment: then it is what an
// unfinished creation left, and holds nothing. A topic is deleted by the
// manifest first, which notes the deletion; then its logs are abandoned, its
// directories renamed to Kafka's form of a pending deletion, its checkpoint
// entries dropped and the directories removed; then the note goes. Open takes
// up what is noted. So a deletion is never half forgotten, a topic of the same
// name starts empty, and Kafka's own pending deletions are not touched.
//
// A manifest that reached its name but not the device, and that cannot be put
// back either, leaves its change in doubt: it is written again, as memory has
// it, with the next tick of maintenance, before any other change, and in Close.
// A deletion in doubt goes forward, since nothing may be acknowledged to what a
// crash may take; until it is settled its logs keep what they have in memory,
// and the journal frees nothing. Other changes go back.
//
// # Concurrency
//
// All methods are safe for concurrent use. changeMu (one change of the
// directory's structure at a time) comes before every lock of a log; mu guards
// maps: nothing is called with it held but the book, whose lock is a leaf. One
// goroutine does checkpoints, retention and expiry; the workers of package log
// do the rest. Close waits for all, as long as its context lets it.
package catalog
