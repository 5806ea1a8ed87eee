package main

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
)

// States of a partition, and verdicts on the directory.
const (
	stateClean     = "clean"     // it was closed cleanly, and is in order
	stateMended    = "mended"    // it was closed cleanly, and lacked something that could be made anew
	stateRecovered = "recovered" // it was not closed cleanly
	stateRefused   = "refused"   // it is damaged
	stateFailed    = "failed"    // of a directory: recovery was not completed
)

// recoverySums are what the events of a partition, or of all, add up to.
type recoverySums struct {
	checkedBytes, cutBytes, zeroBytes int64
	cuts, indexes, snapshots          int
	stateLost                         bool
}

func (s *recoverySums) add(e *oncelog.Event) {
	switch e.Kind {
	case oncelog.EventRecovered:
		s.checkedBytes += e.Bytes
	case oncelog.EventTailCut:
		if e.File == "" {
			s.zeroBytes += e.Bytes
			return
		}
		s.cuts++
		s.cutBytes += e.Bytes
	case oncelog.EventIndexRebuilt:
		s.indexes++
	case oncelog.EventSnapshotBad:
		s.snapshots++
	case oncelog.EventProducerStateLost:
		s.stateLost = true
	}
}

// show shows a row for each partition with its events below, and the sums. err
// is why the recovery was not completed: then there are only events.
func (r *recovery) show(err error) {
	r.mu.Lock()
	events := slices.Clone(r.events)
	r.mu.Unlock()
	if err != nil && len(events)+len(r.partitions) == 0 {
		return // nothing was done
	}
	slices.SortStableFunc(events, func(a, b oncelog.Event) int { return a.Partition.Compare(b.Partition) })
	var all recoverySums
	states := map[string]int{}
	for _, p := range r.partitions {
		var sums recoverySums
		var own []oncelog.Event
		for len(events) > 0 && events[0].Partition.Compare(p.TopicPartition) <= 0 {
			e := events[0]
			events = events[1:]
			if e.Partition != p.TopicPartition { // of the directory
				r.eventRow(&e, false)
				continue
			}
			sums.add(&e)
			all.add(&e)
			if e.Kind != oncelog.EventRecovered {
				own = append(own, e)
			}
		}
		state := r.state(&p, own)
		states[state]++
		r.partitionRow(&p, state, &sums)
		for i := range own {
			r.eventRow(&own[i], true)
		}
	}
	for i := range events {
		all.add(&events[i])
		r.eventRow(&events[i], false)
	}
	r.summary(err, &all, states)
}

// state of a partition with these events.
func (r *recovery) state(p *recovered, own []oncelog.Event) string {
	switch {
	case p.refused != nil:
		return stateRefused
	case !r.clean:
		return stateRecovered
	case len(own) > 0:
		return stateMended
	}
	return stateClean
}

func (r *recovery) partitionRow(p *recovered, state string, s *recoverySums) {
	w := r.out
	open := p.refused == nil
	w.begin("partition")
	w.string("partition", p.String())
	w.string("state", state)
	w.optionalInt("log_start", p.logStart, open)
	w.optionalInt("log_end", p.logEnd, open)
	w.int("checked_bytes", s.checkedBytes)
	w.int("cut_bytes", s.cutBytes)
	w.int("cut_files", int64(s.cuts))
	w.int("zero_bytes", s.zeroBytes)
	w.int("indexes_rebuilt", int64(s.indexes))
	w.int("snapshots_ignored", int64(s.snapshots))
	w.bool("producers_lost", s.stateLost)
	w.end()
}

// eventRow shows an event: below the row of its partition, or alone.
func (r *recovery) eventRow(e *oncelog.Event, child bool) {
	w := r.out
	if child {
		w.beginChild("event")
	} else {
		w.begin("directory_event")
	}
	w.string("event", e.Kind.String())
	if !child || w.json {
		name := e.Partition.String()
		if e.Partition == (oncelog.TopicPartition{}) {
			name = ""
		}
		optionalString(w, "partition", name)
	}
	offset := e.Kind != oncelog.EventPartitionRefused && e.Partition != oncelog.TopicPartition{}
	w.optionalInt("offset", e.From, offset)
	w.optionalInt("bytes", e.Bytes, e.Kind == oncelog.EventTailCut || e.Kind == oncelog.EventRecovered)
	w.optionalBool("whole_batches", e.ValidAfter, e.Kind == oncelog.EventTailCut)
	optionalString(w, "path", e.File)
	optionalString(w, "reason", r.reason(e))
	w.end()
}

// reason is why, and what to do about it.
func (r *recovery) reason(e *oncelog.Event) string {
	switch {
	case e.Err == nil:
		return ""
	case e.Kind == oncelog.EventTailCut && e.File == "":
		return "allocated and not written"
	}
	text := e.Err.Error()
	if e.Kind != oncelog.EventPartitionRefused {
		return text
	}
	dir := filepath.Join(r.dir, e.Partition.String())
	switch {
	case errors.Is(e.Err, oncelog.ErrPartitionMissing): // says what to do
	case errors.Is(e.Err, batch.ErrLegacyMagic):
		text += "; let a Kafka of version 3 rewrite the topic, or move " + dir + " away to go on without it"
	default:
		text += "; 'oncelog verify " + dir + "' shows all of the damage; put a good copy in its place, or move it away to go on without it"
	}
	return text
}

func (r *recovery) summary(err error, all *recoverySums, states map[string]int) {
	verdict := stateClean
	switch {
	case err != nil:
		verdict = stateFailed
	case states[stateRefused] > 0:
		verdict = stateRefused
	case !r.clean:
		verdict = stateRecovered
	case states[stateMended] > 0:
		verdict = stateMended
	}
	w := r.out
	w.begin("summary")
	w.string("verdict", verdict)
	w.bool("was_clean", r.clean)
	w.bool("closed_cleanly", r.closed)
	w.int("partitions", int64(len(r.partitions)))
	w.int("refused", int64(states[stateRefused]))
	w.int("checked_bytes", all.checkedBytes)
	w.int("cut_bytes", all.cutBytes)
	w.int("cut_files", int64(all.cuts))
	w.end()
}
