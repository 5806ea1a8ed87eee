package oncelog

import (
	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// What a store refuses or reports: the same values as in the packages that
// detect it, so errors.Is finds either name. Errors of a batch itself are those
// of package batch.
var (
	ErrClosed           = log.ErrClosed                         // the store or partition is closed, or the topic deleted
	ErrReadOnly         = log.ErrReadOnly                       // opened read-only
	ErrLocked           = vfs.ErrLocked                         // another process has the directory open
	ErrNewerFormat      = catalog.ErrNewerFormat                // written by a newer version
	ErrManifest         = catalog.ErrManifest                   // the manifest is damaged
	ErrUnknownPartition = catalog.ErrUnknownPartition           // no such topic or partition
	ErrPartitionMissing = catalog.ErrPartitionMissing           // the directory of a partition is gone
	ErrTopicExists      = catalog.ErrTopicExists                // the name is taken
	ErrInvalidTopicName = topic.ErrInvalidName                  // Kafka would not take the name
	ErrInvalidConfig    = catalog.ErrInvalidConfig              // a topic configuration contradicts itself
	ErrInternalTopic    = catalog.ErrInternalTopic              // one of Kafka's own topics
	ErrUnexpectedEnd    = log.ErrUnexpectedEnd                  // see *UnexpectedEndError
	ErrOffsetOutOfRange = log.ErrOffsetOutOfRange               // see *OffsetError
	ErrOutcomeUnknown   = log.ErrOutcomeUnknown                 // the wait ended early: stored or not; of a change of topics: made or not
	ErrTruncated        = log.ErrTruncated                      // the log was truncated below the append while it waited
	ErrJournalMissing   = catalog.ErrJournalMissing             // the commit journal is gone
	ErrTailMissing      = catalog.ErrTailMissing                // the mapped tail is gone
	ErrJournalDamaged   = journal.ErrDamaged                    // the commit journal or rescue file is damaged where it was durable
	ErrLatched          = log.ErrLatched                        // an I/O error ended appends; Reopen
	ErrNoSpace          = log.ErrNoSpace                        // the device is full; try again later
	ErrCorrupt          = log.ErrCorrupt                        // see *CorruptionError
	ErrBatchTooLarge    = log.ErrBatchTooLarge                  // larger than a segment may be
	ErrOutOfOrder       = producerstate.ErrOutOfOrderSequence   // a batch of the producer is missing before this one
	ErrDuplicate        = producerstate.ErrDuplicateSequence    // stored before, further back than is remembered
	ErrFenced           = producerstate.ErrInvalidProducerEpoch // a newer instance of the producer has written
	ErrTxnState         = producerstate.ErrInvalidTxnState      // the batch does not fit the state of its transaction

	ErrCoordinatorFenced = producerstate.ErrCoordinatorFenced // a marker of a coordinator that a newer one has replaced
)

// UnexpectedEndError tells where a partition ends instead of where an append expected.
// It is an ErrUnexpectedEnd.
type UnexpectedEndError = log.UnexpectedEndError

// OffsetError tells what a partition holds. It is an ErrOffsetOutOfRange.
type OffsetError = log.OffsetError

// ForeignWriterError tells where another program wrote after a crash of ours.
type ForeignWriterError = log.ForeignWriterError

// TailError tells what of the mapped tail is damaged.
type TailError = tail.SlotError

// CorruptionError tells where a partition is damaged. It is an ErrCorrupt.
type CorruptionError = log.CorruptionError

// SequenceError tells which sequence of a producer was due. It is an
// ErrOutOfOrder or ErrDuplicate.
type SequenceError = producerstate.SequenceError

// EpochError tells which epoch of a producer a partition knows. It is an
// ErrFenced.
type EpochError = producerstate.EpochError

// ManifestError tells what is wrong with the manifest of a directory. It is an
// ErrManifest.
type ManifestError = catalog.ManifestError
