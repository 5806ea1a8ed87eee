//go:build interop

package interop

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// raises tells how a transactional producer of these tests behaves: an even id
// keeps its epoch (transactions of version 1), an odd one has it raised by
// every marker (version 2).
func raises(id int64) bool { return id%2 == 1 }

// transactor is a transactional producer without a coordinator: it takes the
// guard, appends, and writes the markers itself, through the partitions'
// logs.
type transactor struct {
	w        *writer
	producer batch.Producer
	sequence map[topic.Partition]int32
	involved map[topic.Partition]bool // in the open transaction
}

func newTransactor(w *writer, id int64) *transactor {
	return &transactor{w: w, producer: batch.Producer{ID: id}, sequence: make(map[topic.Partition]int32), involved: make(map[topic.Partition]bool)}
}

func (x *transactor) log(tp topic.Partition) *log.Log {
	x.w.t.Helper()
	l, err := x.w.store.Partition(tp)
	if err != nil {
		x.w.t.Fatal(err)
	}
	return l
}

// send appends one batch of n records to the transaction.
func (x *transactor) send(tp topic.Partition, n int, c batch.Codec) {
	x.w.t.Helper()
	l := x.log(tp)
	b := x.w.batch(n, batch.BuilderOptions{Producer: x.producer, BaseSequence: x.sequence[tp], LeaderEpoch: batch.None, Transactional: true, Codec: c})
	guard, _, err := l.Guard(x.producer, b.BaseSequence(), raises(x.producer.ID))
	if err != nil {
		x.w.t.Fatal(err)
	}
	a, err := l.Append(x.w.t.Context(), b, log.AppendOptions{Guard: guard})
	if err != nil {
		x.w.t.Fatalf("transactional append to %v: %v", tp, err)
	}
	x.w.enter(tp, b, a)
	x.sequence[tp] += b.RecordCount()
	x.involved[tp] = true
}

// end writes a marker into every partition of the transaction.
func (x *transactor) end(commit bool) {
	x.w.t.Helper()
	if raises(x.producer.ID) {
		x.producer.Epoch++
		clear(x.sequence)
	}
	for tp := range x.involved {
		m := batch.Marker{Producer: x.producer, Commit: commit, CoordinatorEpoch: 0, Timestamp: time.Now().UnixMilli()}
		a, err := x.log(tp).AppendMarker(x.w.t.Context(), m, log.MarkerOptions{TV2: raises(x.producer.ID)})
		if err != nil {
			x.w.t.Fatalf("marker in %v: %v", tp, err)
		}
		p := x.w.model.partitions[tp]
		if a.BaseOffset != p.end {
			x.w.t.Fatalf("marker in %v: %+v, want offset %d", tp, a, p.end)
		}
		p.marked(x.producer.ID, commit, a.BaseOffset)
		x.w.c.add("markers appended by the engine", 1)
	}
	clear(x.involved)
}

// transactions runs interleaved transactions over the partitions, all of them
// ended, with plain batches among them.
func (w *writer) transactions(partitions []topic.Partition, firstID int64, steps int) {
	w.t.Helper()
	random := rand.New(rand.NewPCG(uint64(firstID), 1))
	var all []*transactor
	for i := range int64(6) {
		all = append(all, newTransactor(w, firstID+i))
	}
	for range steps {
		x := all[random.IntN(len(all))]
		switch {
		case len(x.involved) > 0 && random.IntN(3) == 0:
			x.end(random.IntN(2) == 0)
		default:
			x.send(partitions[random.IntN(len(partitions))], 1+random.IntN(4), codecs[random.IntN(len(codecs))])
		}
		if random.IntN(5) == 0 {
			w.append(partitions[random.IntN(len(partitions))], w.batch(1, batch.Plain))
		}
	}
	for i, x := range all {
		x.end(i%2 == 0)
	}
}

// refuseTransactional shows that a transactional batch needs to say whose transaction it is of.
func (w *writer) refuseTransactional(tp topic.Partition, id int64) {
	w.t.Helper()
	b := w.batch(1, batch.BuilderOptions{Producer: batch.Producer{ID: id}, LeaderEpoch: batch.None, Transactional: true})
	w.refused(tp, b, oncelog.ErrNoTransactionalID)
}

// appendAll appends in every way to every partition that is not Kafka's own.
func (w *writer) appendAll(stateFile string) {
	w.t.Helper()
	partitions := w.model.userPartitions()
	slices.SortFunc(partitions, topic.Partition.Compare)
	id := int64(firstProducerID)
	for _, tp := range partitions {
		w.plain(tp)
		w.idempotent(tp, id)
		w.refuseTransactional(tp, id+1)
		id += 2
	}
	w.transactions(partitions, id, 300)
	w.handOver(stateFile)
}
