package catalog

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

func sampleManifest() *manifest {
	m := &manifest{}
	m = m.with(manifestTopic{name: "orders", id: checkpoint.TopicID{1, 2, 3}, partitions: 3, config: &TopicConfig{
		Durability: log.DurabilityOS, Cleanup: CleanupDelete | CleanupCompact, RetentionAge: 36 * time.Hour, RetentionBytes: 1 << 40,
		SegmentBytes: 1 << 20, SegmentAge: time.Minute + time.Microsecond, BatchBytesMax: 4096, Timestamps: batch.LogAppendTime,
		TimestampBeforeMax: time.Hour, TimestampAfterMax: time.Second, IndexIntervalBytes: 100,
	}, compacted: true})
	m = m.with(manifestTopic{name: "__consumer_offsets", id: checkpoint.TopicID{9}, partitions: 50, foreign: true})
	m = m.with(manifestTopic{name: "ancient", partitions: 1, foreign: true, config: &TopicConfig{}})
	m = m.with(manifestTopic{name: "gone", id: checkpoint.TopicID{7}, partitions: 2})
	return m.without("gone")
}

const sampleFile = `{
  "version": 1,
  "topics": [
    {
      "name": "__consumer_offsets",
      "id": "CQAAAAAAAAAAAAAAAAAAAA",
      "partitions": 50,
      "foreign": true
    },
    {
      "name": "ancient",
      "partitions": 1,
      "foreign": true,
      "config": {}
    },
    {
      "name": "orders",
      "id": "AQIDAAAAAAAAAAAAAAAAAA",
      "partitions": 3,
      "compacted": true,
      "config": {
        "durability": "os",
        "cleanup": "compact,delete",
        "retention_age": "36h0m0s",
        "retention_bytes": 1099511627776,
        "segment_bytes": 1048576,
        "segment_age": "1m0.000001s",
        "batch_bytes_max": 4096,
        "log_append_time": true,
        "timestamp_before_max": "1h0m0s",
        "timestamp_after_max": "1s",
        "index_interval_bytes": 100
      }
    }
  ],
  "deletions": [
    {
      "name": "gone",
      "id": "BwAAAAAAAAAAAAAAAAAAAA",
      "partitions": 2
    }
  ],
  "checksum": "`

func TestManifestFile(t *testing.T) {
	want := sampleManifest()
	b, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), sampleFile) || len(b) != len(sampleFile)+16+len(checksumTail) {
		t.Errorf("got %s", b)
	}
	got, err := decodeManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	if !equalTopics(got, want) || len(got.deletions) != 1 || got.deletions[0] != want.deletions[0] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	empty, err := (&manifest{}).encode()
	if err != nil {
		t.Fatal(err)
	}
	if m, err := decodeManifest(empty); err != nil || len(m.topics)+len(m.deletions) > 0 {
		t.Errorf("of nothing: %+v, %v", m, err)
	}
}

// Every bit counts, and every byte that is missing or too many.
func TestManifestDamage(t *testing.T) {
	b, err := sampleManifest().encode()
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, pos int, b []byte) {
		t.Helper()
		m, err := decodeManifest(b)
		if damage, ok := errors.AsType[*ManifestError](err); !ok || !errors.Is(damage, ErrManifest) || m != nil {
			t.Errorf("%s at byte %d: got %v, want a *ManifestError", what, pos, err)
		}
	}
	for pos := range b {
		for bit := range 8 {
			c := bytes.Clone(b)
			c[pos] ^= 1 << bit
			check("bit flipped", pos, c)
		}
		check("cut", pos, b[:pos])
		check("byte inserted", pos, append(append(bytes.Clone(b[:pos]), ' '), b[pos:]...))
	}
	check("byte appended", len(b), append(bytes.Clone(b), '\n'))
}

// signed puts the right checksum under a body, which ends before that line.
func signed(body string) []byte {
	return []byte(body + checksumHead + checksum([]byte(body)) + checksumTail)
}

func TestManifestContent(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"newer", "{\n  \"version\": 2,\n  \"shape\": [\"unknown\"],\n", "version 2"},
		{"no version", "{\n  \"topics\": [],\n", "version 0"},
		{"no JSON", "hello\n", "invalid character"},
		{"unknown field", "{\n  \"version\": 1,\n  \"topic\": [],\n", "unknown field"},
		{"bad name", `{"version": 1, "topics": [{"name": "a/b", "partitions": 1}],`, "invalid name"},
		{"twice", `{"version": 1, "topics": [{"name": "a", "partitions": 1}, {"name": "a", "partitions": 1}],`, "twice"},
		{"negative", `{"version": 1, "topics": [{"name": "a", "partitions": -1}],`, "partitions"},
		{"bad id", `{"version": 1, "topics": [{"name": "a", "id": "x", "partitions": 1}],`, "no topic id"},
		{"bad durability", `{"version": 1, "topics": [{"name": "a", "partitions": 1, "config": {"durability": "none"}}],`, "durability"},
		{"bad cleanup", `{"version": 1, "topics": [{"name": "a", "partitions": 1, "config": {"cleanup": "shred"}}],`, "cleanup"},
		{"bad duration", `{"version": 1, "topics": [{"name": "a", "partitions": 1, "config": {"segment_age": "1x"}}],`, "duration"},
		{"bad config", `{"version": 1, "topics": [{"name": "a", "partitions": 1, "config": {"segment_bytes": -1}}],`, "SegmentBytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeManifest(signed(c.body))
			want := ErrManifest
			if c.name == "newer" {
				want = ErrNewerFormat
			}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %v with %q", err, want, c.want)
			}
		})
	}
}

func FuzzDecodeManifest(f *testing.F) {
	b, err := sampleManifest().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-len(checksumHead)-16-len(checksumTail)])
	f.Add([]byte("{\n  \"version\": 1,\n  \"topics\": [],\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decodeManifest(signed(string(body))) // past the checksum
		if err != nil {
			if _, ok := errors.AsType[*ManifestError](err); !ok && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := decodeManifest(again); err != nil || !equalTopics(m, n) {
			t.Fatalf("%+v became %+v, %v", m, n, err)
		}
	})
}

// MadeHere names what the manifest says was made here, and nothing else.
func TestMadeHere(t *testing.T) {
	mem := vfs.NewMem()
	if made, err := MadeHere(mem, "."); err != nil || len(made) != 0 {
		t.Errorf("without a manifest: %v, %v", made, err)
	}
	m := &manifest{topics: []manifestTopic{{name: "a", partitions: 2}, {name: "b", partitions: 3, foreign: true}}, deletions: []manifestDeletion{{name: "c", partitions: 1}}}
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteTemp(mem, ManifestFile, b); err != nil {
		t.Fatal(err)
	}
	want := []topic.Partition{{Topic: "a", Index: 0}, {Topic: "a", Index: 1}}
	if made, err := MadeHere(mem, "."); err != nil || !slices.Equal(made, want) {
		t.Errorf("got %v, %v, want %v", made, err, want)
	}
	if err := vfs.WriteTemp(mem, ManifestFile, b[1:]); err != nil {
		t.Fatal(err)
	}
	if _, err := MadeHere(mem, "."); !errors.Is(err, ErrManifest) {
		t.Errorf("got %v, want ErrManifest", err)
	}
}
