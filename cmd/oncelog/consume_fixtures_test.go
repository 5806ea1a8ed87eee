package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/topic"
)

// consumerTruth is what Kafka's consumer and admin client said of a partition.
type consumerTruth struct {
	name string // scenario/partition
	data string // the log directory
	tp   topic.Partition

	records []object // as a read_uncommitted consumer got them, but for "committed"
	only    []object // those that a read_committed consumer got
	about   partitionAbout
	lists   []truthList
}

// partitionAbout is a partition.json.
type partitionAbout struct {
	LogStart   int64 `json:"log_start"`
	LastStable int64 `json:"lso"`
	High       int64 `json:"hw"`
	Committed  int64 `json:"position_read_committed"`
	Producers  []struct {
		ID       int64 `json:"producer_id"`
		Epoch    int   `json:"epoch"`
		TxnStart int64 `json:"txn_start"`
	} `json:"producers"`
}

// truthList is a line of list_offsets.jsonl.
type truthList struct {
	Isolation string `json:"isolation"`
	Query     int64  `json:"query"`
	Error     int    `json:"error"`
	Offset    int64  `json:"offset"`
}

// gaps tells whether the log lacks offsets, because it was compacted, or
// repeats some.
func (c *consumerTruth) gaps() bool {
	return strings.HasPrefix(c.name, "compact/kv") || strings.Contains(c.name, "/refused")
}

// of is what a consumer at an isolation level gets from an offset on.
func (c *consumerTruth) of(t testing.TB, isolation string, from int64) []object {
	all := c.records
	if isolation == "read_committed" {
		all = c.only
	}
	return slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.number(t, "offset") < from })
}

func readObjects(t testing.TB, path string) (all []object) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	for d.More() {
		var o object
		if err := d.Decode(&o); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, o)
	}
	return all
}

// consumerTruths reads the truth about the partitions of one scenario.
func consumerTruths(t testing.TB, scenario string) (all []*consumerTruth) {
	t.Helper()
	truth := filepath.Join(kafkaDir, scenario, "truth")
	entries, err := os.ReadDir(truth)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		tp, err := topic.ParseDir(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		c := &consumerTruth{name: scenario + "/" + e.Name(), data: filepath.Join(kafkaDir, scenario, "data"), tp: tp}
		c.records = readObjects(t, filepath.Join(truth, e.Name(), "records.jsonl"))
		for _, o := range c.records {
			committed := o["committed"] == true
			delete(o, "committed")
			if committed {
				c.only = append(c.only, o)
			}
		}
		decode := func(name string, v any) {
			b, err := os.ReadFile(filepath.Join(truth, e.Name(), name))
			if err == nil {
				err = json.Unmarshal(b, v)
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		decode("partition.json", &c.about)
		for _, o := range readObjects(t, filepath.Join(truth, e.Name(), "list_offsets.jsonl")) {
			c.lists = append(c.lists, truthList{o.text("isolation"), o.number(t, "query"), int(o.number(t, "error")), o.number(t, "offset")})
		}
		all = append(all, c)
	}
	return all
}

// consume runs the command on the partition.
func (c *consumerTruth) consume(t testing.TB, data, isolation, from string) (got []object, stderr string, code int) {
	t.Helper()
	kinds, stderr, code := runJSON(t, "consume", data, "--topic", c.tp.Topic, "--partition", strconv.Itoa(int(c.tp.Index)), "--isolation", isolation, "--from", from)
	for kind := range kinds {
		if kind != "record" {
			t.Errorf("%s: a line of kind %s", c.name, kind)
		}
	}
	return kinds["record"], stderr, code
}

// same compares records that were delivered with the truth, name by name.
func (c *consumerTruth) same(t testing.TB, what string, got, want []object) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s, %s: %d records, want %d", c.name, what, len(got), len(want))
		return
	}
	for i := range got {
		o := maps.Clone(got[i])
		delete(o, "kind")
		for _, name := range []string{"key", "value"} { // the truth has the hash of long ones
			if want[i][name+"_sha256"] == nil {
				continue
			}
			b, err := hex.DecodeString(o.text(name))
			if err != nil {
				t.Fatalf("%s, %s: %v", c.name, what, err)
			}
			sum := sha256.Sum256(b)
			delete(o, name)
			o[name+"_bytes"], o[name+"_sha256"] = json.Number(strconv.Itoa(len(b))), hex.EncodeToString(sum[:])
		}
		if !reflect.DeepEqual(o, want[i]) {
			t.Errorf("%s, %s: record %d:\n     %v\nwant %v", c.name, what, i, o, want[i])
			return
		}
	}
}

var isolations = []string{"read_uncommitted", "read_committed"}

// What the command prints is what Kafka's own consumer got, whole, from
// offsets and from times, and it leaves the directories as they are.
func TestConsumeAsKafkaDoes(t *testing.T) {
	before := fileStates(t, kafkaDir)
	var whole, fromOffset, fromTime, uncommitted int
	for _, data := range logDirectories(t) {
		scenario := filepath.Dir(data)
		if filepath.Base(scenario) == "crashed" {
			continue // what it holds after recovery is another test
		}
		for _, c := range consumerTruths(t, scenario) {
			for _, isolation := range isolations {
				whole += c.whole(t, isolation)
				fromOffset += c.fromOffsets(t, isolation)
				fromTime += c.fromTimes(t, isolation)
			}
			uncommitted += len(c.records) - len(c.only)
		}
	}
	t.Logf("records compared: %d of whole partitions, %d from offsets, %d from times", whole, fromOffset, fromTime)
	if whole == 0 || fromOffset == 0 || fromTime == 0 || uncommitted == 0 {
		t.Error("nothing compared")
	}
	if !maps.Equal(before, fileStates(t, kafkaDir)) {
		t.Error("the directories have changed")
	}
}

// whole compares everything, and what is told of what is left out.
func (c *consumerTruth) whole(t *testing.T, isolation string) int {
	t.Helper()
	want := c.of(t, isolation, 0)
	got, stderr, code := c.consume(t, c.data, isolation, "earliest")
	if code != exitSound {
		t.Errorf("%s, %s: exit code %d: %s", c.name, isolation, code, stderr)
	}
	c.same(t, isolation, got, want)
	end, aborted := c.about.High, 0
	if isolation == "read_committed" {
		end = c.about.Committed
		for _, o := range c.records {
			if o.number(t, "offset") < c.about.LastStable {
				aborted++
			}
		}
		aborted -= len(c.only)
	}
	if n := leftOutOf(t, stderr, `records? of aborted transactions`); n != aborted {
		t.Errorf("%s, %s: told of %d records of aborted transactions, want %d", c.name, isolation, n, aborted)
	}
	if control := end - c.about.LogStart - int64(len(want)+aborted); !c.gaps() && leftOutOf(t, stderr, `control records?`) != int(control) {
		t.Errorf("%s, %s: %q, want %d control records", c.name, isolation, stderr, control)
	}
	c.stop(t, isolation, stderr)
	return len(got)
}

// leftOutOf reads a number of what was left out.
func leftOutOf(t *testing.T, stderr, what string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^oncelog: left out: .*?(\d+) ` + what).FindStringSubmatch(stderr)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// stop compares what is told of the open transactions that stop a consumer.
func (c *consumerTruth) stop(t *testing.T, isolation, stderr string) {
	t.Helper()
	if isolation == "read_uncommitted" || c.about.LastStable >= c.about.High {
		if strings.Contains(stderr, "stopped") || strings.Contains(stderr, "open since") {
			t.Errorf("%s, %s: %s", c.name, isolation, stderr)
		}
		return
	}
	want := []string{fmt.Sprintf("stopped at the last stable offset %d, the log ends at %d\n", max(c.about.LastStable, c.about.LogStart), c.about.High)}
	for _, p := range c.about.Producers {
		if p.TxnStart >= 0 {
			want = append(want, fmt.Sprintf("transaction of producer id %d, epoch %d: open since offset %d\n", p.ID, p.Epoch, p.TxnStart))
		}
	}
	for _, line := range want {
		if !strings.Contains(stderr, line) {
			t.Errorf("%s, %s: %q lacks %q", c.name, isolation, stderr, line)
		}
	}
}

// fromOffsets compares what comes from offsets on, and the refusal of others.
func (c *consumerTruth) fromOffsets(t *testing.T, isolation string) (compared int) {
	t.Helper()
	start, end := c.about.LogStart, c.about.High
	for _, offset := range []int64{start - 1, end + 1} {
		if offset < 0 {
			continue
		}
		got, stderr, code := c.consume(t, c.data, isolation, strconv.FormatInt(offset, 10))
		if len(got) > 0 || code != exitBlind || !strings.Contains(stderr, fmt.Sprintf("offset %d is out of range: %s holds", offset, c.tp)) ||
			end > start && !strings.Contains(stderr, fmt.Sprintf("offsets %d to %d, and the next is %d\n", start, end-1, end)) {
			t.Errorf("%s, %s from %d: exit code %d, %s", c.name, isolation, offset, code, stderr)
		}
	}
	if strings.HasPrefix(c.tp.Topic, "refused-deltas") {
		return 0 // a consumer that begins behind a batch is not led astray by it
	}
	for _, offset := range []int64{start, start + 1, (start + end) / 2, start + (end-start)*4/5, c.about.LastStable, end - 1, end} {
		if offset < start || offset > end {
			continue
		}
		got, stderr, code := c.consume(t, c.data, isolation, strconv.FormatInt(offset, 10))
		if code != exitSound {
			t.Errorf("%s, %s from %d: exit code %d, %s", c.name, isolation, offset, code, stderr)
		}
		c.same(t, fmt.Sprintf("%s from %d", isolation, offset), got, c.of(t, isolation, offset))
		compared += len(got)
	}
	return compared
}

// fromTimes compares what comes from the offsets on that Kafka finds for times,
// and from "latest" on.
func (c *consumerTruth) fromTimes(t *testing.T, isolation string) (compared int) {
	t.Helper()
	const latest = -1
	for i, list := range c.lists {
		if list.Isolation != isolation || list.Error != 0 || list.Query < latest || strings.HasPrefix(c.tp.Topic, "refused-deltas") {
			continue
		}
		from := fmt.Sprintf("@%d", list.Query)
		if i%2 == 0 {
			from = time.UnixMilli(list.Query).In(time.FixedZone("", 2*3600)).Format(time.RFC3339Nano)
		}
		var want []object
		switch {
		case list.Query == latest:
			from = "latest"
		case list.Offset >= 0:
			want = c.of(t, isolation, list.Offset)
		}
		got, stderr, code := c.consume(t, c.data, isolation, from)
		if code != exitSound {
			t.Errorf("%s, %s from %s: exit code %d, %s", c.name, isolation, from, code, stderr)
		}
		c.same(t, isolation+" from "+from, got, want)
		compared += len(got)
	}
	return compared
}

// A directory that a crash left is read as it is after recovery, damaged or
// not, and stays as it is.
func TestConsumeAfterACrash(t *testing.T) {
	crashes := map[string]string{"unclean": copied(t, "unclean/crashed/data"), "unclean-prepare": copied(t, "unclean-prepare/crashed/data"),
		"unclean/torn": damagedCopy(t, "torn"), "unclean/flipped": damagedCopy(t, "flipped")}
	compared, tails := 0, 0
	for name, data := range crashes {
		before := fileStates(t, data)
		for _, c := range consumerTruths(t, name+"/recovered") {
			if c.tp.Internal() {
				continue // Kafka's coordinators went on with them
			}
			got, stderr, code := c.consume(t, data, "read_uncommitted", "earliest")
			if code != exitSound {
				t.Errorf("%s: exit code %d: %s", c.name, code, stderr)
			}
			c.same(t, name, got, c.of(t, "read_uncommitted", 0))
			compared += len(got)
			if strings.Contains(stderr, "no whole batches: recovery would cut them") {
				tails++
			}
		}
		if !maps.Equal(before, fileStates(t, data)) {
			t.Errorf("%s has changed", name)
		}
	}
	t.Logf("%d records compared, %d tails told", compared, tails)
	if compared == 0 || tails == 0 {
		t.Error("nothing compared")
	}
}
