// Package index holds the three indexes of one segment of a log: where an
// offset lies in the segment file (Offset), which offset a timestamp leads to
// (Time), and which transactions were aborted (Txn). Their bytes are Kafka's
// .index, .timeindex and .txnindex.
//
// # Forms
//
// Each index has two forms behind one type:
//
//   - The memory form (New…, Load…, Truncated) belongs to the active segment
//     and grows. Its entries lie in chunks of bytes without pointers, which the
//     garbage collector need not look into and which never move. The first
//     chunk is small and made by the first append, so that an idle partition
//     costs next to nothing.
//   - The sealed form (View…) reads the bytes of a finished file in place,
//     normally a read-only mapping. It copies nothing and refuses appends. The
//     caller keeps the bytes alive and unchanged as long as the view is in use.
//
// # Promises
//
// An entry, once appended, is never changed. What a lookup answers is an entry
// that was appended, or the start of the segment. Bad bytes are an error or
// are left out, never a panic, and memory is only taken for bytes that are
// there. Whether the entries are true of the log is for others to check: the
// indexes hold no checksum, and after a crash nothing of them above the
// recovery point is to be believed. Everything here can be rebuilt from the
// log.
//
// Files are not touched: bytes come in, and go out by AppendTo.
//
// # Concurrency
//
// One goroutine at a time appends; any number may read beside it, without a
// lock. A reader sees a prefix of the entries: all whose append returned
// before, perhaps more. Why that holds without a lock is told at type file.
//
// # Bytes
//
// Big-endian, no header, entries of one size back to back. An offset is stored
// relative to the base offset of the segment, but absolute in .txnindex.
//
//	.index      0         4         8
//	            +---------+---------+
//	            | offset  | pos in  |     offset: the last of the batch that
//	            | − base  | .log    |     starts at pos; both strictly increasing
//	            +---------+---------+
//
//	.timeindex  0                   8        12
//	            +-------------------+---------+
//	            | timestamp, ms     | offset  |   no record up to offset has a
//	            |                   | − base  |   larger timestamp; timestamps
//	            +-------------------+---------+   strictly increasing
//
//	.txnindex   0    2             10             18            26             34
//	            +----+-------------+--------------+-------------+--------------+
//	            | 0  | producer id | first offset | last offset | last stable  |
//	            +----+-------------+--------------+-------------+--------------+
//	            last offset: of the ABORT marker, strictly increasing; first
//	            offset: in no order; last stable: the last stable offset when
//	            the marker was appended, non-decreasing
//
// Kafka allocates .index and .timeindex ahead, so that a live or crashed file
// ends in zeros. The Load functions stop there; a view takes trimmed files.
package index
