//go:build interop

package interop

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/internal/topic"
)

// truth is what a broker said about its partitions at one moment.
type truth struct {
	partitions   map[topic.Partition]*partitionTruth
	transactions []map[string]any
	groupOffsets []map[string]any
}

// order gives the partitions in a fixed order.
func (u *truth) order() []topic.Partition {
	return slices.SortedFunc(maps.Keys(u.partitions), topic.Partition.Compare)
}

type partitionTruth struct {
	LeaderEpoch             int32           `json:"leader_epoch"`
	LogStart                int64           `json:"log_start"`
	LastStable              int64           `json:"lso"`
	HighWatermark           int64           `json:"hw"`
	PositionReadUncommitted int64           `json:"position_read_uncommitted"`
	PositionReadCommitted   int64           `json:"position_read_committed"`
	Producers               []producerTruth `json:"producers"`

	records []record
	lists   []listTruth
	epochs  []epochTruth
	fetches []fetchTruth
}

type producerTruth struct {
	ID               int64 `json:"producer_id"`
	Epoch            int32 `json:"epoch"`
	LastSequence     int32 `json:"last_sequence"`
	LastTimestamp    int64 `json:"last_timestamp"`
	CoordinatorEpoch int32 `json:"coordinator_epoch"`
	TxnStart         int64 `json:"txn_start"`
}

// record is a record as a consumer gets it. Bytes are hexadecimal digits, nil
// is null; of a long value there is length and hash.
type record struct {
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"ts"`
	Timestamps  string       `json:"ts_type"`
	LeaderEpoch int32        `json:"leader_epoch"`
	Key         *string      `json:"key"`
	Value       *string      `json:"value"`
	ValueBytes  int          `json:"value_bytes"`
	ValueSHA256 string       `json:"value_sha256"`
	Headers     [][2]*string `json:"headers"`
	Committed   bool         `json:"committed"` // a read_committed consumer gets it too
}

type listTruth struct {
	Isolation   string `json:"isolation"`
	Query       int64  `json:"query"`
	Error       int16  `json:"error"`
	Timestamp   int64  `json:"ts"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
}

type epochTruth struct {
	Query       int32 `json:"query"`
	Error       int16 `json:"error"`
	LeaderEpoch int32 `json:"leader_epoch"`
	EndOffset   int64 `json:"end_offset"`
}

type fetchTruth struct {
	Isolation     string     `json:"isolation"`
	Offset        int64      `json:"offset"`
	BytesMax      int        `json:"max_bytes"`
	Error         int16      `json:"error"`
	HighWatermark int64      `json:"hw"`
	LastStable    int64      `json:"lso"`
	LogStart      int64      `json:"log_start"`
	Aborted       [][2]int64 `json:"aborted"` // producer id, first offset
	Size          int        `json:"bytes"`
	SHA256        string     `json:"sha256"`
}

// tell has the broker tell the truth, and reads it.
func (b *broker) tell(t *testing.T, name string) *truth {
	t.Helper()
	dir := filepath.Join(b.kafka.work, "truth", name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	b.run(t, "Tell", dir, "1", "40")
	return readTruth(t, dir)
}

func readTruth(t *testing.T, dir string) *truth {
	t.Helper()
	u := &truth{partitions: make(map[topic.Partition]*partitionTruth)}
	u.transactions = decodeLines[map[string]any](t, readFile(t, filepath.Join(dir, "transactions.jsonl")))
	u.groupOffsets = decodeLines[map[string]any](t, readFile(t, filepath.Join(dir, "group_offsets.jsonl")))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		tp, err := topic.ParseDir(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		at := func(name string) []byte { return readFile(t, filepath.Join(dir, e.Name(), name)) }
		p := decode[*partitionTruth](t, at("partition.json"))
		p.records = decodeLines[record](t, at("records.jsonl"))
		p.lists = decodeLines[listTruth](t, at("list_offsets.jsonl"))
		p.epochs = decodeLines[epochTruth](t, at("epochs.jsonl"))
		p.fetches = decodeLines[fetchTruth](t, at("fetch.jsonl"))
		u.partitions[tp] = p
	}
	if len(u.partitions) == 0 {
		t.Fatalf("%s: no partitions", dir)
	}
	return u
}

// byOffset finds the record at an offset.
func byOffset(records []record, offset int64) (record, bool) {
	i, found := slices.BinarySearchFunc(records, offset, func(r record, o int64) int { return cmp.Compare(r.Offset, o) })
	if !found {
		return record{}, false
	}
	return records[i], true
}
