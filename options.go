package oncelog

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// Durability says what an acknowledgement of an append promises.
type Durability = log.Durability

// The levels; greater is stronger.
const (
	DurabilityDefault = log.DurabilityDefault // of the topic, the store, and at last DurabilityFsync
	DurabilityOS      = log.DurabilityOS      // survives the death of the process
	DurabilityFsync   = log.DurabilityFsync   // survives power loss
)

// FS is where files live: the machine's, one in memory, or one that a test
// makes fail.
type FS = vfs.FS

// MemFS is a file system in memory. It knows what is durable: KillClone gives
// what the death of the process would leave, CrashClone what a power loss.
type MemFS = vfs.Mem

// NewMemFS makes an empty one, for tests and examples.
func NewMemFS() *MemFS { return vfs.NewMem() }

// Options configures a Store. The zero value is ready to use.
type Options struct {
	Durability   Durability // when an append is acknowledged, of topics that say nothing else; 0: DurabilityFsync
	SegmentBytes int64      // a segment is sealed rather than grow beyond, likewise; 0: 1 GiB

	ReadOnly bool // never writes, takes no lock; opens live, crashed and foreign directories as they are

	// Appends land in memory: at DurabilityFsync in plain memory, from which the
	// commit journal takes them, at DurabilityOS in the mapped tail, which
	// outlives the process. Both files are made with the first append that needs
	// them and are gone after a clean Close.
	MemoryBytes  int64 // plain memory, of all partitions; appends wait when it is used up; 0: 64 MiB
	JournalBytes int64 // size of the commit journal; 0: 64 MiB
	TailBytes    int64 // size of the mapped tail; appends that find no room in it go straight into the segments; 0: 64 MiB
	Direct       bool  // no memory, journal or tail: every append is a write into its segment, every flush the partition's own

	// AcceptForeign has Open go on where it would answer a *ForeignWriterError:
	// another program wrote into a log after our crash, where journal or tail say
	// that ours is. These are set aside then, as a whole (oncelog.*.kept): what only
	// they held is not in the logs any more. Transactions that were open stay so
	// until a coordinator ends them.
	AcceptForeign bool

	RecoveryParallelism int           // partitions opened, recovered or closed at once; 0: twice the processors, at least 4
	OpenSegmentsMax     int           // sealed segments kept open, each with up to 4 descriptors and mappings; 0: 1024
	CheckpointInterval  time.Duration // how long appends wait for a checkpoint, which bounds recovery; 0: 30 s
	CheckpointBytes     int64         // appended to a partition, that make its checkpoint due before; 0: 64 MiB
	RetentionInterval   time.Duration // between two rounds of retention; 0: 5 min
	ProducerExpiration  time.Duration // an idle producer's state is forgotten; 0: 24 h
	OffsetsRetention    time.Duration // what a group without members committed is forgotten; 0: 7 days
	ProducersMax        int           // producers remembered by a partition, the idlest go first; 0: no limit

	// Transactions are the options of the coordinator. ReadOnly leaves all to one
	// elsewhere: this store neither ends nor begins transactions. Torn is set by Open,
	// and Now if it is nil.
	Transactions TransactionOptions

	Now    func() time.Time // the clock of append times, retention and expiry; nil: time.Now
	FS     FS               // nil: the machine's
	Logger *slog.Logger     // nil: silence
	Events func(Event)      // nil: none; must not wait for or change the store (topics, Reopen, Close)
}

// The least that works at all: a few of the largest batches that land in memory,
// and a few slots.
const (
	memoryBytesMin = 2 << 20
	tailBytesMin   = 256 << 10
)

// openSegmentsDefault is the default of Options.OpenSegmentsMax.
const openSegmentsDefault = 1024

// ErrInvalidOptions: an option cannot be; the text says which, and what can.
var ErrInvalidOptions = errors.New("oncelog: invalid options")

func (o Options) withDefaults() Options {
	if o.OpenSegmentsMax == 0 {
		o.OpenSegmentsMax = openSegmentsDefault
	}
	return o
}

func (o Options) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalidOptions}, args...)...)
	}
	switch {
	case o.Durability > DurabilityFsync:
		return bad("Durability is %d, want DurabilityFsync or DurabilityOS", o.Durability)
	case o.SegmentBytes != 0 && (o.SegmentBytes < catalog.SegmentBytesMin || o.SegmentBytes > log.SegmentBytesLimit):
		return bad("SegmentBytes is %d, want 0 (1 GiB) or %d to %d", o.SegmentBytes, catalog.SegmentBytesMin, log.SegmentBytesLimit)
	case o.MemoryBytes != 0 && o.MemoryBytes < memoryBytesMin:
		return bad("MemoryBytes is %d, want 0 (64 MiB) or at least %d", o.MemoryBytes, memoryBytesMin)
	case o.JournalBytes != 0 && o.JournalBytes < journal.BytesMin:
		return bad("JournalBytes is %d, want 0 (64 MiB) or at least %d: each half must hold four of the largest batches that go through it", o.JournalBytes, journal.BytesMin)
	case o.TailBytes != 0 && o.TailBytes < tailBytesMin:
		return bad("TailBytes is %d, want 0 (64 MiB) or at least %d", o.TailBytes, tailBytesMin)
	case o.Direct && (o.MemoryBytes != 0 || o.JournalBytes != 0 || o.TailBytes != 0):
		return bad("Direct is set, and so is MemoryBytes, JournalBytes or TailBytes, which it leaves unused")
	case o.RecoveryParallelism < 0:
		return bad("RecoveryParallelism is %d, want 0 (default) or more", o.RecoveryParallelism)
	case o.OpenSegmentsMax < 0:
		return bad("OpenSegmentsMax is %d, want 0 (%d) or more", o.OpenSegmentsMax, openSegmentsDefault)
	case o.CheckpointInterval < 0 || o.CheckpointBytes < 0:
		return bad("CheckpointInterval is %v, CheckpointBytes %d, want 0 (default) or more", o.CheckpointInterval, o.CheckpointBytes)
	case o.OffsetsRetention < 0:
		return bad("OffsetsRetention is %v, want 0 (7 days) or more", o.OffsetsRetention)
	case o.RetentionInterval < 0 || o.ProducerExpiration < 0:
		return bad("RetentionInterval is %v, ProducerExpiration %v, want 0 (default) or more", o.RetentionInterval, o.ProducerExpiration)
	case o.ProducersMax < 0:
		return bad("ProducersMax is %d, want 0 (no limit) or more", o.ProducersMax)
	}
	return nil
}

// catalog are the options of what is below.
func (o Options) catalog(dir string, files *segment.Files) catalog.Options {
	return catalog.Options{
		Dir:      dir,
		Log:      log.Options{FS: o.FS, Files: files, Now: o.Now, Logger: o.Logger},
		ReadOnly: o.ReadOnly, Durability: o.Durability, SegmentBytes: o.SegmentBytes,
		ProducerExpiration: o.ProducerExpiration, ProducersMax: o.ProducersMax,
		Direct: o.Direct, AcceptForeign: o.AcceptForeign, MemoryBytes: o.MemoryBytes, JournalBytes: o.JournalBytes, TailBytes: o.TailBytes,
		Parallelism: o.RecoveryParallelism, CheckpointInterval: o.CheckpointInterval, CheckpointBytes: o.CheckpointBytes,
		RetentionInterval: o.RetentionInterval, Events: o.Events,
	}
}
