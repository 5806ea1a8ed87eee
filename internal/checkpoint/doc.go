// Package checkpoint reads and writes the small text files that Kafka keeps
// beside its logs: what they say, byte for byte.
//
//	recovery-point-offset-checkpoint   offsets below are synced          ReadOffsets
//	log-start-offset-checkpoint        first offset of the partition     ReadOffsets
//	replication-offset-checkpoint      high watermark                    ReadOffsets
//	cleaner-offset-checkpoint          first offset not compacted yet    ReadOffsets
//	leader-epoch-checkpoint            start offset of each epoch        ReadEpochs
//	partition.metadata                 id of the topic                   ReadPartitionMetadata
//	.kafka_cleanshutdown               mark of a clean stop              ReadCleanShutdown
//	meta.properties                    identity of the node              ReadMeta
//
// The first five are lines of UTF-8, each ended by a newline: the version (0),
// the number of entries, one entry a line, its fields set apart by one space:
//
//	0
//	2
//	orders 0 4711
//	orders 1 0
//
// A file of zero bytes has no entries; Kafka makes such a file when it finds
// none.
//
// Everything is bytes in, values out and back: the package opens no file. Who
// writes one puts it in place with vfs.Replace, so that a crash leaves the old
// or the new content. All functions are safe for concurrent use and keep no
// reference to their arguments. Bytes that are not such a file give a
// *FormatError with the line; memory is taken for entries that are there, not
// for the number the file claims.
package checkpoint
