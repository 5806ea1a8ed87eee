package log

import (
	"fmt"
	"path/filepath"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
)

// replay folds the log into producer state, and compares that with snapshots
// and transaction indexes on the way.
//
// The table knows all that happened if the log is there from its first offset
// or a snapshot stands where it begins. Else it knows what happened from
// offset since on: what snapshots and indexes tell of earlier offsets cannot
// be compared.
type replay struct {
	table    *producerstate.Table
	complete bool
	since    int64 // unless complete
	pending  []int64
	newest   int64 // offset of the newest snapshot that could be read; -1: none
	removed  bool  // snapshots vanished while we looked, so newer ones may be there

	jumps      int // sequences that do not follow
	firstJump  position
	overtaken  int // batches of an epoch below the producer's
	firstStale position
	aborted    int
}

// start begins with nothing known, or with the snapshot at the log's first
// offset.
func (r *replay) start(v *verifier) {
	r.table, r.newest = producerstate.New(producerstate.Options{}), -1
	first := int64(0)
	if len(v.segments) > 0 {
		first = v.segments[0].Base
	} else {
		first = v.o.Points.LogStart
	}
	r.complete, r.since = first == 0, first
	for len(r.pending) > 0 && r.pending[0] < first {
		v.find(Finding{SeverityNote, FindingSnapshot, v.snapshotPath(r.pending[0]), -1, r.pending[0], fmt.Sprintf("the snapshot is of an offset before the first, %d", first)})
		r.pending = r.pending[1:]
	}
	if !r.complete && len(r.pending) > 0 && r.pending[0] == first {
		if infos, table := v.readSnapshot(first); infos != nil {
			r.adopt(table)
			r.newest = first
		}
		r.pending = r.pending[1:]
	}
}

// lose forgets the state: batches before offset from are not known.
func (r *replay) lose(from int64) {
	r.table = producerstate.New(producerstate.Options{})
	r.complete, r.since = false, from
}

// adopt goes on with the state of a snapshot.
func (r *replay) adopt(table *producerstate.Table) { r.table, r.complete = table, true }

// unknown tells whether something that happened at offset may be unknown here.
func (r *replay) unknown(offset int64) bool { return !r.complete && offset < r.since }

// batch applies the next batch, after the snapshots of offsets up to it.
func (r *replay) batch(v *verifier, b batch.Batch, at position, x *indexCheck) error {
	for len(r.pending) > 0 && r.pending[0] <= b.LastOffset() {
		offset := r.pending[0]
		r.pending = r.pending[1:]
		if offset > b.BaseOffset() {
			v.find(Finding{SeverityDamage, FindingSnapshot, v.snapshotPath(offset), -1, offset,
				fmt.Sprintf("the snapshot is of an offset inside the batch %d to %d", b.BaseOffset(), b.LastOffset())})
			continue
		}
		if err := r.snapshot(v, offset, false); err != nil {
			return err
		}
	}
	if b.ProducerID() < 0 {
		if b.IsTransactional() {
			v.find(at.finding(SeverityWarning, FindingTransaction, "the batch is transactional and has no producer id"))
		}
		return nil
	}
	header := b.Header()
	if _, _, err := batch.ReadMarker(b); err != nil {
		v.find(at.finding(SeverityWarning, FindingTransaction, "the control record cannot be read, and ends no transaction: %v", err))
	}
	marker, err := markerOf(b)
	if err != nil || marker == nil && b.IsControl() {
		return err
	}
	if marker == nil {
		r.follows(v, &header, at)
	}
	completed, ended := r.table.Apply(&header, marker, 0)
	if marker != nil && !marker.Commit {
		r.aborted++
		x.aborted(header.Producer.ID, at, completed, ended)
	}
	return nil
}

// follows looks whether a data batch continues its producer.
func (r *replay) follows(v *verifier, h *batch.Header, at position) {
	e, known := r.table.Info(h.Producer.ID)
	if !known {
		return
	}
	if !h.IsTransactional() && e.TxnFirst >= 0 {
		v.find(at.finding(SeverityWarning, FindingTransaction,
			"producer %d writes outside of its open transaction, which began at offset %d; Kafka would not load this log", h.Producer.ID, e.TxnFirst))
	}
	switch {
	case h.Producer.Epoch < e.Producer.Epoch:
		if r.overtaken++; r.overtaken == 1 {
			r.firstStale = at
		}
	case h.BaseSequence < 0 || e.LastSequence < 0:
	case h.Producer.Epoch == e.Producer.Epoch && !batch.FollowsSequence(e.LastSequence, h.BaseSequence),
		h.Producer.Epoch > e.Producer.Epoch && h.BaseSequence != 0:
		if r.jumps++; r.jumps == 1 {
			r.firstJump = at
		}
	}
}

// end compares the snapshots at and behind the log end.
func (r *replay) end(v *verifier) error {
	end := v.end()
	for _, offset := range r.pending {
		if offset > end {
			severity, text := SeverityNote, "recovery removes it"
			if v.o.Clean {
				severity, text = SeverityDamage, "what lies between is lost"
			}
			v.find(Finding{severity, FindingSnapshot, v.snapshotPath(offset), -1, offset,
				fmt.Sprintf("the snapshot is of offset %d, the log ends at %d: %s", offset, end, text)})
			continue
		}
		if err := r.snapshot(v, offset, offset == end); err != nil {
			return err
		}
	}
	if v.memoryEnd >= 0 && !v.follow.unsure {
		infos, table, err := parseSnapshot(v.memory)
		if err != nil {
			return err
		}
		c := snapshotCheck{v: v, r: r, offset: v.memoryEnd, name: "memory", last: true}
		c.compare(infos, table)
	}
	if r.jumps > 0 && !v.compacted {
		v.find(r.firstJump.finding(SeverityNote, FindingProducer, "%d batches do not continue the sequence of their producer, this is the first: the log had forgotten it", r.jumps))
	}
	if r.overtaken > 0 {
		v.find(r.firstStale.finding(SeverityWarning, FindingProducer, "%d batches have a lower producer epoch than one before them, this is the first", r.overtaken))
	}
	for range r.table.Ongoing() {
		v.report.Open++
	}
	v.report.Producers, v.report.Aborted = r.table.Len(), r.aborted
	return nil
}

// deleted tells whether an offset lies before all that is left of the log. An
// index that was made again from that cannot know what began there, and no
// reader can tell the difference.
func (v *verifier) deleted(offset int64) bool {
	return offset < v.follow.head
}

// aborted compares an ABORT marker with the transaction index. ended says that
// the replay knew an open transaction; t is that.
func (x *indexCheck) aborted(producer int64, at position, t producerstate.CompletedTxn, ended bool) {
	r := &x.v.replay
	x.orphans(at.offset)
	if x.txnNext == x.txns.Len() || x.txns.At(x.txnNext).Last > at.offset {
		if ended && at.offset < x.v.point && !x.v.deleted(t.First) {
			path := x.f.Paths[segment.KindTxnIndex]
			if path == "" {
				path = filepath.Join(x.v.o.Dir, segment.FileName(x.f.Base, segment.KindTxnIndex))
			}
			x.find(Finding{SeverityDamage, FindingTxnIndex, path, int64(x.txnNext) * index.TxnEntrySize, at.offset,
				fmt.Sprintf("the transaction of producer %d from offset %d, aborted at %d, has no entry", producer, t.First, at.offset)})
		}
		return
	}
	e := x.txns.At(x.txnNext)
	x.txnNext++
	switch {
	case e.ProducerID != producer:
		x.wrongTxn(e, true, "the marker there is of producer %d", producer)
	case !ended && !r.unknown(e.First):
		x.wrongTxn(e, false, "no transaction was open there")
	case ended && e.First != t.First && !r.unknown(e.First) && !x.v.deleted(t.First):
		x.wrongTxn(e, e.First > t.First, "the transaction began at offset %d", t.First)
	case ended && e.LastStable != t.LastStable && !r.unknown(e.LastStable) && !x.v.deleted(t.LastStable):
		x.wrongTxn(e, e.LastStable > t.LastStable, "the last stable offset was %d", t.LastStable)
	}
}

// orphans tells of entries with a marker below offset that was not met.
func (x *indexCheck) orphans(offset int64) {
	for x.txnNext < x.txns.Len() && x.txns.At(x.txnNext).Last < offset {
		e := x.txns.At(x.txnNext)
		x.txnNext++
		if x.v.follow.broken == 0 && !x.v.follow.unsure {
			// Compaction keeps an entry no longer than its marker.
			x.wrongTxn(e, true, "there is no ABORT marker")
		}
	}
}

// replayEnd ends the comparison of the transaction index.
func (x *indexCheck) replayEnd(end int64) {
	if x.torn {
		return
	}
	x.orphans(end)
	if x.txnNext < x.txns.Len() {
		x.txnNext++
		x.wrongTxn(x.txns.At(x.txnNext-1), true, "the segment ends at offset %d", end)
	}
}

// wrongTxn tells of an entry that contradicts the log; unless certain,
// compaction explains it.
func (x *indexCheck) wrongTxn(e index.AbortedTxn, certain bool, format string, args ...any) {
	f := Finding{SeverityDamage, FindingTxnIndex, x.f.Paths[segment.KindTxnIndex], int64(x.txnNext-1) * index.TxnEntrySize, e.Last,
		fmt.Sprintf("entry for producer %d, offsets %d to %d, last stable offset %d: "+format,
			append([]any{e.ProducerID, e.First, e.Last, e.LastStable}, args...)...)}
	if certain {
		x.find(f)
	} else {
		x.v.findUnlessCompacted(f)
	}
}
