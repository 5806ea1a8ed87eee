package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
)

// runJSON runs a command with -o json, and gives its lines by kind, what it
// wrote to standard error, and its exit code.
func runJSON(t testing.TB, args ...string) (kinds map[string][]object, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append(args, "-o", "json"), &out, &errs)
	return objectsByKind(t, out.Bytes()), errs.String(), code
}

func objectsByKind(t testing.TB, out []byte) map[string][]object {
	t.Helper()
	kinds := map[string][]object{}
	d := json.NewDecoder(bytes.NewReader(out))
	d.UseNumber()
	for d.More() {
		var o object
		if err := d.Decode(&o); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		kinds[o.text("kind")] = append(kinds[o.text("kind")], o)
	}
	return kinds
}

// number is a member that must be a number.
func (o object) number(t testing.TB, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(o.text(name), 10, 64)
	if err != nil {
		t.Fatalf("%s of %v: %v", name, o, err)
	}
	return n
}

// fileStates describes every file and directory below dir: mode, time of the
// last change, size, and content.
func fileStates(t testing.TB, dir string) map[string]string {
	t.Helper()
	states := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		state := fmt.Sprintf("%s %d %s", info.Mode(), info.Size(), info.ModTime())
		if !e.IsDir() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			state += fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		states[path] = state
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// copied is a copy of directories of Kafka's, the later over the earlier.
func copied(t testing.TB, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(kafkaDir, name), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			below, err := filepath.Rel(filepath.Join(kafkaDir, name), path)
			if err != nil {
				return err
			}
			if e.IsDir() {
				return os.MkdirAll(filepath.Join(dir, below), 0o755)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, below), b, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// damagedCopy is the crashed directory "unclean" with the damage of one of its
// children.
func damagedCopy(t testing.TB, child string) string {
	t.Helper()
	dir := copied(t, "unclean/crashed/data", "unclean/"+child+"/crashed/data")
	b, err := os.ReadFile(filepath.Join(kafkaDir, "unclean", child, "crashed/damage.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var d struct{ Damage, File string }
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		if d.Damage == "delete" {
			if err := os.Remove(filepath.Join(dir, d.File)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// logDirectories are the paths of all whole log directories of Kafka's, below
// kafkaDir.
func logDirectories(t testing.TB) (names []string) {
	t.Helper()
	err := filepath.WalkDir(kafkaDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() || e.Name() != "data" {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, checkpoint.MetaFile)); err == nil {
			names = append(names, strings.TrimPrefix(path, kafkaDir+"/"))
		}
		return filepath.SkipDir
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("log directories: %v, %v", names, err)
	}
	return names
}

// partitionTruth is what Kafka's tools say of a partition. -1: nothing.
type partitionTruth struct{ batches, records, logStart, logEnd, open int64 }

// truthOf reads the truth about a partition of a log directory.
func truthOf(t testing.TB, directory, partition string) partitionTruth {
	t.Helper()
	dir := filepath.Join(kafkaDir, filepath.Dir(directory), "truth", partition)
	p := partitionTruth{logStart: -1, logEnd: -1, open: -1}
	dumps, err := filepath.Glob(filepath.Join(dir, "dump", "*.log.txt"))
	if err != nil || len(dumps) == 0 {
		t.Fatalf("%s: dumps %q, %v", dir, dumps, err)
	}
	for _, path := range dumps {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range dumpedLines(string(b)) {
			switch {
			case strings.HasPrefix(line, "baseOffset: "):
				p.batches++
			case !strings.Contains(line, "endTxnMarker: "):
				p.records++
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "partition.json"))
	if os.IsNotExist(err) {
		return p // nobody could be asked before the crash
	}
	var told struct {
		LogStart  int64 `json:"log_start"`
		High      int64 `json:"hw"`
		Producers []struct {
			TxnStart int64 `json:"txn_start"`
		}
	}
	if err == nil {
		err = json.Unmarshal(b, &told)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.logStart, p.logEnd, p.open = told.LogStart, told.High, 0
	for _, producer := range told.Producers {
		if producer.TxnStart >= 0 {
			p.open++
		}
	}
	return p
}

// Whatever Kafka wrote is sound, stopped cleanly or killed; it is counted as
// Kafka's own tools count it, and nothing of it changes.
func TestVerifyWhatKafkaWrote(t *testing.T) {
	var compared partitionTruth
	for _, name := range logDirectories(t) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(kafkaDir, name)
			before := fileStates(t, dir)
			kinds, stderr, code := runJSON(t, "verify", dir)
			if code != exitSound || stderr != "" {
				t.Errorf("exit code %d, %s", code, stderr)
			}
			if !maps.Equal(before, fileStates(t, dir)) {
				t.Error("the directory has changed")
			}
			for _, f := range kinds["finding"] {
				// What Kafka stores but should not is in the plain topics, on
				// purpose; two directories are copies of some partitions.
				partition := f.text("partition")
				_, err := os.Stat(filepath.Join(dir, partition))
				if left := f.text("about") == "points" && os.IsNotExist(err); !left && !strings.HasPrefix(partition, "refused") {
					t.Errorf("found %v", f)
				}
			}
			var sum partitionTruth
			for _, p := range kinds["partition"] {
				want := truthOf(t, name, p.text("partition"))
				sameCounts(t, p, want)
				sum.batches, sum.records = sum.batches+want.batches, sum.records+want.records
				compared.logEnd += max(want.logEnd, 0)
				compared.open += max(want.open, 0)
			}
			s := kinds["summary"][0]
			if s.text("verdict") != "sound" || s.number(t, "batches") != sum.batches || s.number(t, "records") != sum.records || s.number(t, "damage") != 0 {
				t.Errorf("summary is %v, want %+v", s, sum)
			}
			compared.batches, compared.records = compared.batches+sum.batches, compared.records+sum.records
		})
	}
	t.Logf("compared in all: %+v", compared)
	if compared.batches == 0 || compared.records == 0 || compared.logEnd == 0 || compared.open == 0 {
		t.Error("nothing compared")
	}
}

func sameCounts(t *testing.T, p object, want partitionTruth) {
	t.Helper()
	if p.text("complete") != "true" || p.number(t, "batches") != want.batches || p.number(t, "records") != want.records {
		t.Errorf("%v, want %+v", p, want)
	}
	if want.logEnd >= 0 && (p.number(t, "log_start") != want.logStart || p.number(t, "log_end") != want.logEnd || p.number(t, "open") != want.open) {
		t.Errorf("%v, want %+v", p, want)
	}
}

// Torn tails, zeros, noise, flipped bits and missing indexes above the recovery
// point of a killed broker are told, and are no damage.
func TestVerifyAfterACrash(t *testing.T) {
	for child, want := range map[string]map[string]string{ // partitions, and what is said of them
		"torn":    {"orders-0": "torn tail of ", "orders-1": "300 zero bytes follow", "plain-0": "torn tail of 40 bytes", "orders-2": "the index is missing"},
		"flipped": {"orders-0": "recovery cuts 439 bytes", "plain-0": "torn tail of 897 bytes", "orders-2": "recovery cuts 420 bytes"},
	} {
		t.Run(child, func(t *testing.T) {
			dir := damagedCopy(t, child)
			before := fileStates(t, dir)
			kinds, stderr, code := runJSON(t, "verify", dir)
			if code != exitSound || stderr != "" || kinds["directory"][0].text("stopped_cleanly") != "false" {
				t.Errorf("exit code %d, %s", code, stderr)
			}
			if !maps.Equal(before, fileStates(t, dir)) {
				t.Error("the directory has changed")
			}
			said := map[string]string{}
			for _, f := range kinds["finding"] {
				said[f.text("partition")] += f.text("severity") + ": " + f.text("text") + "\n"
			}
			for partition, text := range want {
				if !strings.Contains(said[partition], text) {
					t.Errorf("%s: %q, want %q", partition, said[partition], text)
				}
			}
		})
	}
}

// Partitions of Kafka 3.1 of which little more than the .log files are left.
func TestVerifyOldSegments(t *testing.T) {
	const dir = "../../testdata/kafka-3.1.0"
	before := fileStates(t, dir)
	kinds, stderr, code := runJSON(t, "verify", dir)
	if code != exitSound || stderr != "" || len(kinds["partition"]) == 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if !maps.Equal(before, fileStates(t, dir)) {
		t.Error("the directory has changed")
	}
	compared := int64(0)
	for _, p := range kinds["partition"] {
		var batches, records, end int64
		paths, err := filepath.Glob(filepath.Join(dir, p.text("partition"), "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for len(content) > 0 {
				b, err := batch.Parse(content)
				if err != nil {
					t.Fatal(err)
				}
				batches, end = batches+1, b.NextOffset()
				if !b.IsControl() {
					records += int64(b.RecordCount())
				}
				content = content[len(b):]
			}
		}
		if p.number(t, "batches") != batches || p.number(t, "records") != records || p.number(t, "log_end") != end || p.number(t, "damage") != 0 {
			t.Errorf("%v, want %d batches, %d records, end %d", p, batches, records, end)
		}
		compared += records
	}
	if compared == 0 {
		t.Error("nothing compared")
	}
}
