package checkpoint

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/topic"
)

func TestReadOffsetsOfKafka(t *testing.T) {
	files := kafkaFiles(t, RecoveryPointFile)
	want := []OffsetEntry{
		{topic.Partition{Topic: "kv-horizon-passed", Index: 0}, 521},
		{topic.Partition{Topic: topic.TransactionState, Index: 0}, 80},
		{topic.Partition{Topic: topic.TransactionState, Index: 1}, 186},
		{topic.Partition{Topic: "kv-open", Index: 0}, 163},
		{topic.Partition{Topic: "kv-codec", Index: 0}, 531},
		{topic.Partition{Topic: "kv", Index: 0}, 535},
	}
	got, err := ReadOffsets(files[kafkaDir+"/compact/data/"+RecoveryPointFile])
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
}

// What Kafka wrote is written again byte for byte, but for the empty file.
func TestOffsetsRoundTrip(t *testing.T) {
	for _, name := range []string{RecoveryPointFile, LogStartFile, HighWatermarkFile, CleanerFile} {
		for path, content := range kafkaFiles(t, name) {
			entries, err := ReadOffsets(content)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if len(content) == 0 {
				if len(entries) != 0 {
					t.Errorf("%s: %d entries in an empty file", path, len(entries))
				}
				continue
			}
			if got := AppendOffsets(nil, entries); string(got) != string(content) {
				t.Errorf("%s: got %q, want %q", path, got, content)
			}
		}
	}
}

func TestEpochsRoundTrip(t *testing.T) {
	for path, content := range kafkaFiles(t, LeaderEpochFile) {
		entries, err := ReadEpochs(content)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := AppendEpochs(nil, entries); len(content) != 0 && string(got) != string(content) {
			t.Errorf("%s: got %q, want %q", path, got, content)
		}
	}
	got, err := ReadEpochs([]byte("0\r\n2\r\n0 0\r\n3\t 8123"))
	want := []EpochEntry{{0, 0}, {3, 8123}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestReadOffsetsRefuses(t *testing.T) {
	for _, c := range []struct {
		content, reason string
		line            int
	}{
		{"\n", "want the version", 1},
		{"x\n1\na 0 1\n", "want the version", 1},
		{"1\n1\na 0 1\n", "version 1 is unknown", 1},
		{"-1\n0\n", "version -1 is unknown", 1},
		{"0\n", "before the number of entries", 2},
		{"0\n-1\n", "number of entries", 2},
		{"0\n99999999999\na 0 1\n", "number of entries", 2},
		{"0\n2147483647\na 0 1\n", "after 1 of the 2147483647", 4},
		{"0\n1\na 0 1\nb 0 1\n", "more entries than the 1", 4},
		{"0\n1\na 0 1\n\n", "topic partition offset", 4},
		{"0\n1\na 0\n", "topic partition offset", 3},
		{"0\n1\na 0 1 2\n", "topic partition offset", 3},
		{"0\n1\na -1 1\n", "partition is", 3},
		{"0\n1\na 2147483648 1\n", "partition is", 3},
		{"0\n1\na 0 -1\n", "offset is", 3},
		{"0\n1\na 0 9223372036854775808\n", "offset is", 3},
		{"0\n1\na/b 0 1\n", "invalid name", 3},
		{"0\n1\n" + strings.Repeat("x", 1000) + "\n", "…", 3},
	} {
		entries, err := ReadOffsets([]byte(c.content))
		checkRefused(t, c.content, err, c.line, c.reason)
		if entries != nil {
			t.Errorf("%.40q: entries beside the error", c.content)
		}
	}
}

func TestReadEpochsRefuses(t *testing.T) {
	for _, c := range []struct {
		content, reason string
		line            int
	}{
		{"0\n1\n0 0 0\n", "epoch start-offset", 3},
		{"0\n2\n0 0\n-1 5\n", "epoch is", 4},
		{"0\n2\n0 0\n1 x\n", "start offset is", 4},
		{"0\n2\n0 0\n", "after 1 of the 2", 4},
	} {
		_, err := ReadEpochs([]byte(c.content))
		checkRefused(t, c.content, err, c.line, c.reason)
	}
}

// checkRefused checks that err is the typed error with line and reason.
func checkRefused(t *testing.T, content string, err error, line int, reason string) {
	t.Helper()
	f, ok := errors.AsType[*FormatError](err)
	if !ok || !errors.Is(err, ErrFormat) {
		t.Errorf("%.40q: got %v, want a *FormatError", content, err)
		return
	}
	if f.Line != line || !strings.Contains(f.Reason, reason) || len(f.Error()) > 300 {
		t.Errorf("%.40q: got line %d, %q; want line %d, %q", content, f.Line, f.Reason, line, reason)
	}
}

func FuzzReadOffsets(f *testing.F) {
	for _, content := range kafkaFiles(f, HighWatermarkFile) {
		f.Add(content)
	}
	f.Add([]byte("0\n3\na 0 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := ReadOffsets(b)
		if err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		again, err := ReadOffsets(AppendOffsets(nil, entries))
		if err != nil || !reflect.DeepEqual(again, entries) {
			t.Fatalf("%v became %v, %v", entries, again, err)
		}
	})
}

func FuzzReadEpochs(f *testing.F) {
	for _, content := range kafkaFiles(f, LeaderEpochFile) {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := ReadEpochs(b)
		if err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		again, err := ReadEpochs(AppendEpochs(nil, entries))
		if err != nil || !reflect.DeepEqual(again, entries) {
			t.Fatalf("%v became %v, %v", entries, again, err)
		}
	})
}

func BenchmarkReadOffsets(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"partitions=10", 10}, {"partitions=10000", 10_000}} {
		b.Run(c.name, func(b *testing.B) {
			entries := make([]OffsetEntry, c.n)
			for i := range entries {
				entries[i] = OffsetEntry{topic.Partition{Topic: "orders", Index: int32(i)}, int64(i) << 20}
			}
			content := AppendOffsets(nil, entries)
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadOffsets(content); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
