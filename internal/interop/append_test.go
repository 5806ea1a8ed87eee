//go:build interop

package interop

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// firstProducerID is where producer ids of the engine begin; Kafka allocates
// from 0.
const firstProducerID = 1 << 48

// codecs are all that there are.
var codecs = []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecSnappy, batch.CodecLZ4, batch.CodecZstd}

// writer appends through the engine and enters what was acknowledged into the
// model.
type writer struct {
	t     *testing.T
	store *oncelog.Store
	model *model
	c     *tally
	build batch.Builder
	n     int // of records, for their values
}

// options of a store in these tests: small segments, so that it rolls, and
// no coordinator: what is appended here ends its transactions itself.
func options() oncelog.Options {
	return oncelog.Options{SegmentBytes: 16 << 10, Transactions: oncelog.TransactionOptions{ReadOnly: true}}
}

func open(t *testing.T, dir string, o oncelog.Options) *oncelog.Store {
	t.Helper()
	s, err := oncelog.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *oncelog.Store) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// batch builds a batch of n records.
func (w *writer) batch(n int, o batch.BuilderOptions) batch.Batch {
	w.t.Helper()
	b, err := buildBatch(&w.build, "engine", &w.n, n, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// buildBatch builds a batch of count records with keys; nulls, empty values
// and headers are among them. No two values with text are alike: they hold
// prefix and serial.
func buildBatch(build *batch.Builder, prefix string, serial *int, count int, o batch.BuilderOptions) (batch.Batch, error) {
	build.Reset(nil, o)
	for range count {
		*serial++
		n := *serial
		key, value := fmt.Appendf(nil, "%s key%d", prefix, n), fmt.Appendf(nil, "%s %d %0*d", prefix, n, n%150, n)
		var headers []batch.RecordHeader
		switch n % 7 {
		case 1:
			value = nil
		case 2:
			value = []byte{}
		case 3:
			headers = []batch.RecordHeader{{Key: "h", Value: []byte("v")}, {Key: "h"}, {Key: ""}}
		}
		build.Add(time.Now().UnixMilli(), key, value, headers...)
	}
	return build.Finish()
}

// append appends through the store's door.
func (w *writer) append(tp topic.Partition, b batch.Batch) {
	w.t.Helper()
	a, err := w.store.Append(w.t.Context(), tp, b, log.AppendOptions{})
	if err != nil {
		w.t.Fatalf("append to %v: %v", tp, err)
	}
	w.enter(tp, b, a)
}

func (w *writer) enter(tp topic.Partition, b batch.Batch, a log.Appended) {
	w.t.Helper()
	p := w.model.partitions[tp]
	if a.Duplicate || a.BaseOffset != p.end || a.LastOffset != p.end+int64(b.LastOffsetDelta()) {
		w.t.Fatalf("append to %v: %+v, want offset %d", tp, a, p.end)
	}
	if err := p.appended(b, a.BaseOffset); err != nil {
		w.t.Fatal(err)
	}
	w.c.add("records appended by the engine", int(b.RecordCount()))
}

// duplicate appends a batch again: the answer must be the first one's offset.
func (w *writer) duplicate(tp topic.Partition, b batch.Batch, base int64) {
	w.t.Helper()
	a, err := w.store.Append(w.t.Context(), tp, b, log.AppendOptions{})
	if err != nil || !a.Duplicate || a.BaseOffset != base {
		w.t.Fatalf("duplicate in %v: %+v, %v; want offset %d", tp, a, err, base)
	}
	w.c.add("duplicates that the engine answers", 1)
}

// refused appends a batch that must be refused.
func (w *writer) refused(tp topic.Partition, b batch.Batch, want error) {
	w.t.Helper()
	a, err := w.store.Append(w.t.Context(), tp, b, log.AppendOptions{})
	if !errors.Is(err, want) {
		w.t.Fatalf("append to %v: %+v, %v; want %v", tp, a, err, want)
	}
	w.c.add("batches that the engine refuses", 1)
}

// plain appends batches without a producer, one a codec.
func (w *writer) plain(tp topic.Partition) {
	w.t.Helper()
	for i, c := range codecs {
		o := batch.Plain
		o.Codec = c
		w.append(tp, w.batch(1+3*i, o))
	}
}

// idempotent appends batches of one producer, a duplicate and a gap.
func (w *writer) idempotent(tp topic.Partition, id int64) {
	w.t.Helper()
	o := batch.Plain
	o.Producer, o.BaseSequence = batch.Producer{ID: id}, 0
	for i := range 8 {
		b := w.batch(1+i%3, o)
		base := w.model.partitions[tp].end
		w.append(tp, b)
		o.BaseSequence += b.RecordCount()
		w.duplicate(tp, b, base)
	}
	o.BaseSequence++
	w.refused(tp, w.batch(1, o), producerstate.ErrOutOfOrderSequence)
}

// rawState is the state file of Produce and Continue.
type rawState struct {
	Raw  []rawProducer `json:"raw"`
	Open []rawProducer `json:"open"`
}

type rawProducer struct {
	Name            string `json:"name"`
	Topic           string `json:"topic"`
	Partition       int32  `json:"partition"`
	TransactionalID any    `json:"transactional_id"`
	Flow            int    `json:"flow"`
	ProducerID      int64  `json:"producer_id"`
	Epoch           int16  `json:"epoch"`
	NextSequence    int32  `json:"next_sequence"`
	LastBaseOffset  int64  `json:"last_base_offset"`
	LastBatch       string `json:"last_batch"`
}

func (p *rawProducer) partition() topic.Partition {
	return topic.Partition{Topic: p.Topic, Index: p.Partition}
}

func (w *writer) decodeBatch(p *rawProducer) batch.Batch {
	w.t.Helper()
	b, err := hex.DecodeString(p.LastBatch)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// handOver goes on as the raw producers that Kafka knew. The last batch of each is
// a duplicate; the one named "handed" appends more, and the file says so.
func (w *writer) handOver(file string) {
	w.t.Helper()
	state := decode[rawState](w.t, readFile(w.t, file))
	for i := range state.Raw {
		p := &state.Raw[i]
		w.duplicate(p.partition(), w.decodeBatch(p), p.LastBaseOffset)
		o := batch.Plain
		o.Producer, o.BaseSequence = batch.Producer{ID: p.ProducerID, Epoch: p.Epoch}, batch.AddSequence(p.NextSequence, 1)
		w.refused(p.partition(), w.batch(1, o), producerstate.ErrOutOfOrderSequence)
		if p.Name != "handed" {
			continue
		}
		for o.BaseSequence = p.NextSequence; o.BaseSequence < p.NextSequence+10; {
			b := w.batch(2, o)
			p.LastBatch, p.LastBaseOffset = hex.EncodeToString(b), w.model.partitions[p.partition()].end
			w.append(p.partition(), b)
			o.BaseSequence = batch.AddSequence(o.BaseSequence, 2)
		}
		p.NextSequence = o.BaseSequence
	}
	b, err := json.Marshal(state)
	if err != nil {
		w.t.Fatal(err)
	}
	writeFile(w.t, file, b)
}

// userPartitions are the partitions that are not Kafka's own.
func (m *model) userPartitions() []topic.Partition {
	var all []topic.Partition
	for tp := range m.partitions {
		if !tp.Internal() {
			all = append(all, tp)
		}
	}
	return all
}

// fingerprint lists the files below a directory with sizes and times, to tell
// whether anything was written.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var b []byte
	err := filepath.Walk(dir, func(name string, i os.FileInfo, err error) error {
		if err == nil {
			b = fmt.Appendf(b, "%s %d %v %v\n", name, i.Size(), i.Mode(), i.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
