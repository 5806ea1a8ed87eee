// Package tail is the memory where appends land: the newest bytes of a segment,
// readable at once, written into the segment's file later and in large pieces.
//
// A Tail lies over the file of one segment and is a vfs.File for readers. Its
// memory comes in chunks from a Source: a Pool of plain memory, for logs whose
// appends a journal makes safe; or Slots of one mapped file, whose content
// survives the end of the process and is found by ReadSlots.
//
// Promised: what Put returned from is read by every ReadAt that begins later,
// from memory or file, whatever is written back or dropped meanwhile; after a
// WriteBack without error, what lay below its limit is in the file; after the
// end of the process at any instruction ReadSlots gives, for each slot, exactly
// the batches that were published and not yet drained, or one more that was on
// its way; after a power loss a part of them from the front, and never a batch
// of another partition or of an earlier use.
//
// Left to others: what is durable, when to write back and up to where, whether
// what a slot holds continues a segment, and to bound readers by what is
// published.
//
// Concurrency: see Tail. Put, ReadAt and WriteBack take no lock and allocate
// nothing; a leaf lock is taken once for each chunk and its end.
//
// # The file of Slots
//
// All numbers are little endian.
//
//	0        4096         4096 + slot size
//	+--------+------------+------------+-----+
//	| header | slot 0     | slot 1     | ... |
//	+--------+------------+------------+-----+
//
//	a slot: 1024           2048           4096                            end
//	+-------+------+-------+------+-------+-------------+-------+---------+
//	| header| ...  | publi-| ...  | header| batches     |   ... |   descr.|
//	| copy A|      | shed  |      | copy B| as stored ->|       |<- 2 1 0 |
//	+-------+------+-------+------+-------+-------------+-------+---------+
//
// header.go and descriptor.go draw the rest. Put copies a batch, then writes its
// descriptor, then stores the published word: count and bytes in one, so that
// they cannot disagree. The word is believed within one boot of the machine. After
// a power loss any page may be older than any other, and some may be of an earlier
// use of the slot: there a batch counts if its own checksum is right, its
// descriptor has the generation in the header and fits the batch and its
// place, and the same holds for all before it. Two uses of a slot never have the
// same generation.
//
// A slot is freed by a header without generation, in memory only. So a power loss
// may bring back batches that were drained before: they are still genuine and
// still stand where the segment has them. Only a truncation makes them wrong, and
// before it is answered Slots.Settle makes the headers durable.
package tail
