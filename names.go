package oncelog

import (
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/vfs"
)

// The names of what a partition's log (package log) answers and takes.
type (
	// Guard lets a transactional batch begin a transaction in a partition; from
	// Log.Guard, for AppendOptions.Guard. It is worth nothing after Reopen and in
	// another partition; zero is none.
	Guard = producerstate.Guard

	// ProducerInfo is what a partition remembers of a producer: Log.Producers.
	ProducerInfo = producerstate.Info

	// OngoingTxn is a transaction that no marker has ended yet: Log.Ongoing.
	OngoingTxn = producerstate.OngoingTxn

	// EpochEntry tells at which offset a leader epoch begins: Log.Epochs.
	EpochEntry = checkpoint.EpochEntry

	// TopicID is the id that a topic has once and for all: TopicInfo.ID. Its
	// String is how Kafka writes it; zero is none.
	TopicID = checkpoint.TopicID
)

// The names of what a file system gives and takes, for whoever writes an FS.
type (
	// File is one open file.
	File = vfs.File

	// Mapping is a shared mapping of the head of a file.
	Mapping = vfs.Mapping

	// Place is what a directory lies on.
	Place = vfs.Place

	// PlaceKind says what a file system does with mappings and power loss.
	PlaceKind = vfs.PlaceKind

	// CrashOptions says what of a MemFS survives a power loss, of all that was
	// not synced: MemFS.CrashClone. The zero value loses all of it.
	CrashOptions = vfs.CrashOptions
)

// Kinds of places.
const (
	PlaceDisk     = vfs.PlaceDisk     // local
	PlaceVolatile = vfs.PlaceVolatile // in memory, or gone with its container
	PlaceRemote   = vfs.PlaceRemote   // over a network or in user space: no mappings are used
)
