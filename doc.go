// Package oncelog is a storage engine for partitioned logs with exactly-once
// semantics, in Apache Kafka's own log directories: it reads what Kafka wrote,
// goes on with it, and hands it back.
//
// A Store is one data directory. Open opens it, CreateTopic makes topics,
// Append takes record batches (package batch builds them), Fetch answers them
// over several partitions at once. What concerns one partition has its door at
// the partition's log: Store.Partition gives it (package log).
//
// # What is promised
//
// At DurabilityFsync, the default, an append is acknowledged when it is on the
// device, and no reader sees it before. At DurabilityOS it is acknowledged
// when it is in the page cache: it survives the death of the process, not a
// power loss. A batch of an idempotent producer that was stored before is not
// stored again. A read_committed reader sees a transaction whole, in each
// partition, or not at all.
//
// Until recovery begins, a failed Open leaves the directory as it was; after
// that, as a crash in recovery would. Damage to what was durable once is never
// cut: that partition answers a *CorruptionError, the others serve. After a
// failed write or flush a partition takes no more appends until Reopen.
//
// Transactions over several partitions need a coordinator, which is not here
// yet: Append refuses transactional batches. The log of each partition takes
// them, with a guard, and the markers that end them.
//
// # Concurrency and memory
//
// All methods of a Store are safe for concurrent use. Byte slices passed in
// are not kept and not modified. What Fetch answers is valid until its Close.
// Events and clocks passed in Options are called from many goroutines.
package oncelog
