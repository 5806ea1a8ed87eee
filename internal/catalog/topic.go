package catalog

import (
	"cmp"
	"fmt"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Cleanup says what may be removed from a topic. Its zero value keeps
// everything.
type Cleanup uint8

const (
	// CleanupDelete removes old segments, by age and size.
	CleanupDelete Cleanup = 1 << iota
	// CleanupCompact lets records go whose key has a newer one. Records of such
	// a topic need keys. Nothing compacts yet: all of them stay.
	CleanupCompact
)

// String is Kafka's cleanup.policy; "" keeps everything.
func (c Cleanup) String() string { return cleanupNames[c&3] }

var cleanupNames = [...]string{"", "delete", "compact", "compact,delete"}

// PartitionsMax is how many partitions a topic may have.
const PartitionsMax = 100_000

// SegmentBytesMin is the least a segment may be told to hold: a batch with a
// small record, and the marker of a transaction.
const SegmentBytesMin = 256

// TopicConfig is the configuration of a topic. Its zero value is one partition
// with the store's defaults, from which nothing is ever removed.
type TopicConfig struct {
	Partitions         int                 // of a new topic; 0: 1
	Durability         log.Durability      // 0: the store's
	Cleanup            Cleanup             // 0: nothing is removed
	RetentionAge       time.Duration       // with CleanupDelete; 0: no limit
	RetentionBytes     int64               // of one partition, with CleanupDelete; 0: no limit
	SegmentBytes       int64               // a segment is sealed rather than grow beyond, and no append is larger; 0: the store's
	SegmentAge         time.Duration       // or be older; 0: 7 days
	BatchBytesMax      int                 // largest batch a client may append, at most SegmentBytes; 0: 1 MiB + 12, or what a segment holds
	Timestamps         batch.TimestampType // CreateTime or LogAppendTime
	TimestampBeforeMax time.Duration       // a record may be older than the clock by this; 0: any
	TimestampAfterMax  time.Duration       // or younger; 0: any
	IndexIntervalBytes int                 // of log between two index entries; 0: 4096
}

// Validate tells which field cannot be, and what to do.
func (t TopicConfig) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalidConfig}, args...)...)
	}
	switch {
	case t.Partitions < 0 || t.Partitions > PartitionsMax:
		return bad("Partitions is %d, want 0 (one) to %d", t.Partitions, PartitionsMax)
	case t.Durability > log.DurabilityFsync:
		return bad("Durability is %d, want DurabilityFsync or DurabilityOS", t.Durability)
	case t.Cleanup > CleanupDelete|CleanupCompact:
		return bad("Cleanup is %d, want CleanupDelete, CleanupCompact or both", t.Cleanup)
	case t.RetentionAge < 0 || t.RetentionBytes < 0:
		return bad("RetentionAge is %v, RetentionBytes %d; 0 means no limit", t.RetentionAge, t.RetentionBytes)
	case (t.RetentionAge > 0 || t.RetentionBytes > 0) && t.Cleanup&CleanupDelete == 0:
		return bad("retention is set, but Cleanup keeps everything: add CleanupDelete")
	case t.SegmentBytes != 0 && (t.SegmentBytes < SegmentBytesMin || t.SegmentBytes > log.SegmentBytesLimit):
		return bad("SegmentBytes is %d, want 0 (the store's) or %d to %d", t.SegmentBytes, SegmentBytesMin, log.SegmentBytesLimit)
	case t.SegmentAge < 0 || t.TimestampBeforeMax < 0 || t.TimestampAfterMax < 0:
		return bad("a duration is negative (SegmentAge %v, TimestampBeforeMax %v, TimestampAfterMax %v)", t.SegmentAge, t.TimestampBeforeMax, t.TimestampAfterMax)
	case t.BatchBytesMax < 0 || t.IndexIntervalBytes < 0:
		return bad("BatchBytesMax is %d, IndexIntervalBytes %d, want 0 (default) or more", t.BatchBytesMax, t.IndexIntervalBytes)
	case t.SegmentBytes != 0 && int64(t.BatchBytesMax) > t.SegmentBytes:
		return bad("BatchBytesMax is %d and SegmentBytes %d, but a batch has to fit into a segment: set SegmentBytes to %d or more, or BatchBytesMax to %d or less",
			t.BatchBytesMax, t.SegmentBytes, t.BatchBytesMax, t.SegmentBytes)
	case t.Timestamps != batch.CreateTime && t.Timestamps != batch.LogAppendTime:
		return bad("Timestamps is %d, want batch.CreateTime or batch.LogAppendTime", t.Timestamps)
	}
	return nil
}

// validate is the topic's Validate, and whether it goes with what it leaves to
// the store.
func (o *Options) validate(t TopicConfig) error {
	if t.SegmentBytes == 0 {
		t.SegmentBytes = cmp.Or(o.SegmentBytes, log.DefaultSegmentBytes)
	}
	return t.Validate()
}

// logConfig is what one partition of the topic works with. A topic without
// stored configuration is never trimmed and never compacted, but for the two
// internal topics, which are compacted.
func (o *Options) logConfig(name string, t *TopicConfig) log.Config {
	c := log.Config{
		Durability: o.Durability, SegmentBytes: o.SegmentBytes,
		ProducerExpiration: o.ProducerExpiration, ProducersMax: o.ProducersMax,
	}
	if t != nil {
		if t.Durability != log.DurabilityDefault {
			c.Durability = t.Durability
		}
		if t.SegmentBytes != 0 {
			c.SegmentBytes = t.SegmentBytes
		}
		c.SegmentAge, c.IndexIntervalBytes, c.BatchBytesMax = t.SegmentAge, t.IndexIntervalBytes, t.BatchBytesMax
		c.Timestamps, c.TimestampBeforeMax, c.TimestampAfterMax = t.Timestamps, t.TimestampBeforeMax, t.TimestampAfterMax
		c.Delete, c.Compact = t.Cleanup&CleanupDelete != 0, t.Cleanup&CleanupCompact != 0
		c.RetentionAge, c.RetentionBytes = t.RetentionAge, t.RetentionBytes
	}
	if (topic.Partition{Topic: name}).Internal() {
		c.Compact, c.Delete = true, false
	}
	return c
}

// TopicInfo describes a topic.
type TopicInfo struct {
	Name string
	ID   checkpoint.TopicID // zero if Kafka gave it none
	// Partitions are those that are here, ascending: all of a topic that was
	// made here, and of another those that Kafka had in this directory.
	Partitions []int32
	Config     TopicConfig // zero if none is stored
	Stored     bool        // a configuration is stored
	Foreign    bool        // the topic was found in the directory, not made here
}
