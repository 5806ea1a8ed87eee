package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the Java consumer delivers is in the dump of the partition: keys,
// values, headers, times, and whether a consumer at read_committed gets it.
func TestRecordsAsKafkaDeliversThem(t *testing.T) {
	compared, uncommitted := 0, 0
	err := filepath.WalkDir(kafkaDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "records.jsonl" {
			return err
		}
		partition := filepath.Dir(path)
		data := filepath.Join(filepath.Dir(filepath.Dir(partition)), "data", filepath.Base(partition))
		if strings.HasPrefix(filepath.Base(data), "refused-deltas") {
			return nil // its records repeat offsets, which confuses the consumer
		}
		if _, err := os.Stat(data); err != nil {
			return nil
		}
		truth, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		ours := make(map[string]object)
		for _, r := range dumpJSON(t, "--records", data)["record"] {
			ours[r.text("offset")] = r
		}
		for _, line := range strings.Split(strings.TrimSpace(string(truth)), "\n") {
			if line == "" {
				continue
			}
			d := json.NewDecoder(strings.NewReader(line))
			d.UseNumber()
			var want object
			if err := d.Decode(&want); err != nil {
				return err
			}
			got, ok := ours[want.text("offset")]
			if !ok {
				t.Errorf("%s: offset %s is missing", path, want["offset"])
				continue
			}
			sameDelivery(t, path, want, got)
			compared++
			if got["committed"] == false {
				uncommitted++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d records compared, %d of them not committed", compared, uncommitted)
	if compared == 0 || uncommitted == 0 {
		t.Error("nothing compared")
	}
}

func sameDelivery(t *testing.T, path string, want, got object) {
	t.Helper()
	for name := range want {
		switch name {
		case "value_bytes", "value_sha256":
			b, err := hex.DecodeString(got.text("value"))
			if err != nil {
				t.Errorf("%s offset %s: %v", path, want["offset"], err)
				continue
			}
			sum := sha256.Sum256(b)
			if fmt.Sprint(len(b)) != want.text("value_bytes") || hex.EncodeToString(sum[:]) != want.text("value_sha256") {
				t.Errorf("%s offset %s: value of %d bytes differs", path, want["offset"], len(b))
			}
		default:
			if got.text(name) != want.text(name) {
				t.Errorf("%s offset %s: %s is %s, want %s", path, want["offset"], name, got.text(name), want.text(name))
			}
		}
	}
}
