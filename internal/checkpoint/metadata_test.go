package checkpoint

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The topic id in the file is the one that Kafka told its clients.
func TestPartitionMetadataOfKafka(t *testing.T) {
	compared := 0
	for path, content := range kafkaFiles(t, PartitionMetadataFile) {
		m, err := ReadPartitionMetadata(content)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := AppendPartitionMetadata(nil, m); string(got) != string(content) {
			t.Errorf("%s: got %q, want %q", path, got, content)
		}
		truth := filepath.Join(strings.Replace(filepath.Dir(path), "/data/", "/truth/", 1), "partition.json")
		b, err := os.ReadFile(truth)
		if err != nil {
			continue
		}
		var told struct {
			TopicID string `json:"topic_id"`
		}
		if err := json.Unmarshal(b, &told); err != nil || told.TopicID == "" {
			continue
		}
		if compared++; m.TopicID.String() != told.TopicID {
			t.Errorf("%s: got %s, want %s", path, m.TopicID, told.TopicID)
		}
	}
	if compared == 0 {
		t.Error("no topic id compared")
	}
}

func TestParseTopicID(t *testing.T) {
	id, err := ParseTopicID("AAECAwQFBgcICQoLDA0ODw")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range id {
		if int(c) != i {
			t.Fatalf("byte %d is %d", i, c)
		}
	}
	if got := id.String(); got != "AAECAwQFBgcICQoLDA0ODw" {
		t.Errorf("got %s", got)
	}
	// The id that Kafka gave its metadata topic for good.
	if id, err := ParseTopicID("AAAAAAAAAAAAAAAAAAAAAQ"); err != nil || id != (TopicID{15: 1}) {
		t.Errorf("the metadata topic: got %v, %v", id, err)
	}
	for _, bad := range []string{
		"", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODw==", "AAECAwQFBgcICQoLDA0ODx",
		"AAECAwQFBgcICQoLDA0O/w", "AAECAwQFBgcI\nCQoLDA0ODw", "AAECAwQFBgcICQoLDA0OD\n", strings.Repeat("A", 1000),
	} {
		if id, err := ParseTopicID(bad); !errors.Is(err, ErrFormat) || id != (TopicID{}) {
			t.Errorf("%q: got %v, %v", bad, id, err)
		}
	}
}

func TestReadPartitionMetadataRefuses(t *testing.T) {
	for _, c := range []struct {
		content, reason string
		line            int
	}{
		{"", "ends before", 1},
		{"version 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "version: …", 1},
		{"version:0\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "version: …", 1},
		{"version: -1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "version is", 1},
		{"version: 0\n", "ends before", 2},
		{"version: 0\nid: AAECAwQFBgcICQoLDA0ODw", "topic_id: …", 2},
		{"version: 0\ntopic_id: AAEC", "no topic id", 2},
		{"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "all zeros", 2},
	} {
		_, err := ReadPartitionMetadata([]byte(c.content))
		checkRefused(t, c.content, err, c.line, c.reason)
	}
}

func FuzzParseTopicID(f *testing.F) {
	for _, text := range []string{"O33oiga5SCGWI1kTsJFt5A", "AAAAAAAAAAAAAAAAAAAAAQ", "", "AAECAwQFBgcICQoLDA0ODw==", "AAECAwQFBgcI\nCQoLDA0ODw", "AAECAwQFBgcICQoLDA0ODx"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseTopicID(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) || id != (TopicID{}) {
				t.Fatalf("%q: got %v, %v", text, id, err)
			}
			return
		}
		if got := id.String(); got != text {
			t.Fatalf("%q is written %q", text, got)
		}
	})
}

func FuzzReadPartitionMetadata(f *testing.F) {
	f.Add([]byte("version: 0\ntopic_id: O33oiga5SCGWI1kTsJFt5A"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadPartitionMetadata(b)
		if err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		if again, err := ReadPartitionMetadata(AppendPartitionMetadata(nil, m)); err != nil || again != m {
			t.Fatalf("%v became %v, %v", m, again, err)
		}
	})
}
