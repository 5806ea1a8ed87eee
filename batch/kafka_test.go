package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const kafkaDir = "../testdata/kafka-4.1.2"

// kafkaRecord is a line of a truth file: a record as the Java consumer
// delivered it.
type kafkaRecord struct {
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"ts"`
	Type        string       `json:"ts_type"`
	LeaderEpoch int32        `json:"leader_epoch"`
	Key         *string      `json:"key"`
	Value       *string      `json:"value"`
	ValueBytes  *int         `json:"value_bytes"`
	ValueSHA256 string       `json:"value_sha256"`
	Headers     [][2]*string `json:"headers"`
}

// lines decodes a file of one JSON object a line.
func lines[T any](t testing.TB, path string) []T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		var v T
		if err := json.Unmarshal(scanner.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, v)
	}
	return all
}

// kafkaPartitions lists the directories of partitions for which there is a
// truth: data directory and truth directory.
func kafkaPartitions(t testing.TB) [][2]string {
	t.Helper()
	var all [][2]string
	err := filepath.WalkDir(kafkaDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "records.jsonl" {
			return err
		}
		truth := filepath.Dir(path)
		data := filepath.Join(filepath.Dir(filepath.Dir(truth)), "data", filepath.Base(truth))
		if _, err := os.Stat(data); err == nil {
			all = append(all, [2]string{data, truth})
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("no partitions in %s: %v", kafkaDir, err)
	}
	return all
}

// kafkaBatches reads the batches of all segments of a partition in order.
func kafkaBatches(t testing.TB, dir string) []Batch {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(segments)
	var all []Batch
	for _, path := range segments {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for len(data) > 0 {
			b, err := Parse(data)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			all = append(all, b)
			data = data[len(b):]
		}
	}
	return all
}

func fromHex(t testing.TB, s *string) []byte {
	if s == nil {
		return nil
	}
	b, err := hex.DecodeString(*s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (k *kafkaRecord) equal(t testing.TB, b Batch, r *Record) bool {
	want := plain{offset: k.Offset, timestamp: k.Timestamp, key: fromHex(t, k.Key), value: fromHex(t, k.Value)}
	for _, h := range k.Headers {
		want.headers = append(want.headers, RecordHeader{*h[0], fromHex(t, h[1])})
	}
	if k.ValueBytes != nil {
		sum := sha256.Sum256(r.Value)
		if len(r.Value) != *k.ValueBytes || hex.EncodeToString(sum[:]) != k.ValueSHA256 {
			return false
		}
		want.value = r.Value
	}
	return want.equal(r.plain()) && b.Timestamps().String() == k.Type && b.LeaderEpoch() == k.LeaderEpoch
}

// TestKafkaLogs reads every segment that a real broker wrote, and compares
// with what the Java consumer was given.
func TestKafkaLogs(t *testing.T) {
	batches, records := 0, 0
	codecs := map[Codec]int{}
	for _, p := range kafkaPartitions(t) {
		var partition struct {
			LogStart int64 `json:"log_start"`
		}
		text, err := os.ReadFile(filepath.Join(p[1], "partition.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &partition); err != nil {
			t.Fatal(err)
		}
		want := lines[kafkaRecord](t, filepath.Join(p[1], "records.jsonl"))
		position := partition.LogStart
		var it Records
		for _, b := range kafkaBatches(t, p[0]) {
			if err := b.Check(); err != nil {
				t.Fatalf("%s: %v: %v", p[0], b, err)
			}
			batches++
			codecs[b.Codec()]++
			for it.Reset(b); it.Next(); {
				r := it.Record()
				if b.IsControl() || r.Offset < position { // the consumer's own rule
					continue
				}
				position = r.Offset + 1
				records++
				if len(want) == 0 {
					t.Fatalf("%s: record at offset %d, which the consumer did not see", p[0], r.Offset)
				}
				if !want[0].equal(t, b, r) {
					t.Errorf("%s: %+v, want %+v", p[0], r.plain(), want[0])
				}
				want = want[1:]
			}
			if err := it.Err(); err != nil {
				t.Errorf("%s: %v: %v", p[0], b, err)
			}
		}
		it.Close()
		if len(want) > 0 {
			t.Errorf("%s: %d records missing, the first at offset %d", p[0], len(want), want[0].Offset)
		}
	}
	if records == 0 || len(codecs) != 5 {
		t.Errorf("%d records, codecs %v: the test compared too little", records, codecs)
	}
	t.Logf("%d batches, %d records, codecs %v", batches, records, codecs)
}

// TestKafkaRebuilt builds uncompressed batches of real logs anew from their
// records: the same bytes.
func TestKafkaRebuilt(t *testing.T) {
	data, markers := 0, 0
	var w Builder
	var it Records
	for _, p := range kafkaPartitions(t) {
		for _, b := range kafkaBatches(t, p[0]) {
			if m, ok, err := ReadMarker(b); err != nil {
				t.Fatalf("%s: %v: %v", p[0], b, err)
			} else if ok {
				if b.HasDeleteHorizon() || b.Timestamps() == LogAppendTime {
					continue
				}
				got := Batch(AppendMarker(nil, m))
				got.Stamp(b.BaseOffset(), b.LeaderEpoch())
				if !bytes.Equal(got, b) {
					t.Errorf("%s: marker\n%x, want\n%x", p[0], got, b)
				}
				markers++
				continue
			}
			if b.Codec() != CodecNone || b.RecordCount() != b.LastOffsetDelta()+1 || b.RecordCount() == 0 ||
				b.HasDeleteHorizon() || b.Timestamps() == LogAppendTime || b.Attributes()>>7 != 0 {
				continue
			}
			w.Reset(nil, BuilderOptions{
				BaseOffset: b.BaseOffset(), Producer: b.Producer(), BaseSequence: b.BaseSequence(), LeaderEpoch: b.LeaderEpoch(),
				Transactional: b.IsTransactional(), Control: b.IsControl(),
			})
			dense := true
			for it.Reset(b); it.Next(); {
				r := it.Record()
				dense = dense && int(r.OffsetDelta) == w.Count()
				w.Add(r.Timestamp, r.Key, r.Value, r.Headers.Append(nil)...)
			}
			got, err := w.Finish()
			if err != nil {
				t.Fatal(err)
			}
			if !dense || b.BaseTimestamp() != firstTimestamp(t, b) {
				continue
			}
			if !bytes.Equal(got, b) {
				t.Errorf("%s: %v: built\n%x, want\n%x", p[0], b, got, []byte(b))
			}
			data++
		}
	}
	if data == 0 || markers == 0 {
		t.Errorf("%d batches and %d markers: the test compared too little", data, markers)
	}
	t.Logf("%d batches, %d markers", data, markers)
}

func firstTimestamp(t testing.TB, b Batch) int64 { return mustReadAll(t, b)[0].timestamp }
