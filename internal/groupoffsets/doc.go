// Package groupoffsets knows how far consumer groups have come: their committed
// offsets, and those that are pending in open transactions. All of it is in the
// records of __consumer_offsets, which are Kafka's; what is held in memory is
// their fold.
//
// # Following the log
//
// A partition of the topic is folded in the order of its offsets, from the log
// start to the high watermark. Every door first reads on from where the last one
// stopped, with the code that reads the log at the start: what is known live and
// what is known after opening cannot differ. Another log in the place of the one
// that was read (opened again, made anew) is folded from its start, as is one
// whose start has moved.
//
// # Rules
//
//	batch without a producer      an offset becomes the committed one
//	batch of a producer           it is pending, by producer and partition
//	marker COMMIT                 what is pending of the producer becomes committed
//	marker ABORT                  it is dropped
//	record without a value        what is committed and what is pending goes
//
// Of two offsets the one whose record has the larger log offset wins: an offset
// committed plainly after one of a transaction stays when that commits. What was
// never committed is "none", -1, and never 0.
//
// An offset that is published but not below the high watermark is not answered:
// it may be lost still. It counts where it must not be overlooked: whoever asks
// for stable offsets hears of pending ones at once, and expiry leaves alone what
// has just been committed.
//
// # Bounds
//
// Memory is held for live offsets, committed or pending, for groups that members
// or open transactions are recorded of, and for one read of a log (1 MiB, or one
// batch) while it is folded. A damaged batch or record, or one of a version that
// is not known, ends the answers of its partition with a *DamageError until the
// partition is repaired: an older offset is a wrong one.
//
// # Left to others
//
// Members, generations and subscriptions: who may commit is decided by whoever
// keeps the group's membership, which records of it are read here only as far as
// deletion and expiry need them. That a transaction is open and the partition
// part of it is for the transaction coordinator, by the guard of the log. There
// are no goroutines here.
package groupoffsets
