package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/topic"
)

// crashes are directories as a crash left them, and the truth of Kafka about
// its own recovery of the same.
var crashes = []struct {
	name, recovered string
	copied          func(t testing.TB) string
	cuts            map[string]int64 // bytes, by partition
}{
	{"killed", "unclean/recovered", func(t testing.TB) string { return copied(t, "unclean/crashed/data") }, nil},
	{"prepared", "unclean-prepare/recovered", func(t testing.TB) string { return copied(t, "unclean-prepare/crashed/data") }, nil},
	// damage.jsonl: orders-0 has 422 bytes left of 439, in the middle of a batch
	// of 160; plain-0 got 40 bytes of noise, orders-1 300 zeros, which nobody keeps.
	{"torn", "unclean/torn/recovered", func(t testing.TB) string { return damagedCopy(t, "torn") }, map[string]int64{"orders-0": 160 - (439 - 422), "plain-0": 40}},
	// From the damaged batch to the end of the log: in orders-2 with the segment
	// behind it, of 1864 bytes.
	{"flipped", "unclean/flipped/recovered", func(t testing.TB) string { return damagedCopy(t, "flipped") }, map[string]int64{"orders-0": 439, "plain-0": 897, "orders-2": 1931 - 1511 + 1864}},
}

// After recover a directory holds the records that Kafka's recovery leaves, is
// sound, and recovering it again changes nothing.
func TestRecoverAsKafka(t *testing.T) {
	compared := 0
	for _, crash := range crashes {
		t.Run(crash.name, func(t *testing.T) {
			dir := crash.copied(t)
			kinds, stderr, code := runJSON(t, "recover", dir)
			s := kinds["summary"][0]
			if code != exitSound || stderr != "" || s.text("verdict") != "recovered" || s.text("was_clean") != "false" || s.text("closed_cleanly") != "true" {
				t.Fatalf("exit code %d, %s, %v", code, stderr, s)
			}
			cuts := map[string]int64{}
			for _, p := range kinds["partition"] {
				name := p.text("partition")
				compared += sameRecovered(t, dir, crash.recovered, p)
				if n := p.number(t, "cut_bytes"); n > 0 {
					cuts[name] = n
				}
				if p.text("state") != "recovered" {
					t.Errorf("%s is %s", name, p.text("state"))
				}
			}
			if !maps.Equal(cuts, crash.cuts) {
				t.Errorf("cut %v, want %v", cuts, crash.cuts)
			}
			sameCutFiles(t, kinds, crash.cuts)
			if kinds, stderr, code := runJSON(t, "verify", dir); code != exitSound || stderr != "" || kinds["summary"][0].text("verdict") != "sound" {
				t.Errorf("verify afterwards: exit code %d, %s, %v", code, stderr, kinds["finding"])
			}
			recoverAgain(t, dir)
		})
	}
	t.Logf("%d records compared", compared)
	if compared == 0 {
		t.Error("nothing compared")
	}
}

// sameRecovered compares the records of a partition with those that a consumer
// of Kafka's got after its recovery. What Kafka's coordinators appended when
// they were up again are markers, and in partitions of their own.
func sameRecovered(t *testing.T, dir, recovered string, p object) (compared int) {
	t.Helper()
	name := p.text("partition")
	tp, err := topic.ParseDir(name)
	if err != nil {
		t.Fatal(err)
	}
	truth := filepath.Join(kafkaDir, recovered, "truth", name)
	records, err := os.ReadFile(filepath.Join(truth, "records.jsonl"))
	if tp.Internal() || os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []object
	for _, r := range dumpJSON(t, "--records", filepath.Join(dir, name))["record"] {
		if r.text("control") == "null" {
			got = append(got, r)
		}
	}
	end := int64(0)
	for line := range bytes.Lines(records) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var want object
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		delete(want, "committed") // decided after the crash for some
		end = want.number(t, "offset") + 1
		if compared == len(got) {
			t.Fatalf("%s: %d records, want more", name, compared)
		}
		sameDelivery(t, truth, want, got[compared])
		compared++
	}
	if compared != len(got) {
		t.Errorf("%s: %d records, want %d", name, len(got), compared)
	}
	high := truthOf(t, recovered+"/data", name).logEnd
	if n := p.number(t, "log_end"); n < end || n > high || strings.HasPrefix(name, "plain") && n != high {
		t.Errorf("%s: log end %d, want from %d to %d", name, n, end, high)
	}
	return compared
}

// sameCutFiles looks for what was cut: the events name the files.
func sameCutFiles(t *testing.T, kinds map[string][]object, cuts map[string]int64) {
	t.Helper()
	kept := map[string]int64{}
	for _, e := range kinds["event"] {
		path := e.text("path")
		if e.text("event") != "tail cut" || path == "null" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Size() != e.number(t, "bytes") {
			t.Errorf("%s has %d bytes, the event says %s", path, info.Size(), e.text("bytes"))
		}
		kept[e.text("partition")] += info.Size()
	}
	if len(kept)+len(cuts) > 0 && !maps.Equal(kept, cuts) {
		t.Errorf("kept %v, want %v", kept, cuts)
	}
}

// recoverAgain recovers a directory that is in order.
func recoverAgain(t *testing.T, dir string) {
	t.Helper()
	before := contentsOf(t, dir)
	kinds, stderr, code := runJSON(t, "recover", dir)
	s := kinds["summary"][0]
	if code != exitSound || stderr != "" || s.text("verdict") != "clean" || s.text("was_clean") != "true" || s.text("closed_cleanly") != "true" {
		t.Errorf("again: exit code %d, %s, %v", code, stderr, s)
	}
	for _, p := range kinds["partition"] {
		if p.text("state") != "clean" {
			t.Errorf("again: %v", p)
		}
	}
	if events := len(kinds["event"]) + len(kinds["directory_event"]); events > 0 || len(kinds["partition"]) == 0 {
		t.Errorf("again: %d events, %v", events, kinds)
	}
	if after := contentsOf(t, dir); !maps.Equal(before, after) {
		for path := range after {
			if before[path] != after[path] {
				t.Errorf("again: %s has changed", path)
			}
		}
	}
}

// contentsOf are all files below dir.
func contentsOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for path := range fileStates(t, dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(b)
	}
	return files
}

// A directory that Kafka stopped cleanly is clean, and its logs stay as they
// are.
func TestRecoverOfCleanDirectory(t *testing.T) {
	for _, name := range []string{"txn/data", "compact/data", "logstart/data"} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, name)
			before := contentsOf(t, dir)
			kinds, stderr, code := runJSON(t, "recover", dir)
			if s := kinds["summary"][0]; code != exitSound || stderr != "" || s.text("verdict") != "clean" || s.text("closed_cleanly") != "true" {
				t.Errorf("exit code %d, %s, %v", code, stderr, s)
			}
			compared := 0
			for _, p := range kinds["partition"] {
				if want := truthOf(t, name, p.text("partition")); p.number(t, "log_end") != want.logEnd || p.number(t, "log_start") != want.logStart {
					t.Errorf("%v, want %+v", p, want)
				}
				compared++
			}
			after := contentsOf(t, dir)
			for path, b := range before {
				if strings.HasSuffix(path, ".log") && after[path] != b {
					t.Errorf("%s has changed", path)
				}
			}
			if compared == 0 {
				t.Error("nothing compared")
			}
			recoverAgain(t, dir)
		})
	}
}
