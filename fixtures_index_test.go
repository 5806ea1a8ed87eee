package oncelog_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/log"
)

// removeFiles removes the files of a directory's partitions with one of these
// extensions.
func removeFiles(t testing.TB, dir string, extensions ...string) {
	t.Helper()
	n := 0
	for _, ext := range extensions {
		paths, err := filepath.Glob(filepath.Join(dir, "*", "*"+ext))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	if n == 0 {
		t.Fatalf("%s has no files %v", dir, extensions)
	}
}

// readOffsets and its like decode index files, without the engine.
func readOffsets(t testing.TB, path string, base int64) (all []index.OffsetEntry) {
	t.Helper()
	b := mustRead(t, path)
	if len(b)%index.OffsetEntrySize != 0 {
		t.Errorf("%s: %d bytes, not a multiple of %d", path, len(b), index.OffsetEntrySize)
	}
	for ; len(b) >= index.OffsetEntrySize; b = b[index.OffsetEntrySize:] {
		all = append(all, index.OffsetEntry{Offset: base + int64(binary.BigEndian.Uint32(b)), Pos: int64(binary.BigEndian.Uint32(b[4:]))})
	}
	return all
}

func readTimes(t testing.TB, path string, base int64) (all []index.TimeEntry) {
	t.Helper()
	b := mustRead(t, path)
	if len(b)%index.TimeEntrySize != 0 {
		t.Errorf("%s: %d bytes, not a multiple of %d", path, len(b), index.TimeEntrySize)
	}
	for ; len(b) >= index.TimeEntrySize; b = b[index.TimeEntrySize:] {
		all = append(all, index.TimeEntry{Timestamp: int64(binary.BigEndian.Uint64(b)), Offset: base + int64(binary.BigEndian.Uint32(b[8:]))})
	}
	return all
}

// ruleIndexes are the entries of a segment that one run of a broker wrote, by
// the rule: before a batch, if more than the interval was appended since the
// last entry, one for it; and the greatest timestamp so far, if it grew, with
// each such entry and at the end.
func (s *segmentFile) ruleIndexes(interval int64) (offsets []index.OffsetEntry, times []index.TimeEntry) {
	since := int64(0)
	latest, entered := index.TimeEntry{Timestamp: -1, Offset: s.base}, int64(-1)
	enter := func() {
		if latest.Timestamp > entered {
			times, entered = append(times, latest), latest.Timestamp
		}
	}
	for _, b := range s.batches {
		if b.MaxTimestamp() > latest.Timestamp {
			latest = index.TimeEntry{Timestamp: b.MaxTimestamp(), Offset: b.LastOffset()}
		}
		if since > interval {
			offsets = append(offsets, index.OffsetEntry{Offset: b.LastOffset(), Pos: b.pos})
			enter()
			since = 0
		}
		since += int64(len(b.Batch))
	}
	enter()
	return offsets, times
}

// soundIndexes checks what every index must obey, whoever wrote it: entries
// lead to batches, in order, and a timestamp is the greatest up to its offset.
func (s *segmentFile) soundIndexes(offsets []index.OffsetEntry, times []index.TimeEntry) error {
	at, greatest := map[index.OffsetEntry]bool{}, map[int64]int64{}
	latest := int64(-1)
	for _, b := range s.batches {
		at[index.OffsetEntry{Offset: b.LastOffset(), Pos: b.pos}] = true
		latest = max(latest, b.MaxTimestamp())
		greatest[b.LastOffset()] = latest
	}
	for i, e := range offsets {
		if !at[e] || i > 0 && (e.Offset <= offsets[i-1].Offset || e.Pos <= offsets[i-1].Pos) {
			return fmt.Errorf("offset index, entry %d: %+v leads to no batch, or is out of order", i, e)
		}
	}
	for i, e := range times {
		if greatest[e.Offset] != e.Timestamp || i > 0 && e.Timestamp <= times[i-1].Timestamp {
			return fmt.Errorf("time index, entry %d: %+v is not the greatest timestamp up to there, or out of order", i, e)
		}
	}
	if n := len(times); latest >= 0 && (n == 0 || times[n-1].Timestamp != latest) {
		return fmt.Errorf("time index: the greatest timestamp %d is not its last entry", latest)
	}
	return nil
}

// segmentName is the name of a segment's files, and of a snapshot, without the
// extension.
func segmentName(offset int64) string { return fmt.Sprintf("%020d", offset) }

// indexes compares the index files that the engine made anew with the rule and
// with those of Kafka.
func (p *comparison) indexes(t *testing.T, h *history) {
	topic := p.log.Partition().Topic
	interval := h.interval(topic)
	for i := range p.files {
		s := &p.files[i]
		name := segmentName(s.base)
		path := filepath.Join(p.dir, name)
		offsets, times := readOffsets(t, path+".index", s.base), readTimes(t, path+".timeindex", s.base)
		ruleOffsets, ruleTimes := s.ruleIndexes(interval)
		if !slices.Equal(offsets, ruleOffsets) || !slices.Equal(times, ruleTimes) {
			t.Errorf("segment %d: indexes\n     %v %v\nwant %v %v", s.base, offsets, times, ruleOffsets, ruleTimes)
		}
		if err := s.soundIndexes(offsets, times); err != nil {
			t.Errorf("segment %d: %v", s.base, err)
		}
		var kafkaOffsets []index.OffsetEntry
		for _, e := range dumpLines(t, filepath.Join(p.truth, "dump", name+".index.txt")) {
			kafkaOffsets = append(kafkaOffsets, index.OffsetEntry{Offset: number(t, e, "offset"), Pos: number(t, e, "position")})
		}
		var kafkaTimes []index.TimeEntry
		for _, e := range dumpLines(t, filepath.Join(p.truth, "dump", name+".timeindex.txt")) {
			kafkaTimes = append(kafkaTimes, index.TimeEntry{Timestamp: number(t, e, "timestamp"), Offset: number(t, e, "offset")})
		}
		p.c.add("index entries, by the rule", len(offsets)+len(times))
		if slices.Equal(offsets, kafkaOffsets) && slices.Equal(times, kafkaTimes) {
			p.c.add("index entries, equal to Kafka's", len(offsets)+len(times))
			continue
		}
		if err := s.soundIndexes(kafkaOffsets, kafkaTimes); err != nil {
			t.Errorf("segment %d: Kafka's %v", s.base, err)
		}
		kind := "index-counts-from-restart"
		if n := s.restarts(kafkaOffsets, interval); n < 0 || n >= h.starts {
			kind = ""
		}
		if n := s.restarts(kafkaOffsets, log.DefaultIndexIntervalBytes); kind == "" && h.changed[topic] && n >= 0 && n < h.starts {
			kind = "index-interval-altered"
		}
		p.allowed(t, kind, "index", "segment %d: %v %v, Kafka %v %v", s.base, offsets, times, kafkaOffsets, kafkaTimes)
	}
}

// restarts tells how often the writer of an offset index must have set its
// count of bytes to 0 between the entries, -1 if that explains nothing. After
// a restart the count is known by its bounds only.
func (s *segmentFile) restarts(offsets []index.OffsetEntry, interval int64) (n int) {
	least, most := int64(0), int64(0)
	for _, b := range s.batches {
		if slices.Contains(offsets, index.OffsetEntry{Offset: b.LastOffset(), Pos: b.pos}) {
			if most <= interval {
				return -1
			}
			least, most = 0, 0
		} else if least > interval {
			n++
			least, most = 0, interval
		}
		most = min(most, interval)
		least, most = least+int64(len(b.Batch)), most+int64(len(b.Batch))
	}
	return n
}

// txnIndexes compares the transaction indexes made anew with Kafka's.
func (p *comparison) txnIndexes(t *testing.T) {
	for i := range p.files {
		name := segmentName(p.files[i].base)
		var got []index.AbortedTxn
		if exists(filepath.Join(p.dir, name+".txnindex")) {
			got = readSegmentFile(t, filepath.Join(p.dir, name+".log")).aborted
		}
		var want []index.AbortedTxn
		for _, e := range dumpLines(t, filepath.Join(p.truth, "dump", name+".txnindex.txt")) {
			want = append(want, index.AbortedTxn{ProducerID: number(t, e, "producerId"), First: number(t, e, "firstOffset"),
				Last: number(t, e, "lastOffset"), LastStable: number(t, e, "lastStableOffset")})
		}
		p.c.add("aborted transactions in indexes", len(got))
		if !slices.Equal(got, want) {
			p.allowed(t, "aborted-of-removed-batches", "txnindex", "segment %s:\n     %v\nKafka %v", name, got, want)
		}
	}
}

// snapshot compares the producer snapshot at the log end with Kafka's.
func (p *comparison) snapshot(t *testing.T, kind string) {
	name := segmentName(p.log.Frontiers().LogEnd) + ".snapshot"
	truth := filepath.Join(p.truth, "dump", name+".txt")
	if !exists(truth) {
		if exists(filepath.Join(p.dir, name)) {
			t.Errorf("a snapshot %s, and Kafka has none", name)
		}
		return
	}
	var want []string
	for _, e := range dumpLines(t, truth) {
		want = append(want, fmt.Sprintf("producer %d epoch %d coordinator %d txn %d at %d: sequence %d offset %d delta %d",
			number(t, e, "producerId"), number(t, e, "producerEpoch"), number(t, e, "coordinatorEpoch"), number(t, e, "currentTxnFirstOffset"),
			number(t, e, "lastTimestamp"), number(t, e, "lastSequence"), number(t, e, "lastOffset"), max(0, number(t, e, "offsetDelta"))))
	}
	infos, err := producerstate.ReadSnapshot(mustRead(t, filepath.Join(p.dir, name)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range infos {
		got = append(got, fmt.Sprintf("producer %d epoch %d coordinator %d txn %d at %d: sequence %d offset %d delta %d",
			i.Producer.ID, i.Producer.Epoch, i.CoordinatorEpoch, i.TxnFirst, i.LastTimestamp, i.LastSequence, i.LastOffset, i.OffsetDelta))
	}
	slices.Sort(got)
	slices.Sort(want)
	p.c.add("producers in snapshots", len(got))
	if slices.Equal(got, want) {
		return
	}
	if kind == "" {
		t.Errorf("snapshot\n     %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		return
	}
	p.allowed(t, kind, "snapshot", "\n     %s\nKafka %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
}
