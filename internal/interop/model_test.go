//go:build interop

package interop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
)

// model is what a directory must hold: what Kafka said of it, and what the
// engine acknowledged since.
type model struct {
	partitions map[topic.Partition]*partitionModel
}

type partitionModel struct {
	leaderEpoch int32 // that new batches must carry
	end         int64
	records     []record // by offset; Committed is filled in by settled
	// held is the first offset of a transaction that is not ours and stays
	// open, or -1: nothing from there on is stable.
	held int64
	// open are the transactions of ours without a marker.
	open map[batch.Producer]*openTxn
	// aborted are offsets that read_committed does not deliver.
	aborted map[int64]bool
}

type openTxn struct {
	first   int64
	offsets []int64
}

// newModel begins with what the broker told. The engine goes on with the
// broker's last leader epoch, also where the broker appended nothing in it.
func newModel(u *truth) *model {
	m := &model{partitions: make(map[topic.Partition]*partitionModel)}
	for tp, p := range u.partitions {
		q := &partitionModel{
			leaderEpoch: p.LeaderEpoch, end: p.HighWatermark, records: slices.Clone(p.records), held: -1,
			open: make(map[batch.Producer]*openTxn), aborted: make(map[int64]bool),
		}
		if p.LastStable < p.HighWatermark {
			q.held = p.LastStable
		}
		for _, r := range p.records {
			if !r.Committed && (q.held < 0 || r.Offset < q.held) {
				q.aborted[r.Offset] = true
			}
		}
		m.partitions[tp] = q
	}
	return m
}

// appended enters a batch that was acknowledged with a base offset.
func (p *partitionModel) appended(b batch.Batch, base int64) error {
	stamped := batch.Batch(slices.Clone(b))
	stamped.Stamp(base, p.leaderEpoch)
	var records batch.Records
	defer records.Close()
	records.Reset(stamped)
	var all []record
	for records.Next() {
		all = append(all, describe(stamped, records.Record()))
	}
	if err := records.Err(); err != nil {
		return err
	}
	p.enter(all, b.Producer(), b.IsTransactional())
	return nil
}

// enter enters records that were acknowledged.
func (p *partitionModel) enter(all []record, producer batch.Producer, transactional bool) {
	p.records = append(p.records, all...)
	p.end = max(p.end, all[len(all)-1].Offset+1)
	if !transactional {
		return
	}
	x := p.open[producer]
	if x == nil {
		x = &openTxn{first: all[0].Offset}
		p.open[producer] = x
	}
	for _, r := range all {
		x.offsets = append(x.offsets, r.Offset)
	}
}

// marked enters a marker that was acknowledged at an offset. The marker's
// epoch may be newer than that of the transaction it ends.
func (p *partitionModel) marked(id int64, commit bool, offset int64) {
	p.end = max(p.end, offset+1)
	for producer, x := range p.open {
		if producer.ID != id {
			continue
		}
		delete(p.open, producer)
		for _, o := range x.offsets {
			if !commit {
				p.aborted[o] = true
			}
		}
	}
}

// lastStable is the last stable offset that must be answered.
func (p *partitionModel) lastStable() int64 {
	offset := p.end
	if p.held >= 0 {
		offset = p.held
	}
	for _, x := range p.open {
		offset = min(offset, x.first)
	}
	return offset
}

// settled gives the records as both isolation levels must deliver them.
func (p *partitionModel) settled() []record {
	slices.SortFunc(p.records, func(a, b record) int { return int(a.Offset - b.Offset) })
	stable := p.lastStable()
	for i := range p.records {
		r := &p.records[i]
		r.Committed = r.Offset < stable && !p.aborted[r.Offset]
	}
	return p.records
}

// compareModel compares what a broker told of every partition with the model.
func compareModel(t *testing.T, u *truth, m *model) *tally {
	t.Helper()
	c, d := new(tally), new(differences)
	for _, tp := range u.order() {
		want, got := m.partitions[tp], u.partitions[tp]
		if want == nil {
			d.addf("%v: the model has no such partition", tp)
			continue
		}
		c.add("records that Kafka serves at both isolation levels", compareRecords(d, tp.String(), got.records, want.settled()))
		a, b := [2]int64{got.HighWatermark, got.LastStable}, [2]int64{want.end, want.lastStable()}
		if a != b {
			d.addf("%v: high watermark and last stable offset %v, want %v", tp, a, b)
		}
		c.add("partitions that Kafka serves", 1)
	}
	if len(u.partitions) != len(m.partitions) {
		d.addf("%d partitions, want %d", len(u.partitions), len(m.partitions))
	}
	d.check(t, "Kafka differs from what was acknowledged")
	return c
}

// compareProducers compares what the engine knew of producers when it closed
// with what the broker knows.
func compareProducers(t *testing.T, u *truth, known map[topic.Partition][]producerTruth) *tally {
	t.Helper()
	c, d := new(tally), new(differences)
	for _, tp := range u.order() {
		if got, want := u.partitions[tp].Producers, known[tp]; !slices.Equal(got, want) {
			d.addf("%v: producers\n    %+v, want\n    %+v", tp, got, want)
			continue
		}
		c.add("producers that Kafka knows", len(known[tp]))
	}
	d.check(t, "Kafka's producers")
	return c
}

// compareCoordinators checks that what Kafka's coordinators keep in their two
// topics is unchanged: transactions and committed offsets.
func compareCoordinators(t *testing.T, got, want *truth) *tally {
	t.Helper()
	c, d := new(tally), new(differences)
	for _, x := range []struct {
		name      string
		got, want []map[string]any
	}{{"transactions of Kafka's coordinator", got.transactions, want.transactions}, {"groups with committed offsets", got.groupOffsets, want.groupOffsets}} {
		if len(x.got) != len(x.want) {
			d.addf("%s: %d, want %d", x.name, len(x.got), len(x.want))
			continue
		}
		for i := range x.got {
			if a, b := fmt.Sprint(x.got[i]), fmt.Sprint(x.want[i]); a != b {
				d.addf("%s: %s, want %s", x.name, a, b)
				continue
			}
			c.add(x.name, 1)
		}
	}
	d.check(t, "Kafka's coordinators")
	return c
}

// compareGrown checks that a log only grew: every record of before is there,
// and committed if it was, a record held by an open transaction aside.
func compareGrown(t *testing.T, after, before *truth) *tally {
	t.Helper()
	c, d := new(tally), new(differences)
	for _, tp := range before.order() {
		old, now := before.partitions[tp], after.partitions[tp]
		for _, r := range old.records {
			got, ok := byOffset(now.records, r.Offset)
			if r.Offset >= old.LastStable {
				r.Committed = got.Committed
			}
			if !ok || !sameRecord(got, r) {
				d.addf("%v: record %v, want %v", tp, got, r)
				continue
			}
			c.add("older records that Kafka serves after it went on", 1)
		}
		c.add("records that Kafka's clients added", len(now.records)-len(old.records))
		if now.LastStable != now.HighWatermark {
			d.addf("%v: last stable offset %d, high watermark %d", tp, now.LastStable, now.HighWatermark)
		}
	}
	d.check(t, "Kafka after it went on")
	return c
}
