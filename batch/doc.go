// Package batch turns the bytes of a Kafka record batch (magic 2) into meaning
// and back: it finds and checks batches, walks their records, builds new ones,
// and reads and writes the control records that end a transaction. It knows
// the five codecs. Batches of magic 0 and 1 are recognised and refused.
//
// # What it promises
//
// A Batch is a view: the bytes stay where they are, accessors decode in place,
// and keys and values alias the batch (or, if it is compressed, a buffer that
// its Records hold). Parsing, checking, validating, iterating and building
// allocate nothing in steady state.
//
// Bad bytes give an error, never a panic, and never memory sized by a number
// that the bytes claim: what is allocated follows what was really there, or
// really came out of a codec, up to a limit that the caller sets.
//
// There are two levels of strictness. Check is for bytes that some leader
// stored already (a replica's append, recovery, reading): framing and checksum
// only, because Kafka keeps batches that we would not take. Rules.Validate is
// the door of a leader for a batch fresh from a client: everything Kafka
// refuses there is refused, and some of what Kafka lets pass to the harm of
// consumers. What is stricter than Kafka is listed at Rules.
//
// # What it leaves to others
//
// Whether a batch may be appended now: sequences, epochs and transactions are
// decided in producerstate. Offsets and leader epochs are given by the log
// (Batch.Stamp). Recompression to a topic's own codec is made of Records and
// Builder by whoever wants it.
//
// # Concurrency
//
// Functions and the methods of Batch and Rules may be called from any
// goroutine; Stamp and SetMaxTimestamp write to the batch. A Records or a
// Builder belongs to one goroutine at a time.
//
// # Bytes
//
// The header is drawn in header.go. Behind it stand the records, compressed as
// a whole if the attributes name a codec:
//
//	length  attributes  timestamp  offset  key     key  value   value  header  headers
//	varint  int8 = 0    delta      delta   length       length         count
//	                    varlong    varint  varint       varint         varint
//
// and each of its headers as
//
//	key length  key  value length  value
//	varint           varint
//
// A varint is zig-zag mapped and written in groups of 7 bits, low group first,
// in at most 5 bytes (a varlong: 10). Length −1 stands for null. The length of
// a record counts what follows it.
package batch
