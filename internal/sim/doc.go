// Package sim runs the engine against a naive model of what it promises:
// random histories of appends, markers, rolls, checkpoints, retention,
// truncation and topics, in which the process or the power fails at any file
// operation, syncs fail and lose pages, writes are torn and the disk is full.
//
// # How a history runs
//
// Everything happens on one goroutine and on one random source, so a seed
// replays a history exactly. Where the engine would work at the side (a flush
// that runs while others append) a hook in the file system lets another
// activity in: at a sync of the outer one nothing that an append needs is held.
// What runs is the catalog of a Store, several topics and partitions at both
// levels, working by hand (catalog.Options.Manual); and, in some histories,
// replicated logs alone, which a Store does not make yet. The whole Store with
// its goroutines has a smaller test beside, which no seed replays.
//
// A history is a row of lives. A life opens the store, checks all of it, works,
// and ends: cleanly, or because operation k of the file system and all after it
// fail. What the next life finds is the file system as the end of the process
// leaves it (all that was written, synced or not), or as a power loss does (of
// what was not synced any subset of pages and directory changes). The last
// life ends cleanly and must have gone quiet: last stable offset, high
// watermark and log end are one.
//
// # What is checked
//
// The model knows which batches a log holds, in order, and up to which offset
// they are safe from which loss: because they were acknowledged at a level,
// because a reader could have seen them, because the log said that they are on
// the device. After every opening, and often in between:
//
//   - the log is the model's up to some batch, byte by byte, and that batch is
//     not below what was safe from the loss there was;
//   - what was truncated, deleted, cut or lost once never comes back;
//   - the log start is where it was put, and the frontiers are those that the
//     definition gives; the high watermark moves up only, within a life;
//   - producers, transactions, aborted lists, leader epochs and lookups by time
//     are those of a fold over the whole history of the log, and, while the log
//     is there from offset 0, those of the same files without indexes and
//     snapshots;
//   - a retry of what survived is a duplicate with the offsets it had, and what
//     did not survive is accepted again;
//   - at level fsync, with a journal, nothing survives without all that was
//     published before it began, in whatever partitions;
//   - another program that worked in the directory after a crash (it takes off what
//     does not check out, and may append) is found out where it wrote over what was
//     safe, with nothing changed, or nothing of ours is missing;
//   - a clean close leaves no file of unfinished work, and log.Verify finds
//     nothing in it.
//
// A script over everything that writes is run besides with the n-th operation
// failing, n = 0, 1, 2 … until it is done without.
//
// # What is left out
//
// Another program works on one log at level fsync, leaves recovery points alone and
// takes no whole segments away. Producers never expire here, and batches of a producer before its last may be
// forgotten by an opening. A directory sync that fails leaves its changes
// unsynced but does not lose them: a directory entry cannot be written again
// the way a page can. Of transactions that began below the log start, what an
// index says of their beginning may be less than it was: no reader can tell.
// Files are not damaged otherwise than by what a crash does. Memory order is
// the race detector's matter.
//
// # Why to believe it
//
// Package plant has bugs in the right places of the engine, compiled in by the
// build tag plant. A test shows that each is caught.
package sim
