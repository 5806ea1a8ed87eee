package producerstate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// kafkaFixtures are log directories of a real broker, with what it said about
// them. ONCELOG_FIXTURES names another directory of the same layout.
func kafkaFixtures(t *testing.T) []kafkaPartition {
	root := filepath.Join("..", "..", "testdata", "kafka-4.1.2")
	if other := os.Getenv("ONCELOG_FIXTURES"); other != "" {
		root = other
	}
	var partitions []kafkaPartition
	for _, pattern := range []string{"*/data/*", "*/recovered/data/*"} {
		dirs, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			if logs, _ := filepath.Glob(filepath.Join(dir, "*.log")); len(logs) > 0 {
				name, _ := filepath.Rel(root, dir)
				truth := filepath.Join(filepath.Dir(filepath.Dir(dir)), "truth", filepath.Base(dir))
				partitions = append(partitions, kafkaPartition{t: t, name: filepath.ToSlash(name), dir: dir, truth: truth})
			}
		}
	}
	if len(partitions) < 50 {
		t.Fatalf("only %d partitions below %s", len(partitions), root)
	}
	return partitions
}

type kafkaPartition struct {
	t     *testing.T
	name  string
	dir   string
	truth string
}

// compacted tells whether batches are missing in the middle: what they left in
// the producer state is in snapshots only.
func (k kafkaPartition) compacted() bool { return strings.HasPrefix(k.name, "compact/data/kv") }

func baseOf(t *testing.T, path string) int64 {
	base, err := strconv.ParseInt(strings.SplitN(filepath.Base(path), ".", 2)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// files are those of the partition with an extension, by offset.
func (k kafkaPartition) files(ext string) (paths []string) {
	paths, err := filepath.Glob(filepath.Join(k.dir, "*"+ext))
	if err != nil {
		k.t.Fatal(err)
	}
	return paths // of fixed width: sorted as names is sorted as numbers
}

// batches calls f for every batch of the log.
func (k kafkaPartition) batches(f func(h *batch.Header, m *batch.Marker)) {
	for _, path := range k.files(".log") {
		rest, err := os.ReadFile(path)
		if err != nil {
			k.t.Fatal(err)
		}
		for len(rest) > 0 {
			b, err := batch.Parse(rest)
			if err != nil {
				k.t.Fatalf("%s at %d from the end: %v", path, len(rest), err)
			}
			rest = rest[len(b):]
			h := b.Header()
			m, ok, err := batch.ReadMarker(b)
			if err != nil {
				k.t.Fatalf("%s, offset %d: %v", path, h.BaseOffset, err)
			}
			if ok {
				f(&h, &m)
			} else {
				f(&h, nil)
			}
		}
	}
}

// states are the tables at the offsets of the snapshots, by replay, and the
// last one. If the head of the log is gone, its oldest snapshot stands in.
func (k kafkaPartition) states(snapshots map[int64][]byte) (at map[int64]*Table, end *Table) {
	end = New(Options{})
	if first := baseOf(k.t, k.files(".log")[0]); snapshots[first] != nil {
		var err error
		if end, err = LoadSnapshot(Options{}, snapshots[first], 0, 0); err != nil {
			k.t.Fatal(err)
		}
	}
	at = make(map[int64]*Table)
	var due []int64
	for offset := range snapshots {
		due = append(due, offset)
	}
	slices.Sort(due)
	keep := func(upTo int64) {
		for len(due) > 0 && due[0] <= upTo {
			copied, err := LoadSnapshot(Options{}, end.AppendSnapshot(nil), 0, 0)
			if err != nil {
				k.t.Fatal(err)
			}
			at[due[0]] = copied
			due = due[1:]
		}
	}
	next := int64(0)
	k.batches(func(h *batch.Header, m *batch.Marker) {
		keep(h.BaseOffset)
		if v, err := end.Check(Request{Header: h, Marker: m, Origin: OriginReplica}); err != nil || v.Kind != Accept {
			k.t.Errorf("replica's door: %v %v", v, err)
		}
		end.Apply(h, m, 0)
		next = h.NextOffset()
	})
	keep(1 << 62)
	if next > 0 {
		mustAudit(k.t, end)
	}
	return at, end
}

func (k kafkaPartition) snapshots() map[int64][]byte {
	snapshots := make(map[int64][]byte)
	for _, path := range k.files(".snapshot") {
		b, err := os.ReadFile(path)
		if err != nil {
			k.t.Fatal(err)
		}
		snapshots[baseOf(k.t, path)] = b
	}
	return snapshots
}

// differences compares two tables as snapshots do. where says what allows a
// producer to differ.
func differences(want, got *Table, allowed func(id int64) bool) (found []string) {
	ids := make(map[int64]bool)
	for i := range want.All() {
		ids[i.Producer.ID] = true
	}
	for i := range got.All() {
		ids[i.Producer.ID] = true
	}
	for id := range ids {
		a, inWant := want.Info(id)
		b, inGot := got.Info(id)
		a.Batches, b.Batches = 0, 0
		if (a != b || inWant != inGot) && !allowed(id) {
			found = append(found, fmt.Sprintf("producer %d: Kafka %v %+v, replay %v %+v", id, inWant, a, inGot, b))
		}
	}
	slices.Sort(found)
	return found
}

// TestSnapshotsEqualReplay: the snapshots that Kafka wrote equal what Apply
// makes of its log. In a compacted log the state of batches that are gone
// remains in snapshots only, so there a snapshot may know more, and other
// producers must be equal.
func TestSnapshotsEqualReplay(t *testing.T) {
	compared, producers := 0, 0
	for _, k := range kafkaFixtures(t) {
		t.Run(k.name, func(t *testing.T) {
			k.t = t
			snapshots := k.snapshots()
			replayed, _ := k.states(snapshots)
			for offset, b := range snapshots {
				want, err := LoadSnapshot(Options{}, b, 0, 0)
				if err != nil {
					t.Fatalf("snapshot %d: %v", offset, err)
				}
				mustAudit(t, want)
				compared++
				producers += want.Len()
				for _, d := range differences(want, replayed[offset], func(id int64) bool {
					info, known := replayed[offset].Info(id)
					return k.compacted() && (!known || k.missing(info, want))
				}) {
					t.Errorf("snapshot %d: %s", offset, d)
				}
			}
		})
	}
	t.Logf("compared %d snapshots with %d producers", compared, producers)
	if compared < 150 || producers < 400 {
		t.Errorf("compared %d snapshots with %d producers only", compared, producers)
	}
}

// missing tells whether the difference comes from what compaction removed: an
// older batch or marker of that producer is all that is left.
func (k kafkaPartition) missing(info Info, want *Table) bool {
	stored, ok := want.Info(info.Producer.ID)
	return ok && (stored.LastOffset > info.LastOffset || stored.LastTimestamp != info.LastTimestamp ||
		stored.CoordinatorEpoch != info.CoordinatorEpoch)
}

// TestReadSnapshotEqualsDump: the bytes mean what Kafka's own tool says.
func TestReadSnapshotEqualsDump(t *testing.T) {
	lines := 0
	for _, k := range kafkaFixtures(t) {
		k.t = t
		for _, path := range k.files(".snapshot") {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			infos, err := ReadSnapshot(b)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			dump, err := os.ReadFile(filepath.Join(k.truth, "dump", filepath.Base(path)+".txt"))
			if os.IsNotExist(err) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(strings.TrimSpace(string(dump)), "\n")[1:]
			if len(want) != len(infos) {
				t.Fatalf("%s: %d entries, the dump has %d", path, len(infos), len(want))
			}
			var got []string
			for i := range infos {
				got = append(got, dumpLine(&infos[i]))
			}
			for i := range want {
				want[i] = strings.TrimSpace(want[i])
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s:\ngot\n%s\nwant\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			lines += len(want)
		}
	}
	if t.Logf("compared %d entries", lines); lines < 400 {
		t.Errorf("compared %d entries only", lines)
	}
}

// dumpLine is an entry as Kafka's DumpLogSegments prints it.
func dumpLine(i *Info) string {
	txn := "OptionalLong.empty"
	if i.TxnFirst >= 0 {
		txn = fmt.Sprintf("OptionalLong[%d]", i.TxnFirst)
	}
	line := fmt.Sprintf("producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d",
		i.Producer.ID, i.Producer.Epoch, i.CoordinatorEpoch, txn, i.LastTimestamp)
	if i.Batches > 0 {
		line += fmt.Sprintf(" firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
			i.FirstSequence(), i.LastSequence, i.LastOffset, i.OffsetDelta, i.LastTimestamp)
	}
	return line
}

// TestDescribeProducers: the state by replay is what the broker answered to
// DescribeProducers just before it closed the directory.
func TestDescribeProducers(t *testing.T) {
	producers := 0
	for _, k := range kafkaFixtures(t) {
		b, err := os.ReadFile(filepath.Join(k.truth, "partition.json"))
		if err != nil {
			t.Fatal(err)
		}
		var truth struct {
			HW        int64 `json:"hw"`
			LSO       int64 `json:"lso"`
			LogStart  int64 `json:"log_start"`
			Producers []struct {
				ID               int64 `json:"producer_id"`
				Epoch            int16 `json:"epoch"`
				LastSequence     int32 `json:"last_sequence"`
				LastTimestamp    int64 `json:"last_timestamp"`
				CoordinatorEpoch int32 `json:"coordinator_epoch"`
				TxnStart         int64 `json:"txn_start"`
			} `json:"producers"`
		}
		if err := json.Unmarshal(b, &truth); err != nil {
			t.Fatal(err)
		}
		t.Run(k.name, func(t *testing.T) {
			k.t = t
			snapshots := k.snapshots()
			_, end := k.states(snapshots)
			if k.compacted() { // what compaction removed is in the last snapshot
				if end, err = LoadSnapshot(Options{}, snapshots[truth.HW], 0, 0); err != nil {
					t.Fatal(err)
				}
			}
			if end.Len() != len(truth.Producers) {
				t.Errorf("%d producers, the broker has %d", end.Len(), len(truth.Producers))
			}
			for _, want := range truth.Producers {
				producers++
				got, ok := end.Info(want.ID)
				if !ok || got.Producer.Epoch != want.Epoch || got.LastSequence != want.LastSequence ||
					got.LastTimestamp != want.LastTimestamp || got.CoordinatorEpoch != want.CoordinatorEpoch ||
					got.TxnFirst != want.TxnStart {
					t.Errorf("%+v %v, the broker has %+v", got, ok, want)
				}
			}
			lso := truth.HW
			if first, ok := end.FirstUndecided(); ok {
				lso = max(first, truth.LogStart)
			}
			if lso != truth.LSO && !(strings.Contains(k.name, "cut-open") && truth.LSO < truth.LogStart) {
				t.Errorf("last stable offset %d, the broker has %d", lso, truth.LSO)
			}
		})
	}
	if t.Logf("compared %d producers", producers); producers < 150 {
		t.Errorf("compared %d producers only", producers)
	}
}
