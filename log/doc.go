// Package log is the log of one partition: a sequence of record batches with
// offsets, in Kafka's segment files, together with what must stay in step
// with them: indexes, producer state, leader epochs, frontiers.
//
// # Life of an append
//
//	validate the bytes                        no lock
//	lock appendMu                             once no append is under way outside of it
//	  producerstate.Check                     new, duplicate (answer the original), or refused
//	  roll or extend the segment              if it is full
//	  find a seat                             memory, or the file
//	  stamp base offset and leader epoch      in a copy of the header; the caller's bytes stay as they are
//	  one copy, or one write                  behind the published bytes
//	  indexes, producerstate.Apply
//	  hand it to the journal, if there is one
//	  publish: segment size, then frontiers
//	unlock
//	wait until the level of the append is reached, or a truncation took it
//
// What an append lacks (memory, a backing, sealed predecessors) it waits for
// without the lock, and begins again. Nothing of a batch that was not written is in any index, in the producer
// state or below a frontier. A failed write or flush latches the log: it takes
// no more appends until it is opened again, and goes on serving reads.
//
// # Frontiers
//
//	log start ≤ high watermark ≤ log end,   last stable ≤ high watermark,   durable ≤ log end
//
// Readers stop at the high watermark, read_committed at the last stable
// offset. At DurabilityFsync the high watermark is what was flushed, at
// DurabilityOS the log end; a replicated log has it moved from outside. The
// last stable offset is the high watermark or, if earlier, the first offset of
// the earliest transaction whose marker is not below the high watermark.
//
// # Locks
//
// maintainMu (seal, checkpoint, retention, truncation, close: one at a time)
// → flushMu (one flush at a time) → appendMu (order of appends) → frontierMu
// and waitMu (leaves). Whoever gives flushMu back hands on to an append that
// came for it meanwhile. What happens to files under appendMu: a write where
// there is no memory for it, and making and extending the active segment; but no
// flush, with one exception: a truncation, which rewrites what appends build on,
// records and syncs under all three. It keeps appends out before it takes them
// (Freeze), so that nobody queues up for the lock. A large append of a journaled
// log is written and synced with the lock released, others kept out likewise.
//
// Readers take no lock: they load the frontiers, then the list of segments, which
// is replaced and never changed, and pin the segments they read. A segment leaves
// the list before it is retired. Only who reads above the high watermark can be
// overtaken by a truncation: it finds out by the era, and reads again.
//
// # Opening
//
// Load reads and changes nothing; Recover carries out what Load decided. A
// log that was not closed cleanly is checked batch by batch from its recovery
// point on. What does not check out there is a torn tail: cut, kept beside
// the log, and reported. Below the recovery point it is damage: Load refuses
// with a *CorruptionError and leaves everything as it is.
package log
