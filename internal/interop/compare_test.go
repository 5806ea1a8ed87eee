//go:build interop

package interop

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Kafka's numbers of the errors that the truth may hold.
const (
	noError          = 0
	offsetOutOfRange = 1
)

// comparison compares one partition as the engine has it with the truth.
type comparison struct {
	tp    topic.Partition
	log   *log.Log
	truth *partitionTruth
	files []logFile

	allowed *differencesAllowed
	d       *differences
	c       *tally
}

// compareStore compares everything that the truth says with what the engine
// says of a directory, partition by partition.
func compareStore(t *testing.T, s *oncelog.Store, data string, u *truth, allowed *differencesAllowed) *tally {
	t.Helper()
	c, d := new(tally), new(differences)
	for _, tp := range u.order() {
		l, err := s.Partition(tp)
		if err != nil {
			d.addf("%v: %v", tp, err)
			continue
		}
		files, err := readLogFiles(filepath.Join(data, tp.String()))
		if err != nil {
			t.Fatal(err)
		}
		p := comparison{tp: tp, log: l, truth: u.partitions[tp], files: files, allowed: allowed, d: d, c: c}
		p.frontiers()
		p.records()
		p.lists()
		p.epochs()
		p.producers()
		p.fetches()
		c.add("partitions", 1)
	}
	d.check(t, "the engine differs from Kafka")
	return c
}

func (p *comparison) addf(format string, args ...any) {
	p.d.addf("%v: %s", p.tp, fmt.Sprintf(format, args...))
}

func (p *comparison) frontiers() {
	f := p.log.Frontiers()
	got, want := []int64{f.LogStart, f.LastStable, f.HighWatermark}, []int64{p.truth.LogStart, p.truth.LastStable, p.truth.HighWatermark}
	if !slices.Equal(got, want) {
		p.addf("log start, last stable, high watermark: %v, want %v", got, want)
		return
	}
	p.c.add("frontiers", len(got))
}

func (p *comparison) records() {
	got, uncommitted, committed, err := consumeBoth(p.log, p.truth.LogStart)
	if err != nil {
		p.addf("%v", err)
		return
	}
	p.c.add("records at both isolation levels", compareRecords(p.d, p.tp.String(), got, p.truth.records))
	if uncommitted != p.truth.PositionReadUncommitted || committed != p.truth.PositionReadCommitted {
		p.addf("positions after reading: %d and %d, want %d and %d", uncommitted, committed, p.truth.PositionReadUncommitted, p.truth.PositionReadCommitted)
	}
}

// lists compares ListOffsets: the latest and earliest offset, the offset with
// the largest timestamp, the first at or after a timestamp.
func (p *comparison) lists() {
	f := p.log.Frontiers()
	for _, q := range p.truth.lists {
		isolation := isolationOf(q.Isolation)
		want := [2]int64{q.Timestamp, q.Offset}
		var got [2]int64
		var err error
		switch {
		case q.Query == -1 && isolation == log.ReadCommitted:
			got = [2]int64{-1, f.LastStable}
		case q.Query == -1:
			got = [2]int64{-1, f.HighWatermark}
		case q.Query == -2:
			got = [2]int64{-1, f.LogStart}
		case q.Query == -3:
			got, err = timeOffset(p.log.MaxTimestamp(isolation))
		default:
			got, err = timeOffset(p.log.OffsetForTime(q.Query, isolation))
		}
		if kind := p.kind(q, got); err == nil && got != want && kind != "" && p.allowed.allow(kind, p.tp.String()) {
			p.c.add("offsets by time that differ as docs/compatibility.md allows: "+kind, 1)
			continue
		}
		if err != nil || got != want {
			p.addf("offset for time %d, %s: timestamp and offset %v (%v), want %v", q.Query, q.Isolation, got, err, want)
			continue
		}
		p.c.add("offsets by time", 1)
	}
}

// kind names a difference from Kafka where the engine's answer is right, ""
// where it is not.
func (p *comparison) kind(q listTruth, got [2]int64) string {
	switch {
	case q.Query >= 0 && q.Offset == -1:
		if got == p.firstSince(q.Query) {
			return timeInFirstSegment
		}
	case q.Query == -3 && q.Offset >= 0 && q.Offset < p.truth.LogStart:
		if len(p.truth.records) == 0 && got[1] == -1 || got[1] >= p.truth.LogStart {
			return timeBelowStart
		}
	}
	return ""
}

// firstSince gives timestamp and offset of the first record, or marker, with
// at least this timestamp, as records and files have them.
func (p *comparison) firstSince(timestamp int64) [2]int64 {
	first := [2]int64{-1, -1}
	if i := slices.IndexFunc(p.truth.records, func(r record) bool { return r.Timestamp >= timestamp }); i >= 0 {
		first = [2]int64{p.truth.records[i].Timestamp, p.truth.records[i].Offset}
	}
	for b := range batches(p.files) {
		if first[1] >= 0 && b.BaseOffset() >= first[1] {
			break
		}
		if b.IsControl() && b.BaseOffset() >= p.truth.LogStart && b.MaxTimestamp() >= timestamp {
			return [2]int64{b.MaxTimestamp(), b.BaseOffset()}
		}
	}
	return first
}

func timeOffset(o log.TimeOffset, err error) ([2]int64, error) {
	return [2]int64{o.Timestamp, o.Offset}, err
}

func isolationOf(name string) log.Isolation {
	if name == "read_committed" {
		return log.ReadCommitted
	}
	return log.ReadUncommitted
}

func (p *comparison) epochs() {
	for _, q := range p.truth.epochs {
		e := p.log.EpochEnd(q.Query)
		if e.Epoch != q.LeaderEpoch || e.EndOffset != q.EndOffset {
			p.addf("end of leader epoch %d: %d of epoch %d, want %d of epoch %d", q.Query, e.EndOffset, e.Epoch, q.EndOffset, q.LeaderEpoch)
			continue
		}
		p.c.add("ends of leader epochs", 1)
	}
}

func (p *comparison) producers() {
	got := producersOf(p.log)
	if !slices.Equal(got, p.truth.Producers) {
		p.addf("producers\n    %+v, want\n    %+v", got, p.truth.Producers)
		return
	}
	p.c.add("producers", len(got))
}

// producersOf is what the engine knows of producers, in the words of the truth.
func producersOf(l *log.Log) []producerTruth {
	var all []producerTruth
	for _, i := range l.Producers() {
		all = append(all, producerTruth{ID: i.Producer.ID, Epoch: int32(i.Producer.Epoch), LastSequence: i.LastSequence,
			LastTimestamp: i.LastTimestamp, CoordinatorEpoch: i.CoordinatorEpoch, TxnStart: txnStart(i)})
	}
	slices.SortFunc(all, func(a, b producerTruth) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func txnStart(i producerstate.Info) int64 { return i.TxnFirst }

func (p *comparison) fetches() {
	for i := range p.truth.fetches {
		q := &p.truth.fetches[i]
		if err := p.fetch(q); err != nil {
			p.addf("fetch %s at %d, %d bytes: %v", q.Isolation, q.Offset, q.BytesMax, err)
		}
	}
}

// fetch repeats one fetch. The engine answers whole batches: those that are
// whole in Kafka's answer, and perhaps more of the next segment.
func (p *comparison) fetch(q *fetchTruth) error {
	f, err := p.log.Read(q.Offset, log.ReadOptions{Isolation: isolationOf(q.Isolation), BytesMax: q.BytesMax})
	if q.Error == offsetOutOfRange {
		if !errors.Is(err, log.ErrOffsetOutOfRange) {
			return fmt.Errorf("error %v, want %v", err, log.ErrOffsetOutOfRange)
		}
		p.c.add("fetches refused", 1)
		return nil
	}
	if err != nil || q.Error != noError {
		return fmt.Errorf("error %v, Kafka's error %d", err, q.Error)
	}
	defer f.Close()
	if got, want := [2]int64{f.Frontiers.HighWatermark, f.Frontiers.LastStable}, [2]int64{q.HighWatermark, q.LastStable}; got != want {
		return fmt.Errorf("high watermark and last stable offset %v, want %v", got, want)
	}
	last, err := p.fetchBytes(q, f.Bytes())
	if err != nil {
		return err
	}
	n, err := sameAborted(f.Aborted, q.Aborted, last)
	if err != nil {
		return err
	}
	p.c.add("aborted transactions in fetches", n)
	p.c.add("fetches", 1)
	return nil
}
