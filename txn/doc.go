// Package txn is the transaction coordinator: it gives producers their
// identities, knows which partitions a transaction is in, decides how it ends,
// and sees to it that every partition hears of that. What it knows is in the
// records of __transaction_state, which are Kafka's.
//
//	Empty ─▶ Ongoing ─▶ PrepareCommit ─▶ CompleteCommit ─┐
//	  ▲         │  ▲                                     │
//	  │         └──┼──▶ PrepareAbort ──▶ CompleteAbort ──┤
//	  └────────────┴─────────────────────────────────────┘
//
// # How a transaction ends
//
// Publish the decision (Prepare…), a marker in each partition, and that they are
// there (Complete…), then wait once. The decision is the record of Prepare being
// safe, and it cannot be without all that it decides on: either one commit
// journal orders everything, or Participants.Barrier waits between the stages.
// Whoever opens the log carries on what was decided.
//
// One at a time carries a decision out. Partitions that do not serve, or would
// have to be waited for, are left out and come later, beside the loop: they hold up
// neither the other partitions nor other transactions. Nobody waits with a lock.
//
// # State
//
// Decisions are pure functions (decide.go). State changes in entry.apply alone,
// live and in replay. Ids are spread over locks by hash; no lock is held over I/O
// or waiting: the pending state of an id keeps others out meanwhile, with
// ErrConcurrent.
//
// What the transaction log holds is the truth. Records go to the log that the state
// was read from, or nowhere: after one that may be in the log or not, and when the
// log was opened again, it is read anew before anything else is decided.
//
// # Epochs
//
// A producer's epoch rises when it is initialised, and, with transactions of
// version 2, with every transaction: then an end, a batch or a marker that comes
// late can never be taken for one of the next transaction. An id that has used
// all epochs gets another producer id.
package txn
