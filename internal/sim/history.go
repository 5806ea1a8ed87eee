package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// Violation is what is wrong with the engine, by one history.
type Violation struct {
	Seed  uint64
	What  string
	Trace []string // what happened, if it was kept
}

func (v *Violation) Error() string {
	return fmt.Sprintf("sim: seed %d: %s", v.Seed, v.What)
}

// Counts are what histories were made of.
type Counts struct {
	Histories, Lives, Steps   int64
	Operations                int64 // of the file system
	Kills, Losses             int64 // of processes, of power
	InRecovery                int64 // of those: while opening
	Failures                  int64 // that came, of single operations
	Reopened                  int64 // partitions, after a failure
	Appends, Batches, Refused int64
	Duplicates, Checks        int64
	Large                     int64 // batches beside the journal
	Freed                     int64 // halves of journals
	Broken                    int64 // partitions that could not be written
	Foreign, Foreigners       int64 // logs that another program wrote to; of those: found out
}

func (c *Counts) add(o Counts) {
	c.Histories += o.Histories
	c.Lives += o.Lives
	c.Steps += o.Steps
	c.Operations += o.Operations
	c.Kills += o.Kills
	c.Losses += o.Losses
	c.InRecovery += o.InRecovery
	c.Failures += o.Failures
	c.Reopened += o.Reopened
	c.Appends += o.Appends
	c.Batches += o.Batches
	c.Refused += o.Refused
	c.Duplicates += o.Duplicates
	c.Checks += o.Checks
	c.Large += o.Large
	c.Freed += o.Freed
	c.Broken += o.Broken
	c.Foreign += o.Foreign
	c.Foreigners += o.Foreigners
}

// subject is one topic as the model knows it.
type subject struct {
	name   string
	config catalog.TopicConfig
	parts  []*partition
	// maybe says that it is being made or deleted and may be there or not.
	maybe bool
	// other is the configuration that a change under way gives.
	other *catalog.TopicConfig
}

// history is one history under way.
type history struct {
	seed  uint64
	rng   *rand.Rand
	now   int64 // ms
	disk  *disk
	open  opener
	sys   system
	trace []string
	keep  bool // the trace
	last  bool // this life
	// follows says that this life is to end in its opening.
	follows bool
	scene   scene
	order   closure
	// foreign is another program that worked before this life, nil if none.
	foreign *foreigner
	loss    loss // before this life
	topic   []*subject
	made    int // topics so far
	id      int // of the last batch
	build   batch.Builder
	count   Counts
	// failures is what count had when this life began.
	failures int64
	bare     bool
	full     bool // the disk is
	died     bool // the last life did not end by itself

	base int // operations of the disks before this one
}

// epochMillis is when histories begin.
const epochMillis = 1_700_000_000_000

func newHistory(seed uint64, keep bool) *history {
	h := &history{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x0ece)), now: epochMillis, keep: keep}
	mem := vfs.NewMem()
	h.disk = h.machine(mem)
	h.play(drawScene(h.rng))
	return h
}

// play sets the scene.
func (h *history) play(s scene) {
	h.scene, h.topic, h.bare = s, nil, s.bare
	h.open = storeOpener(s)
	if s.bare {
		h.openBare()
	}
}

// machine puts a file system under the engine.
func (h *history) machine(mem *vfs.Mem) *disk {
	return newDisk(mem, h.rng, func() int64 { return h.now })
}

func (h *history) clock() time.Time { return time.UnixMilli(h.now) }

func (h *history) chance(p float64) bool { return h.rng.Float64() < p }

// openBare makes the partitions of a history of bare logs.
func (h *history) openBare() {
	s := &subject{name: "bare"}
	configs := map[topic.Partition]log.Config{}
	var order []topic.Partition
	for i := range 1 + h.rng.IntN(2) {
		c := h.logConfig(h.topicConfig())
		p := newPartition(topic.Partition{Topic: s.name, Index: int32(i)}, c, true)
		configs[p.tp] = c
		order = append(order, p.tp)
		s.parts = append(s.parts, p)
	}
	h.topic = append(h.topic, s)
	h.open = bareOpener(order, configs)
}

// topicConfig draws a configuration: tiny segments, so that much happens.
func (h *history) topicConfig() catalog.TopicConfig {
	c := catalog.TopicConfig{
		Partitions: 1 + h.rng.IntN(2), Durability: log.DurabilityFsync,
		SegmentBytes:       []int64{1500, 4000, 12000, 60000}[h.rng.IntN(4)],
		IndexIntervalBytes: []int{1, 200, 4096}[h.rng.IntN(3)],
		Cleanup:            catalog.CleanupDelete,
	}
	if h.chance(0.4) {
		c.Durability = log.DurabilityOS
	}
	if h.chance(0.3) {
		c.RetentionBytes = int64(2000 + h.rng.IntN(10000))
	}
	if h.chance(0.3) {
		c.RetentionAge = time.Duration(1+h.rng.IntN(300)) * time.Second
	}
	if h.chance(0.2) {
		c.Timestamps = batch.LogAppendTime
	}
	if h.chance(0.2) {
		c.SegmentAge = time.Minute
	}
	return c
}

// logConfig is what the catalog makes of it.
func (h *history) logConfig(c catalog.TopicConfig) log.Config {
	return log.Config{
		Durability: c.Durability, SegmentBytes: c.SegmentBytes, SegmentAge: c.SegmentAge, IndexIntervalBytes: c.IndexIntervalBytes,
		Timestamps: c.Timestamps, Delete: true, RetentionAge: c.RetentionAge, RetentionBytes: c.RetentionBytes,
	}
}

// tell keeps a line of the trace.
func (h *history) tell(format string, args ...any) {
	if h.keep {
		line := fmt.Sprintf(format, args...)
		h.trace = append(h.trace, fmt.Sprintf("%6d  %s", h.disk.fs.Count(), line))
	}
}

// fail ends the history.
func (h *history) fail(format string, args ...any) {
	panic(&Violation{Seed: h.seed, What: fmt.Sprintf(format, args...), Trace: h.trace})
}

// dead tells whether the process is: what it answers does not reach anybody.
func (h *history) dead() bool { return h.disk.dead }

// partitions are those that may be worked with.
func (h *history) partitions() (list []*partition) {
	for _, s := range h.topic {
		if !s.maybe {
			list = append(list, s.parts...)
		}
	}
	return list
}

// expected tells whether an error comes from a failure that the history made.
func (h *history) expected(err error) bool {
	switch {
	case h.disk.broken != "" || h.disk.failed || h.disk.slotsFailed || h.dead() || errors.Is(err, journal.ErrFailed):
		return true
	case h.full && (errors.Is(err, log.ErrNoSpace) || errors.Is(err, syscall.ENOSPC)):
		return true
	}
	if errors.Is(err, log.ErrNoSpace) && !h.bare && h.sys.starting() {
		return true // the journal was not emptied yet
	}
	// What a latched log has in memory is lost to the others until it is opened
	// again.
	return errors.Is(err, log.ErrNoSpace) && h.scene.memory < roomyBytes && h.anyLatched()
}

// log gives the open log of a partition, nil if it does not serve because of a
// failure: then it is opened again.
func (h *history) log(p *partition) *log.Log {
	l, err := h.sys.partition(p.tp)
	if err == nil && l.Failed() == nil {
		return l
	}
	if err == nil && h.chance(0.5) {
		h.latched(p, l)
	}
	if h.dead() || h.isBroken(p) && h.chance(0.9) {
		return nil
	}
	cause := err
	if cause == nil {
		cause = l.Failed()
	}
	if h.journalFailed(cause) {
		return nil
	}
	h.tell("%s reopen, after: %v", p.tp, cause)
	h.count.Reopened++
	if err := h.sys.reopen(p.tp); err != nil {
		if h.dead() || h.journalFailed(err) {
			return nil
		}
		if !h.expected(err) && !h.full {
			h.fail("%s does not open again: %v", p.tp, err)
		}
		h.tell("%s does not open: %v", p.tp, err)
		h.makeRoom()
		return nil
	}
	if h.dead() {
		return nil
	}
	if l, err = h.sys.partition(p.tp); err != nil {
		h.fail("%s is not there after reopening: %v", p.tp, err)
	}
	h.reopened(p, l)
	return l
}

// journalFailed ends the process if that is what an error says: the whole store
// takes nothing any more.
func (h *history) journalFailed(err error) bool {
	if !errors.Is(err, journal.ErrFailed) {
		return false
	}
	h.tell("the journal failed: %v", err)
	h.disk.dead = true
	return true
}

// latched checks that a latched log takes nothing and goes on serving.
func (h *history) latched(p *partition, l *log.Log) {
	before := l.Frontiers()
	if _, err := l.Append(ctx, h.plainBatch(p).bytes, log.AppendOptions{NoWait: true}); !errors.Is(err, log.ErrLatched) {
		h.fail("%s is latched by %v and took an append: %v", p.tp, l.Failed(), err)
	}
	if err := l.Sync(ctx); !errors.Is(err, log.ErrLatched) && !h.dead() {
		h.fail("%s is latched and synced: %v", p.tp, err)
	}
	if after := l.Frontiers(); after != before {
		h.fail("%s is latched and its frontiers move from %+v to %+v", p.tp, before, after)
	}
}

// makeRoom ends a shortage of space.
func (h *history) makeRoom() {
	if h.full {
		h.disk.mem.SetCapacity(0)
		h.full = false
		h.tell("room again")
	}
}

// find is a topic by name.
func (h *history) find(name string) *subject {
	i := slices.IndexFunc(h.topic, func(s *subject) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return h.topic[i]
}
