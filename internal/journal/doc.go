// Package journal makes appends at level fsync survive: one file for all logs
// of a store, one flush for everything that waits in any of them.
//
// # Promise
//
// A log tells what it publishes to the publish queue (Handle.Publish), before
// its readers see it. The flusher of the moment takes entries from the front
// of the queue, writes them as one run and syncs once. A run counts whole or
// not at all, and none counts without the one before it: what Read finds after
// a crash at any moment is a literal prefix of the queue, of the whole store,
// and holds everything that Member.Durable was called for. So nothing survives
// that was published after something that is lost.
//
// Left to others: writing the bytes into segments (log), saying when that is
// durable (Free), and what a frame of an unknown topic means (recovery).
//
// # Layout
//
// The file oncelog.journal keeps its length: it is written once with zeros, so
// that a run overwrites written extents and its flush changes no metadata.
// Blocks have 4 KiB; numbers are little-endian.
//
//	block 0   header, first copy      ┐ written and synced one after the
//	block 1   header, second copy     ┘ other: one is always whole
//	half 0    runs, each at a block boundary
//	half 1    runs
//
//	header    "oncelog journal\0", version u32, half that is first u32,
//	          write number of the header u64, session u64, bytes of a half u64,
//	          sequence of the first run u64, chain before it u64,
//	          number of runs u64 (rescue file only), store 16 B, zeros,
//	          at 4088 xxhash64 of the 4088 bytes before it
//	run       header 64 B, frame headers 72 B each, the bytes of the frames in
//	          the same order, xxhash64 of all of it u64, zeros to the boundary
//	run head  "oncerun1", session u64, sequence u64, chain u64 (the xxhash64
//	          that ends the run before), size u64 (without the zeros), position
//	          in the file u64, frames u32, zero u32, xxhash64 of these 56 bytes
//	frame     topic 16 B, partition u32, kind u8, zeros 3 B, segment u64,
//	          position u64, length u64, first offset u64, next offset u64,
//	          CRC u32, zeros u32
//
// A run belongs if session, sequence, chain and position are the expected
// ones: bytes of an earlier session or of an earlier pass over a half never
// do. Runs fill one half, then the other; a half is used again once Free has
// made the header durable that says so, in both copies. A run is never split.
//
// # Flushing
//
// See Journal. Lock order: flushMu, then mu, which is a leaf. Members are
// called with flushMu held.
package journal
