package checkpoint

import (
	"errors"
	"reflect"
	"testing"
)

func TestReadMetaOfKafka(t *testing.T) {
	for path, content := range kafkaFiles(t, MetaFile) {
		m, err := ReadMeta(content)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if m.Version != 1 || m.NodeID != 1 || m.ClusterID != "MkU3OEVBNTcwNTJENDM2Qk" {
			t.Errorf("%s: got %+v", path, m)
		}
		if _, err := ParseTopicID(m.DirectoryID); err != nil { // the same form
			t.Errorf("%s: directory id: %v", path, err)
		}
	}
}

func TestReadMeta(t *testing.T) {
	for _, c := range []struct {
		content string
		want    Meta
	}{
		{"", Meta{NodeID: -1, Properties: map[string]string{}}},
		{"version=0\nbroker.id=7\n", Meta{NodeID: 7, Properties: map[string]string{"version": "0", "broker.id": "7"}}},
		{"node.id=3\nbroker.id=7", Meta{NodeID: 3, Properties: map[string]string{"node.id": "3", "broker.id": "7"}}},
		{"! c\n  # d\r\n a\\:b : x\\\n   y\\u00e9\\t\\\\\r\nempty\n", Meta{NodeID: -1, Properties: map[string]string{"a:b": "xyé\t\\", "empty": ""}}},
		{"k\\ 1 v = w\nlast\\", Meta{NodeID: -1, Properties: map[string]string{"k 1": "v = w", "last": ""}}},
		{"pair=\\ud83d\\ude00", Meta{NodeID: -1, Properties: map[string]string{"pair": "😀"}}},
	} {
		got, err := ReadMeta([]byte(c.content))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %+v, %v; want %+v", c.content, got, err, c.want)
		}
	}
	for _, c := range []struct {
		content, reason string
		line            int
	}{
		{"#\nversion=x\n", "version is", 2},
		{"\nnode.id=-5\n", "node.id is", 2},
		{"a=1\nb=\\u00g0\n", "four digits", 2},
		{"b=\\u00", "four digits", 1},
	} {
		_, err := ReadMeta([]byte(c.content))
		checkRefused(t, c.content, err, c.line, c.reason)
	}
}

func TestCleanShutdown(t *testing.T) {
	for path, content := range kafkaFiles(t, CleanShutdownFile) {
		c, err := ReadCleanShutdown(content)
		if err != nil || c.BrokerEpoch < 0 {
			t.Errorf("%s: got %+v, %v", path, c, err)
		}
		if got := AppendCleanShutdown(nil, c); string(got) != string(content) {
			t.Errorf("%s: got %q, want %q", path, got, content)
		}
	}
	if c, err := ReadCleanShutdown(nil); err != nil || c != (CleanShutdown{BrokerEpoch: -1}) {
		t.Errorf("empty: got %+v, %v", c, err)
	}
	for _, bad := range []string{"{", "[]", `{"version":"x"}`, "\x00\x01"} {
		_, err := ReadCleanShutdown([]byte(bad))
		checkRefused(t, bad, err, 1, "not the JSON")
	}
}

func FuzzReadMeta(f *testing.F) {
	for _, content := range kafkaFiles(f, MetaFile) {
		f.Add(content)
	}
	f.Add([]byte("a\\\n b=\\u0041\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := ReadMeta(b); err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Fatalf("untyped: %v", err)
			}
		}
		if _, err := ReadCleanShutdown(b); err != nil && !errors.Is(err, ErrFormat) {
			t.Fatalf("untyped: %v", err)
		}
	})
}
