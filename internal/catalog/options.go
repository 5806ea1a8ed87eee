package catalog

import (
	"log/slog"
	"runtime"
	"time"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// Defaults of Options.
const (
	DefaultCheckpointInterval = 30 * time.Second
	DefaultCheckpointBytes    = 64 << 20
	DefaultRetentionInterval  = 5 * time.Minute
	DefaultExpiryInterval     = 10 * time.Minute
	DefaultMemoryBytes        = 64 << 20 // of memory, journal and tail each
)

// Options open a catalog.
type Options struct {
	Dir string
	// Log is what every log gets: FS, Files, Now, Logger. The rest is set here.
	Log      log.Options
	ReadOnly bool

	Durability         log.Durability // of topics that say nothing else; 0: DurabilityFsync
	SegmentBytes       int64          // likewise; 0: log's default
	ProducerExpiration time.Duration
	ProducersMax       int // a partition; 0: no limit

	// Direct says that appends go straight into the segments, without journal
	// and mapped tail.
	Direct bool
	// AcceptForeign sets journal, rescue and tail aside, as a whole, if another
	// program wrote into a log after a crash, where they say that ours is.
	AcceptForeign bool
	MemoryBytes   int64 // plain memory for appends at DurabilityFsync; 0: 64 MiB
	JournalBytes  int64 // of the commit journal; 0: 64 MiB
	TailBytes     int64 // of the mapped tail; 0: 64 MiB

	Parallelism        int           // logs that are opened, recovered or closed at once; 0: twice the processors, at least 4
	CheckpointInterval time.Duration // 0: 30 s
	CheckpointBytes    int64         // of a partition, that make a checkpoint due before; 0: 64 MiB
	RetentionInterval  time.Duration // 0: 5 min
	ExpiryInterval     time.Duration // of producers; 0: 10 min
	// Manual says that nothing happens by itself or side by side: Work and
	// Checkpoint do what is due. It is for simulations.
	Manual       bool
	machineClock bool
	Events       func(Event) // may be nil; must not change the catalog: changeMu may be held
}

func (o Options) withDefaults() Options {
	if o.Log.FS == nil {
		o.Log.FS = vfs.Machine()
	}
	if o.Log.Now == nil {
		o.Log.Now, o.machineClock = time.Now, !o.Manual
	}
	if o.Log.Logger == nil {
		o.Log.Logger = slog.New(slog.DiscardHandler)
	}
	for _, n := range []*int64{&o.MemoryBytes, &o.JournalBytes, &o.TailBytes} {
		if *n == 0 {
			*n = DefaultMemoryBytes
		}
	}
	if o.Manual {
		o.Parallelism = 1
	}
	if o.Parallelism == 0 {
		o.Parallelism = max(2*runtime.GOMAXPROCS(0), 4)
	}
	if o.CheckpointInterval == 0 {
		o.CheckpointInterval = DefaultCheckpointInterval
	}
	if o.CheckpointBytes == 0 {
		o.CheckpointBytes = DefaultCheckpointBytes
	}
	if o.RetentionInterval == 0 {
		o.RetentionInterval = DefaultRetentionInterval
	}
	if o.ExpiryInterval == 0 {
		o.ExpiryInterval = DefaultExpiryInterval
	}
	return o
}
