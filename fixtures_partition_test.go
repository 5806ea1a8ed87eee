package oncelog_test

import (
	"cmp"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/log"
)

// comparison compares what a log says with the truth about its partition.
type comparison struct {
	name  string // scenario/partition
	truth string // directory of the truth about the partition
	dir   string // of the partition
	log   *log.Log
	files partitionFiles // as Kafka left them
	about truthPartition

	d *differences
	c *tally
}

// all compares everything that does not change when the engine opens the
// directory, appends nothing and closes it.
func (p *comparison) all(t *testing.T) {
	p.about = readJSON[truthPartition](t, filepath.Join(p.truth, "partition.json"))
	p.partition(t)
	p.records(t)
	p.lookups(t)
	p.epochs(t)
	p.fetches(t)
}

// allowed reports a difference unless the documentation lists it.
func (p *comparison) allowed(t *testing.T, kind, door, format string, args ...any) {
	t.Helper()
	if !p.d.allow(kind, door, p.name) {
		t.Errorf("%s at %s is not listed: "+format, append([]any{kind, door}, args...)...)
	}
}

func (p *comparison) partition(t *testing.T) {
	if got := metadata(t, p.dir).TopicID.String(); got != p.about.TopicID {
		t.Errorf("topic id %s, want %s", got, p.about.TopicID)
	}
	if got := p.latestEpoch(); got != p.about.LeaderEpoch {
		t.Errorf("leader epoch %d, want %d", got, p.about.LeaderEpoch)
	}
	f := p.log.Frontiers()
	if f.LogStart != p.about.LogStart || f.HighWatermark != p.about.High || f.LogEnd != p.about.High {
		t.Errorf("log start, high watermark, log end: %d, %d, %d; want %d, %d, %[5]d", f.LogStart, f.HighWatermark, f.LogEnd, p.about.LogStart, p.about.High)
	}
	p.lastStable(t, "partition", f)
	var got []truthProducer
	for _, i := range p.log.Producers() {
		got = append(got, producerOf(i))
	}
	sortProducers(got)
	sortProducers(p.about.Producers)
	if !slices.Equal(got, p.about.Producers) {
		t.Errorf("producers\n     %+v\nwant %+v", got, p.about.Producers)
	}
	p.c.add("partitions", 1)
	p.c.add("producers", len(got))
}

func producerOf(i producerstate.Info) truthProducer {
	return truthProducer{ID: i.Producer.ID, Epoch: i.Producer.Epoch, LastSequence: i.LastSequence,
		LastTimestamp: i.LastTimestamp, CoordinatorEpoch: i.CoordinatorEpoch, TxnStart: i.TxnFirst}
}

// lastStable compares the last stable offset. Below the log start it bounds
// nothing: there both say the same to every reader.
func (p *comparison) lastStable(t *testing.T, door string, f log.Frontiers) {
	t.Helper()
	switch {
	case f.LastStable == p.about.LastStable:
	case f.LastStable <= f.LogStart && p.about.LastStable < p.about.LogStart:
		p.allowed(t, "last-stable-below-start", door, "last stable offset %d, Kafka says %d", f.LastStable, p.about.LastStable)
	default:
		t.Errorf("last stable offset %d, want %d", f.LastStable, p.about.LastStable)
	}
}

func sortProducers(p []truthProducer) {
	slices.SortFunc(p, func(a, b truthProducer) int { return cmp.Compare(a.ID, b.ID) })
}

func (p *comparison) latestEpoch() int32 {
	epochs := p.log.Epochs()
	if len(epochs) == 0 {
		return -1
	}
	return epochs[len(epochs)-1].Epoch
}

func (p *comparison) records(t *testing.T) {
	want := readLines[truthRecord](t, filepath.Join(p.truth, "records.jsonl"))
	var committed []truthRecord
	for i := range want {
		if want[i].Committed {
			committed = append(committed, want[i])
		}
		want[i].Committed = false
	}
	for i := range committed {
		committed[i].Committed = false
	}
	for _, c := range []struct {
		isolation log.Isolation
		want      []truthRecord
		position  int64
	}{{log.ReadUncommitted, want, p.about.Uncommitted}, {log.ReadCommitted, committed, p.about.Committed}} {
		got := consume(t, p.log, c.isolation)
		compareRecords(t, got.records, c.want)
		if got.position != c.position {
			t.Errorf("%s: a reader of all ends at %d, want %d", c.isolation, got.position, c.position)
		}
		p.c.add("records, "+c.isolation.String(), len(got.records))
		p.c.add("records that the Java consumer skips, as a later one repeats their offset", got.skipped)
	}
}

func compareRecords(t *testing.T, got, want []truthRecord) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("record %d:\n     %+v\nwant %+v", i, got[i], want[i])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
}

// Queries of ListOffsets that ask for no time.
const (
	queryLatest        = -1
	queryEarliest      = -2
	queryMaxTimestamp  = -3
	queryEarliestLocal = -4
	queryLatestTiered  = -5
)

func (p *comparison) lookups(t *testing.T) {
	for _, want := range readLines[truthOffset](t, filepath.Join(p.truth, "list_offsets.jsonl")) {
		got := truthOffset{Isolation: want.Isolation, Query: want.Query, Timestamp: -1, Offset: -1, LeaderEpoch: -1}
		f, i := p.log.Frontiers(), isolation(t, want.Isolation)
		switch want.Query {
		case queryLatest:
			got.Offset, got.LeaderEpoch = f.HighWatermark, p.latestEpoch()
			if i == log.ReadCommitted {
				got.Offset = f.LastStable
			}
		case queryEarliest, queryEarliestLocal:
			got.Offset, got.LeaderEpoch = f.LogStart, p.log.EpochFor(f.LogStart)
		case queryLatestTiered:
		case queryMaxTimestamp:
			p.byTime(t, &got, func() (log.TimeOffset, error) { return p.log.MaxTimestamp(i) })
		default:
			p.byTime(t, &got, func() (log.TimeOffset, error) { return p.log.OffsetForTime(want.Query, i) })
		}
		p.c.add("offsets listed", 1)
		if got == want {
			continue
		}
		if kind := p.lookupDifference(got, want); kind != "" {
			p.allowed(t, kind, "list_offsets", "%+v, Kafka says %+v", got, want)
			continue
		}
		t.Errorf("offsets:\n     %+v\nwant %+v", got, want)
	}
}

func (p *comparison) byTime(t *testing.T, got *truthOffset, find func() (log.TimeOffset, error)) {
	t.Helper()
	found, err := find()
	if err != nil {
		t.Fatal(err)
	}
	got.Timestamp, got.Offset = found.Timestamp, found.Offset
	if found.Offset >= 0 {
		got.LeaderEpoch = p.log.EpochFor(found.Offset)
	}
}

// lookupDifference classifies two answers that are not equal, "" if nothing is
// known that explains it.
func (p *comparison) lookupDifference(got, want truthOffset) string {
	if got.Query == queryLatest && want.Offset < p.about.LogStart && got.Offset <= p.about.LogStart {
		return "last-stable-below-start"
	}
	return ""
}

func (p *comparison) epochs(t *testing.T) {
	for _, want := range readLines[truthEpoch](t, filepath.Join(p.truth, "epochs.jsonl")) {
		e := p.log.EpochEnd(want.Query)
		if want.Error != 0 || e.Epoch != want.LeaderEpoch || e.EndOffset != want.EndOffset {
			t.Errorf("end of epoch %d: %+v, want %+v", want.Query, e, want)
		}
		p.c.add("ends of leader epochs", 1)
	}
}

// Kafka's error numbers in fetch.jsonl.
const (
	errorNone             = 0
	errorOffsetOutOfRange = 1
)

func (p *comparison) fetches(t *testing.T) {
	for _, want := range readLines[truthFetch](t, filepath.Join(p.truth, "fetch.jsonl")) {
		p.fetch(t, want)
	}
}

func (p *comparison) fetch(t *testing.T, want truthFetch) {
	f, err := p.log.Read(want.Offset, log.ReadOptions{Isolation: isolation(t, want.Isolation), BytesMax: want.MaxBytes})
	p.c.add("fetches", 1)
	if want.Error == errorOffsetOutOfRange {
		if !errors.Is(err, log.ErrOffsetOutOfRange) {
			t.Errorf("fetch %+v: error %v, want %v", want, err, log.ErrOffsetOutOfRange)
		}
		p.c.add("fetches refused", 1)
		return
	}
	if err != nil || want.Error != errorNone {
		t.Errorf("fetch %+v: %v", want, err)
		return
	}
	defer f.Close()
	if f.HighWatermark != want.High || f.LogStart != want.LogStart {
		t.Errorf("fetch %+v: frontiers %+v", want, f.Frontiers)
	}
	if want.LastStable != p.about.LastStable {
		t.Errorf("fetch %+v: the truth has two last stable offsets: %d, %d", want, want.LastStable, p.about.LastStable)
	}
	p.lastStable(t, "fetch", f.Frontiers)
	bound := want.High
	if want.Isolation == log.ReadCommitted.String() {
		bound = want.LastStable
	}
	whole := p.files.fetch(want.Offset, bound, want.MaxBytes)
	if int64(len(whole)) != want.Bytes || len(whole) > 0 && digest(whole) != want.SHA256 {
		t.Errorf("fetch %+v: the rule for a broker's answer gives %d bytes", want, len(whole))
		return
	}
	if part := wholeBatches(whole); string(f.Bytes()) != string(part) {
		t.Errorf("fetch %+v: %d bytes, want the %d that are whole batches", want, len(f.Bytes()), len(part))
	}
	p.c.add("bytes fetched", len(f.Bytes()))
	p.aborted(t, want, f)
}

// aborted compares the aborted transactions of an answer: those that overlap
// it must be the truth's, in its order. The truth may hold more.
func (p *comparison) aborted(t *testing.T, want truthFetch, f *log.Fetched) {
	overlaps := func(a index.AbortedTxn) bool { return a.Last >= want.Offset && a.First < f.NextOffset() }
	all := p.files.abortedOf()
	var wanted []index.AbortedTxn
	for _, pair := range want.Aborted {
		at := slices.IndexFunc(all, func(a index.AbortedTxn) bool {
			return a.ProducerID == pair[0] && a.First == pair[1]
		})
		if at < 0 {
			t.Errorf("fetch %+v: no aborted transaction %v in the files", want, pair)
			return
		}
		if !overlaps(all[at]) {
			p.allowed(t, "aborted-beyond-answer", "fetch", "%v", pair)
			continue
		}
		wanted = append(wanted, all[at])
	}
	if !slices.Equal(f.Aborted, wanted) {
		t.Errorf("fetch %+v: aborted transactions\n     %+v\nwant %+v", want, f.Aborted, wanted)
	}
	p.c.add("aborted transactions of fetches", len(wanted))
}
