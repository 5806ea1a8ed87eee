package log

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/overlay"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// Durability says what an acknowledgement of an append promises. Greater is
// stronger.
type Durability uint8

const (
	// DurabilityDefault is that of the topic, and of a topic DurabilityFsync.
	DurabilityDefault Durability = iota
	// DurabilityOS: the append is written to the page cache. It survives the
	// death of the process, not a power loss.
	DurabilityOS
	// DurabilityFsync: the append is on the device. It survives power loss.
	DurabilityFsync
)

// String is the name used in configuration and reports.
func (d Durability) String() string {
	switch d {
	case DurabilityOS:
		return "os"
	case DurabilityFsync:
		return "fsync"
	default:
		return "default"
	}
}

// Defaults of Config, Kafka's.
const (
	DefaultSegmentBytes       = 1 << 30
	DefaultSegmentAge         = 7 * 24 * time.Hour
	DefaultIndexIntervalBytes = 4096
	DefaultIndexBytesMax      = 10 << 20
	DefaultProducerExpiration = 24 * time.Hour
	// SegmentBytesLimit is the most a segment may hold: positions in it are
	// 32 bits wide.
	SegmentBytesLimit = 1<<31 - 1
)

// Config is the configuration of a topic as far as one partition needs it. Its
// zero value takes every default; nothing is deleted until told.
type Config struct {
	Durability         Durability          // of an append that asks for none
	SegmentBytes       int64               // a segment is sealed rather than grow beyond; 0: 1 GiB
	SegmentAge         time.Duration       // between the first record of a segment and the one that rolls it; 0: 7 days
	IndexIntervalBytes int                 // of log between two index entries; 0: 4096
	IndexBytesMax      int                 // of an index file; a segment is sealed when one is full; 0: 10 MiB
	BatchBytesMax      int                 // largest batch a client may append; 0: 1 MiB + 12
	Timestamps         batch.TimestampType // CreateTime or LogAppendTime
	TimestampBeforeMax time.Duration       // a record may be older than the clock by this; 0: any
	TimestampAfterMax  time.Duration       // or younger; 0: any
	Delete             bool                // retention by age and size applies
	Compact            bool                // records need keys; only with Delete may records be deleted by offset
	RetentionAge       time.Duration       // with Delete; 0: no limit
	RetentionBytes     int64               // with Delete; 0: no limit
	ProducerExpiration time.Duration       // of idle producers' state; 0: 24 hours
	ProducersMax       int                 // producers remembered; the idlest go first; 0: no limit
}

func (c Config) withDefaults() Config {
	if c.Durability == DurabilityDefault {
		c.Durability = DurabilityFsync
	}
	c.SegmentBytes = orDefault(c.SegmentBytes, DefaultSegmentBytes)
	c.SegmentBytes = min(c.SegmentBytes, SegmentBytesLimit)
	c.SegmentAge = orDefault(c.SegmentAge, DefaultSegmentAge)
	c.IndexIntervalBytes = orDefault(c.IndexIntervalBytes, DefaultIndexIntervalBytes)
	c.IndexBytesMax = orDefault(c.IndexBytesMax, DefaultIndexBytesMax)
	c.BatchBytesMax = orDefault(c.BatchBytesMax, batch.DefaultSizeMax)
	c.ProducerExpiration = orDefault(c.ProducerExpiration, DefaultProducerExpiration)
	return c
}

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Points are the positions of a partition that are kept outside of its
// directory, in Kafka's checkpoint files.
type Points struct {
	RecoveryPoint int64 // offsets below are on the device
	LogStart      int64
	HighWatermark int64
}

// Checkpoints makes the points of a partition durable; package catalog does.
type Checkpoints interface {
	// Record returns once the points would survive a power loss.
	Record(ctx context.Context, p topic.Partition, points Points) error
}

// Options open one log.
type Options struct {
	FS        vfs.FS
	Dir       string // of the partition
	Partition topic.Partition
	Config    Config

	Clean  bool   // the log was closed cleanly: all of it is on the device
	Points Points // as last recorded; zero for a new log
	// OwnOnly says that every segment was written by this package and none
	// was compacted: offsets have no gaps, so a gap is damage.
	OwnOnly bool
	// Pieces is what the journal and the tail of the store hold of this log:
	// read as if it were in the files, and written there by Recover.
	Pieces []overlay.Piece
	// References are the large batches that the journal refers to: they were synced
	// in their segments before.
	References []Reference
	// Journaled says that after an unclean stop the journal alone decides: the
	// log ends at JournalEnd or the recovery point, whichever is behind, and
	// what lies above is cut even if it checks out.
	Journaled  bool
	JournalEnd int64
	// Replicated says that the high watermark is moved from outside, by
	// AdvanceHighWatermark, and starts at the recorded one.
	Replicated bool
	ReadOnly   bool

	Checkpoints Checkpoints    // nil: points are kept by the caller alone
	Workers     *Workers       // background work; nil: callers do it themselves
	Backing     Backing        // memory and journal; with Workers only; nil: appends go straight into the segments
	TopicID     [16]byte       // names the topic in what Backing stores
	Files       *segment.Files // nil: no limit on open segments
	Now         func() time.Time
	Logger      *slog.Logger
	Events      func(Event) // called with no lock held, perhaps a little later; nil: none
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Machine()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Config = o.Config.withDefaults()
	return o
}

// Reference is a large batch that the commit journal refers to.
type Reference struct {
	Segment int64 // base offset
	Pos     int64 // byte position
	First   int64 // base offset of the batch
	CRC     uint32
}
