package sim

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// fault is a way to fail the n-th operation.
type fault struct {
	name string
	arm  func(h *history, n int)
}

var faults = []fault{
	{"fail", func(h *history, n int) { h.disk.failIn(n, faultfs.Fail, syscall.EIO) }},
	{"no_space", func(h *history, n int) {
		h.disk.failIn(n, faultfs.Fail, syscall.ENOSPC, faultfs.Write, faultfs.Allocate, faultfs.Rename, faultfs.Mkdir)
	}},
	{"short_write", func(h *history, n int) { h.disk.failIn(n, faultfs.Short, syscall.EIO, faultfs.Write) }},
	{"torn_write", func(h *history, n int) { h.disk.failIn(n, faultfs.Torn, syscall.EIO, faultfs.Write) }},
	{"lost_sync", func(h *history, n int) { h.disk.failIn(n, faultfs.Lose, syscall.EIO, faultfs.Sync) }},
	{"kill", func(h *history, n int) { h.disk.crashIn(n, false) }},
	{"power", func(h *history, n int) { h.disk.crashIn(n, false) }},
	{"torn_power", func(h *history, n int) { h.disk.crashIn(n, true) }},
}

// TestEveryOperationFails runs a script over everything that writes with the
// n-th operation of the file system failing, n = 0, 1, 2 … until it is done
// without; after each, what is promised is there, also after a power loss.
func TestEveryOperationFails(t *testing.T) {
	for _, f := range faults {
		for life := range script {
			for _, bare := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/life=%d/bare=%t", f.name, life, bare), func(t *testing.T) {
					t.Parallel()
					failed := 0
					for n := 0; ; failed++ {
						at, came := runScript(t, f, life, bare, n)
						if !came {
							break
						}
						if n = at + 1; raceDetector {
							n += 12
						}
					}
					t.Logf("%d operations failed", failed)
					if failed == 0 || failed < 3 && !raceDetector {
						t.Errorf("only %d operations failed", failed)
					}
				})
			}
		}
	}
}

// runScript runs the script with a failure in one of its lives, at operation n
// of it or the first after that which it can hit, and tells at which it came.
func runScript(t *testing.T, f fault, life int, bare bool, n int) (at int, came bool) {
	h := newHistory(uint64(n), true)
	h.play(scene{bare: bare, direct: bare, replicated: bare, memory: 1 << 20, journal: journal.BytesMin, tail: 256 << 10})
	armed, from := h.disk, 0
	defer func() {
		switch r := recover().(type) {
		case nil:
		case undecided:
			at, came = armed.cameAt-from, true
		case *Violation:
			t.Fatalf("operation %d: %s\n%s\n%s", n, r.What, strings.Join(r.Trace[max(len(r.Trace)-40, 0):], "\n"), r.What)
		default:
			panic(r)
		}
	}()
	for i := range life {
		h.runActs(script[i])
	}
	armed, from = h.disk, h.disk.fs.Count()
	f.arm(h, n)
	h.runActs(script[life])
	came = armed.came
	h.disk.crashAt = never
	h.disk.disarm()
	if f.name == "kill" || n%2 == 0 && !came {
		h.after(lossKill)
	} else {
		h.after(lossPower)
	}
	for range 2 {
		if !h.begin() {
			h.fail("the store does not open")
		}
		h.quiet()
		h.after(lossPower)
	}
	return armed.cameAt - from, came
}

// runActs runs one life of the script, up to its death.
func (h *history) runActs(acts []func(h *history)) {
	if !h.begin() {
		return
	}
	for _, act := range acts {
		if h.now += 1000; !h.dead() {
			act(h)
		}
	}
}

// each calls do for every partition that serves.
func each(do func(h *history, p *partition, l *log.Log)) func(h *history) {
	return func(h *history) {
		for _, p := range h.partitions() {
			if l := h.log(p); l != nil && !h.dead() {
				do(h, p, l)
				if l, err := h.sys.partition(p.tp); err == nil {
					h.observe(p, l)
				}
			}
		}
	}
}

// scripted appends the next batch of a producer, or a plain one.
func scripted(id int64, n int, noWait bool) func(h *history) {
	return each(func(h *history, p *partition, l *log.Log) {
		e := h.plainBatch(p)
		if id > 0 {
			producer, sequence := batch.Producer{ID: id}, int32(0)
			if s := p.state.producers[id]; s != nil {
				producer.Epoch = s.epoch
				if k := len(s.batches); k > 0 {
					sequence = batch.AddSequence(s.batches[k-1].last, 1)
				}
			}
			e = h.producerBatch(p, producer, sequence, n, isTransactional(id))
		}
		h.append(p, l, e, log.AppendOptions{NoWait: noWait})
	})
}

func scriptedMarker(id int64, commit bool) func(h *history) {
	return each(func(h *history, p *partition, l *log.Log) {
		m := batch.Marker{Producer: batch.Producer{ID: id}, Commit: commit, Timestamp: h.now}
		h.appendMarker(p, l, h.stamped(p, batch.AppendMarker(nil, m), &m, []int64{h.now}, p.end()), log.MarkerOptions{})
	})
}

func scriptedTopic(name string, level log.Durability) func(h *history) {
	return func(h *history) {
		if h.bare || h.find(name) != nil {
			return
		}
		c := catalog.TopicConfig{Partitions: 1, Durability: level, SegmentBytes: 1500, IndexIntervalBytes: 1, Cleanup: catalog.CleanupDelete, RetentionBytes: 4000}
		p := newPartition(topic.Partition{Topic: name}, h.logConfig(c), false)
		h.create(&subject{name: name, config: c, maybe: true, parts: []*partition{p}})
	}
}

var (
	roll          = each(func(h *history, p *partition, l *log.Log) { h.allow(p, "roll", l.Roll()) })
	truncate      = each(func(h *history, p *partition, l *log.Log) { h.truncate(p, l) })
	retain        = each(func(h *history, p *partition, l *log.Log) { h.retain(p, l) })
	retry         = each(func(h *history, p *partition, l *log.Log) { h.retryAll(p, l) })
	deleteRecords = each(func(h *history, p *partition, l *log.Log) { h.deleteRecords(p, l) })
	beginEpoch    = each(func(h *history, p *partition, l *log.Log) { h.beginEpoch(p, l) })
	advance       = each(func(h *history, p *partition, l *log.Log) {
		if p.replicated {
			h.advance(p, l)
		}
	})
	work = func(h *history) { h.sys.work(); h.observeAll() }
)

// script goes over everything that writes, in three lives: what Open finds,
// work, and a clean close with what comes after it.
var script = [][]func(h *history){
	{
		scriptedTopic("t0", log.DurabilityFsync), scriptedTopic("t1", log.DurabilityOS),
		scripted(0, 1, false), scripted(firstPlain, 2, false), scripted(firstTransactional, 2, false),
		roll, scripted(firstPlain, 1, true), work,
		scriptedMarker(firstTransactional, false), scripted(firstTransactional+1, 3, false),
		(*history).checkpoint, roll, scripted(0, 2, false), beginEpoch,
		scripted(firstPlain, 3, false), work, scriptedMarker(firstTransactional+1, true),
		advance, deleteRecords, scripted(0, 4, true), scripted(firstPlain+1, 2, true), truncate,
		scripted(firstPlain+1, 2, false), roll, scripted(0, 1, false), retain, retry,
		func(h *history) {
			if s := h.find("t1"); s != nil {
				h.alone(func() { h.alterTopic(s) })
			}
		},
		scripted(firstTransactional, 1, false), (*history).syncAll,
		func(h *history) {
			if s := h.find("t0"); s != nil {
				h.alone(func() { h.deleteTopic(s) })
			}
		},
		scriptedTopic("t0", log.DurabilityFsync), scripted(firstPlain, 2, false),
		(*history).closeScript,
	},
	{
		scripted(firstPlain, 1, false), scripted(firstTransactional+2, 2, true), roll,
		scripted(0, 1, false), truncate, (*history).closeScript,
	},
}

// closeScript closes the store where nothing failed; else the life ends here.
func (h *history) closeScript() {
	if !h.disk.failed && !h.anyLatched() {
		h.end(false)
	}
}
