package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
)

// Workload names what Run does.
type Workload string

// The workloads.
const (
	Append   Workload = "append"   // append batches
	Read     Workload = "read"     // read sequentially, checksums verified
	Dedup    Workload = "dedup"    // many idempotent producers, and duplicates
	Aborted  Workload = "aborted"  // read_committed behind aborted transactions
	Recovery Workload = "recovery" // open after kill -9 and after power loss
	Limits   Workload = "limits"   // what the machine can do, without the engine and with it
)

// workloads are all of them.
var workloads = []Workload{Append, Read, Dedup, Aborted, Recovery, Limits}

// ProducerKind says who appends.
type ProducerKind string

// Kinds of producers.
const (
	Plain      ProducerKind = "plain"      // no producer id
	Idempotent ProducerKind = "idempotent" // one producer a writer and partition, with sequences
)

// FileState says what is appended to.
type FileState string

// States of files.
const (
	Written FileState = "written" // one store, and raw files, that were written before
	Fresh   FileState = "fresh"   // each round begins with a new store, and new raw files
)

// CacheState says where what is read lies.
type CacheState string

// States of the page cache.
const (
	Warm CacheState = "warm" // in the page cache
	Cold CacheState = "cold" // dropped from it before each round
)

// Config is one workload. The zero value of a field is its default; Normalize
// fills them in. What is not named for a workload does not matter to it.
type Config struct {
	Workload Workload `json:"workload"`

	RecordBytes     int          `json:"record_bytes"`      // value of a record; 0: 1 KiB
	RecordsPerBatch int          `json:"records_per_batch"` // 0: 1
	Writers         int          `json:"writers"`           // goroutines that append, or read; 0: 1
	Partitions      int          `json:"partitions"`        // 0: 1
	Level           string       `json:"level"`             // os or fsync; "": fsync, for read, aborted and dedup os
	Producer        ProducerKind `json:"producer"`          // "": idempotent
	Files           FileState    `json:"files"`             // "": written
	Cache           CacheState   `json:"cache"`             // "": warm
	SegmentBytes    int64        `json:"segment_bytes"`     // 0: 64 MiB
	Direct          bool         `json:"direct"`            // the store has no mapped tail and no journal

	// Rate is how many appends are due in a second, over all writers; 0: closed
	// loop.
	Rate float64 `json:"rate"`
	// Timed takes the time of each append also where that would cost much of
	// it: closed loop at level os.
	Timed bool `json:"timed"`
	// Burst is how many bytes are appended until the clock stands still and
	// what was appended is flushed; 0: sustained. For closed loops.
	Burst int64 `json:"burst"`
	// FlushEvery flushes the store in this interval beside the appends; 0: no.
	FlushEvery time.Duration `json:"flush_every_ns"`

	Producers    int  `json:"producers,omitempty"`    // dedup: producers in turn; 0: 1000
	Transactions int  `json:"transactions,omitempty"` // aborted: before what is read; 0: 10 000
	Long         bool `json:"long,omitempty"`         // aborted: and one that spans them all

	Rounds int           `json:"rounds"`      // 0: 5
	Warmup time.Duration `json:"warmup_ns"`   // of each side; 0: 200 ms
	Length time.Duration `json:"length_ns"`   // of a round; 0: 1 s
	Bytes  int64         `json:"round_bytes"` // and it ends with this many; of read, aborted and recovery what is written first; 0: 256 MiB

	Limits bool `json:"limits"` // measure the references that belong to it, in turn with it

	// Crash fills a store at the directory by Fill and dies as by kill -9, in
	// another process; for recovery. nil: the files of an open store are copied.
	Crash func(ctx context.Context, dir string, c Config) error `json:"-"`
	// AfterPowerLoss is the machine's file system as it is after another boot;
	// nil: as FS.
	AfterPowerLoss oncelog.FS `json:"-"`

	FS       oncelog.FS   `json:"-"` // of the store; nil: the machine's. References are always on the machine's
	Progress func(string) `json:"-"` // told of each round; nil: nobody. Must not wait
}

// ErrInvalidConfig: a workload cannot be; the text says what to change.
var ErrInvalidConfig = errors.New("bench: invalid configuration")

// Bounds of a configuration.
const (
	recordBytesMax  = 768 << 10 // with its header within a batch of 1 MiB
	batchBytesMax   = 1 << 20
	writersMax      = 4096
	partitionsMax   = 100_000
	producersMax    = 10_000_000
	transactionsMax = 10_000_000
	roundsMax       = 1000
)

// Normalize fills the defaults in and checks. It answers ErrInvalidConfig.
func (c Config) Normalize() (Config, error) {
	c = c.withDefaults()
	return c, c.validate()
}

func (c Config) withDefaults() Config {
	setDefault(&c.RecordBytes, 1<<10)
	setDefault(&c.RecordsPerBatch, 1)
	setDefault(&c.Writers, 1)
	setDefault(&c.Partitions, 1)
	switch c.Workload {
	case Read, Aborted, Dedup, Limits:
		setDefault(&c.Level, "os")
	default:
		setDefault(&c.Level, "fsync")
	}
	setDefault(&c.Producer, Idempotent)
	setDefault(&c.Files, Written)
	setDefault(&c.Cache, Warm)
	setDefault(&c.SegmentBytes, 64<<20)
	if c.Workload == Dedup {
		setDefault(&c.Producers, 1000)
	}
	if c.Workload == Aborted {
		setDefault(&c.Transactions, 10_000)
	}
	setDefault(&c.Rounds, 5)
	setDefault(&c.Warmup, 200*time.Millisecond)
	setDefault(&c.Length, time.Second)
	setDefault(&c.Bytes, 256<<20)
	c.Timed = c.Timed || c.Rate > 0 || c.Level == "fsync"
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	known := false
	for _, w := range workloads {
		known = known || w == c.Workload
	}
	if !known {
		return fmt.Errorf("%w: workload %q is unknown, want one of %v", ErrInvalidConfig, c.Workload, workloads)
	}
	for _, f := range []struct {
		name       string
		value      int64
		least, top int64
	}{
		{"record size", int64(c.RecordBytes), 1, recordBytesMax},
		{"records a batch", int64(c.RecordsPerBatch), 1, batchBytesMax},
		{"batch size", int64(c.RecordBytes) * int64(c.RecordsPerBatch), 1, recordBytesMax},
		{"writers", int64(c.Writers), 1, writersMax},
		{"partitions", int64(c.Partitions), 1, partitionsMax},
		{"segment size", c.SegmentBytes, 1 << 20, 1 << 30},
		{"burst", c.Burst, 0, 64 << 20},
		{"producers", int64(c.Producers), 0, producersMax},
		{"transactions", int64(c.Transactions), 0, transactionsMax},
		{"rounds", int64(c.Rounds), 1, roundsMax},
		{"warm-up", int64(c.Warmup), 0, int64(time.Hour)},
		{"length of a round", int64(c.Length), 1, int64(24 * time.Hour)},
		{"bytes a round", c.Bytes, 1, 1 << 60},
		{"interval of flushes", int64(c.FlushEvery), 0, int64(time.Hour)},
	} {
		if f.value < f.least || f.value > f.top {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrInvalidConfig, f.name, f.value, f.least, f.top)
		}
	}
	return c.validateKinds()
}

func (c *Config) validateKinds() error {
	switch {
	case c.Level != "os" && c.Level != "fsync":
		return fmt.Errorf("%w: level %q is unknown, want os or fsync", ErrInvalidConfig, c.Level)
	case c.Producer != Plain && c.Producer != Idempotent:
		return fmt.Errorf("%w: producer %q is unknown, want %s or %s", ErrInvalidConfig, c.Producer, Plain, Idempotent)
	case c.Files != Written && c.Files != Fresh:
		return fmt.Errorf("%w: file state %q is unknown, want %s or %s", ErrInvalidConfig, c.Files, Written, Fresh)
	case c.Cache != Warm && c.Cache != Cold:
		return fmt.Errorf("%w: cache state %q is unknown, want %s or %s", ErrInvalidConfig, c.Cache, Warm, Cold)
	case c.Cache == Cold && c.Workload != Read:
		return fmt.Errorf("%w: only read has a cold cache", ErrInvalidConfig)
	case c.Rate < 0 || c.Rate > 1e8:
		return fmt.Errorf("%w: rate is %g appends/s, want 0 (closed loop) to 1e8", ErrInvalidConfig, c.Rate)
	case c.Rate > 0 && (c.Workload != Append || c.Burst > 0):
		return fmt.Errorf("%w: a rate is for append, without bursts", ErrInvalidConfig)
	}
	return nil
}

func (c *Config) durability() oncelog.Durability {
	if c.Level == "os" {
		return oncelog.DurabilityOS
	}
	return oncelog.DurabilityFsync
}

// batchBytes is about the size of a batch.
func (c *Config) batchBytes() int64 {
	return batch.HeaderSize + int64(c.RecordsPerBatch)*(int64(c.RecordBytes)+8)
}

func (c *Config) tell(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// name is the name of a result in the form of Go's benchmarks, of all that can
// matter to the figure.
func (c *Config) name() string {
	n := fmt.Sprintf("%s/level=%s/size=%s/batch=%d/writers=%d/partitions=%d/producer=%s/files=%s",
		c.Workload, c.Level, SizeText(int64(c.RecordBytes)), c.RecordsPerBatch, c.Writers, c.Partitions, c.Producer, c.Files)
	if c.Direct {
		n += "/direct"
	}
	if c.Workload == Read {
		n += "/cache=" + string(c.Cache)
	}
	if c.Rate > 0 {
		n += fmt.Sprintf("/rate=%g", c.Rate)
	}
	if c.Timed {
		n += "/timed"
	}
	if c.Burst > 0 {
		n += "/burst=" + SizeText(c.Burst)
	}
	if c.FlushEvery > 0 {
		n += "/flush=" + c.FlushEvery.String()
	}
	if c.Workload == Dedup {
		n += fmt.Sprintf("/producers=%d", c.Producers)
	}
	if c.Workload == Aborted {
		n += fmt.Sprintf("/transactions=%d/long=%t", c.Transactions, c.Long)
	}
	return n
}

// SizeText is a number of bytes as people write it: exact if it is a whole
// number of KiB, MiB or GiB, and otherwise in bytes.
func SizeText(size int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if size >= 1<<u.shift && size%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d%s", size>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%dB", size)
}
