package oncelog_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/log"
)

// What Kafka's own tools and clients said about a directory: the files of a
// truth folder. testdata/kafka-4.1.2/README.md explains each field.

// truthRecord is a line of records.jsonl.
type truthRecord struct {
	Offset      int64       `json:"offset"`
	Timestamp   int64       `json:"ts"`
	Type        string      `json:"ts_type"`
	LeaderEpoch int32       `json:"leader_epoch"`
	Key         *string     `json:"key"`
	KeyBytes    int         `json:"key_bytes"`
	KeySHA256   string      `json:"key_sha256"`
	Value       *string     `json:"value"`
	ValueBytes  int         `json:"value_bytes"`
	ValueSHA256 string      `json:"value_sha256"`
	Headers     [][]*string `json:"headers"`
	Committed   bool        `json:"committed"`
}

// truthPartition is partition.json.
type truthPartition struct {
	Topic       string          `json:"topic"`
	Partition   int32           `json:"partition"`
	TopicID     string          `json:"topic_id"`
	LeaderEpoch int32           `json:"leader_epoch"`
	LogStart    int64           `json:"log_start"`
	LastStable  int64           `json:"lso"`
	High        int64           `json:"hw"`
	Uncommitted int64           `json:"position_read_uncommitted"`
	Committed   int64           `json:"position_read_committed"`
	Producers   []truthProducer `json:"producers"`
}

type truthProducer struct {
	ID               int64 `json:"producer_id"`
	Epoch            int16 `json:"epoch"`
	LastSequence     int32 `json:"last_sequence"`
	LastTimestamp    int64 `json:"last_timestamp"`
	CoordinatorEpoch int32 `json:"coordinator_epoch"`
	TxnStart         int64 `json:"txn_start"`
}

// truthOffset is a line of list_offsets.jsonl.
type truthOffset struct {
	Isolation   string `json:"isolation"`
	Query       int64  `json:"query"`
	Error       int    `json:"error"`
	Timestamp   int64  `json:"ts"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
}

// truthEpoch is a line of epochs.jsonl.
type truthEpoch struct {
	Query       int32 `json:"query"`
	Error       int   `json:"error"`
	LeaderEpoch int32 `json:"leader_epoch"`
	EndOffset   int64 `json:"end_offset"`
}

// truthFetch is a line of fetch.jsonl.
type truthFetch struct {
	Isolation  string     `json:"isolation"`
	Offset     int64      `json:"offset"`
	MaxBytes   int        `json:"max_bytes"`
	Error      int        `json:"error"`
	High       int64      `json:"hw"`
	LastStable int64      `json:"lso"`
	LogStart   int64      `json:"log_start"`
	Aborted    [][2]int64 `json:"aborted"`
	Bytes      int64      `json:"bytes"`
	SHA256     string     `json:"sha256"`
}

// truthDamage is a line of damage.jsonl.
type truthDamage struct {
	Damage     string `json:"damage"`
	File       string `json:"file"` // slash-separated, below data
	SizeBefore int64  `json:"size_before"`
	SizeAfter  int64  `json:"size_after"`
	BatchPos   int64  `json:"batch_position"` // of a flip: where the damaged batch begins
}

// truthStep is a line of steps.jsonl, as far as topics are made in it.
type truthStep struct {
	Op     string            `json:"op"`
	Topic  string            `json:"topic"`
	Config map[string]string `json:"config"`
	Key    string            `json:"key"` // of a configuration that is altered
	Value  string            `json:"value"`
}

// isolation reads the names that Kafka's clients use.
func isolation(t testing.TB, name string) log.Isolation {
	t.Helper()
	for _, i := range []log.Isolation{log.ReadUncommitted, log.ReadCommitted} {
		if i.String() == name {
			return i
		}
	}
	t.Fatalf("isolation level %q is unknown", name)
	return 0
}

// readLines decodes a file of one JSON object a line.
func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, len(b)+1)
	for n := 1; s.Scan(); n++ {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s, line %d: %v", path, n, err)
		}
		all = append(all, v)
	}
	return all
}

func readJSON[T any](t testing.TB, path string) (v T) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// dumpLines gives the entries in the output of DumpLogSegments for one index
// or snapshot: each line's fields by name, as text. A missing file has none.
func dumpLines(t testing.TB, path string) (entries []map[string]string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		entry, words := map[string]string{}, strings.Fields(line)
		if len(words) == 0 || !slices.Contains(dumpedFirst, words[0]) {
			continue // a title, or a remark of the tool
		}
		for i := 0; i+1 < len(words); i += 2 {
			name, ok := strings.CutSuffix(words[i], ":")
			if !ok {
				t.Fatalf("%s: cannot read the line %q", path, line)
			}
			entry[name] = words[i+1]
		}
		entries = append(entries, entry)
	}
	return entries
}

// dumpedFirst are the words that a line about an entry begins with.
var dumpedFirst = []string{"offset:", "timestamp:", "version:", "producerId:"}

// number reads a field of a dump; a missing one and an empty option are -1.
func number(t testing.TB, entry map[string]string, field string) int64 {
	t.Helper()
	text, ok := entry[field]
	if !ok || text == "OptionalLong.empty" {
		return -1
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "OptionalLong["), "]")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("field %s: %v", field, err)
	}
	return n
}

// history is what the steps of a scenario say about its indexes.
type history struct {
	intervals map[string]int // the last index.interval.bytes, by topic
	changed   map[string]bool
	starts    int // of the broker
}

// readHistory reads all steps.jsonl that led to the state of a scenario: its
// own, and those of the directories that it was made from.
func readHistory(t testing.TB, root, scenario string) history {
	t.Helper()
	h := history{intervals: map[string]int{}, changed: map[string]bool{}}
	seen := map[string]bool{}
	for dir := filepath.Join(root, scenario); len(dir) >= len(root); dir = filepath.Dir(dir) {
		for _, path := range []string{filepath.Join(dir, "truth", "steps.jsonl"), filepath.Join(dir, "crashed", "truth", "steps.jsonl")} {
			if exists(path) && !seen[path] {
				seen[path] = true
				h.read(readLines[truthStep](t, path))
			}
		}
	}
	return h
}

func (h *history) read(steps []truthStep) {
	const key = "index.interval.bytes"
	for _, s := range steps {
		switch {
		case s.Op == "broker started":
			h.starts++
		case s.Op == "create topic" && s.Config[key] != "":
			h.intervals[s.Topic], _ = strconv.Atoi(s.Config[key])
		case s.Op == "alter config" && s.Key == key:
			h.intervals[s.Topic], _ = strconv.Atoi(s.Value)
			h.changed[s.Topic] = true
		}
	}
}

// interval of a topic's indexes.
func (h *history) interval(topic string) int64 {
	if n := h.intervals[topic]; n > 0 {
		return int64(n)
	}
	return log.DefaultIndexIntervalBytes
}
