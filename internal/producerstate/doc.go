// Package producerstate is what one partition remembers of its producers: the
// last five batches of each (to recognise a retry), epochs (to fence), open
// transactions, and verification guards. It decides on appends and folds the
// log into state; the same Apply serves live appends, the replica's door,
// recovery and loading.
//
// # What it promises
//
//   - Check changes nothing; state moves only in Apply, which the caller calls
//     once the batch is in the log. An append that fails leaves no trace.
//   - An entry with an open transaction is never expired and never evicted.
//   - FirstUndecided, Check and Apply cost the same at a thousand and at a
//     million producers, open transactions included, but for cache misses. No
//     step rehashes or copies more than one block of 1024 entries.
//   - In steady state nothing is allocated, and nothing but a directory of
//     blocks holds pointers, so the collector does not walk the table.
//
// # What it leaves to others
//
// No I/O, no clock, no lock: the caller serialises all calls on a table, and
// passes times in. The content of batches is checked by package batch. What a
// transaction is between its marker and the high watermark ("completed, but
// not yet stable") is kept by package log, as is the fact whether a partition
// ever held a record (Request.FirstEver).
//
// # Rules
//
// Data batches of clients, in this order, E being the entry of the producer id
// (absent: epoch −1, no batches, no transaction), e, s, l the batch's epoch,
// first and last sequence:
//
//	D1   E known, e = E.epoch, (s,l) among the five     duplicate: answer the original
//	D2   transactional, none open of (id, e), e < E.epoch           ErrInvalidProducerEpoch
//	D3   transactional, none open of (id, e), guard absent or stale ErrInvalidTxnState
//	D4   e < E.epoch                                                ErrInvalidProducerEpoch
//	D5   verified under transactions v2, E without batches, s ≠ 0   ErrOutOfOrderSequence
//	D6   id unknown, verification saw a lower sequence of e         ErrOutOfOrderSequence
//	D7   id unknown, partition never held a record, s ≠ 0           ErrOutOfOrderSequence
//	D8   e ≠ E.epoch ≠ −1, s ≠ 0                                    ErrOutOfOrderSequence
//	D9   e ≠ E.epoch otherwise                                      accept
//	D10  e = E.epoch, s does not follow the last sequence           ErrOutOfOrderSequence,
//	     or, if all of it lies at or below that                     ErrDuplicateSequence
//	D11  e = E.epoch, in sequence                                   accept
//	D12  accepted, a transaction open, batch not transactional      ErrInvalidTxnState
//	D13  accepted, none open, batch transactional                   begins one
//
// Batches of the coordinator (offset commits) pass D2–D4, D12 and D13 only.
// Markers of a coordinator:
//
//	M1  control batch without a marker                    accept, no effect
//	M2  epoch < E.epoch                                   ErrInvalidProducerEpoch
//	M3  transactions v2, epoch = E.epoch: one open        ErrInvalidProducerEpoch
//	                                      none open       DoneMarker: a retry, answer success, append nothing
//	M4  coordinator epoch < E's                           ErrCoordinatorFenced
//	M5  otherwise                                         accept
//
// A marker under the older rules may carry the epoch of the open transaction;
// it is also how a hanging transaction is ended by hand.
//
// The replica's door accepts everything, and so do recovery and loading: the
// leader has decided, and a log that Kafka stored must load. Two consequences
// are chosen on purpose. An epoch lower than the entry's takes the entry down
// with it: a leader that had forgotten an expired producer accepted that
// batch, and whoever replays the log must be able to continue where it ended,
// not fence a producer that the leader serves. A batch that is not
// transactional inside an open transaction of its producer, on which Kafka
// refuses to load the log, moves the sequence and leaves the transaction open.
//
// # Where it differs from Kafka 4.1
//
// Rules D2, D5, D7 and M3 are those of later versions. The lowest sequence of a
// verification (D6) counts only while the id is unknown, and for its own epoch:
// otherwise D8 and D10 know what is due, and what was verified and refused, or
// was a retry, would bar the right batch. A retry older than the five batches
// has an error of its own, which wraps the one that Kafka answers. Producers
// expire by the time of the append, not by the time in their records.
//
// # Memory
//
// A producer costs 80 bytes in a dense array of blocks, 104 more from a pool
// once it has sent a second batch, and about 11 bytes of index.
package producerstate
