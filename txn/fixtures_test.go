package txn

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// fixtures holds log directories that real brokers wrote, and what they said of
// them: see the README.md there.
const fixtures = "../testdata/kafka-4.1.2"

// truth is a line of transactions.jsonl: DescribeTransactions.
type truth struct {
	TransactionalID string   `json:"transactional_id"`
	Error           int      `json:"error"`
	State           string   `json:"state"`
	ProducerID      int64    `json:"producer_id"`
	Epoch           int16    `json:"epoch"`
	TimeoutMs       int64    `json:"timeout_ms"`
	StartMs         int64    `json:"start_ms"`
	Partitions      []string `json:"partitions"`
}

func readLines[T any](t testing.TB, path string) (all []T) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, v)
	}
	return all
}

// openDirectory is a bed over the partitions of a directory that Kafka wrote.
func openDirectory(t testing.TB, dir string, o Options) *bed {
	t.Helper()
	b := &bed{t: t, fs: vfs.NewMem(), o: o, reserved: 1 << 48, first: 1 << 48, now: time.UnixMilli(at0)}
	b.logs, b.gone, b.broken = map[topic.Partition]*log.Log{}, map[topic.Partition]bool{}, map[topic.Partition]error{}
	b.states = 0
	for _, e := range must(os.ReadDir(dir)) {
		tp, err := topic.ParseDir(e.Name())
		if err != nil || !e.IsDir() || tp.Topic == topic.ClusterMetadata {
			continue
		}
		copyIn(t, b.fs, filepath.Join(dir, e.Name()), e.Name())
		b.openLog(tp)
		if tp.Topic == topic.TransactionState {
			b.states++
		}
	}
	b.wire()
	b.open()
	return b
}

func copyIn(t testing.TB, to vfs.FS, from, name string) {
	t.Helper()
	err := to.Mkdir(name, 0o755)
	for _, e := range must(os.ReadDir(from)) {
		if err == nil && e.Type().IsRegular() {
			err = vfs.Replace(to, name+"/"+e.Name(), must(os.ReadFile(filepath.Join(from, e.Name()))))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestFixtures reads the transaction logs of real brokers and holds what comes of
// it against what they answered to DescribeTransactions.
func TestFixtures(t *testing.T) {
	described, states := 0, map[State]int{}
	err := filepath.WalkDir(fixtures, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "transactions.jsonl" {
			return err
		}
		scenario := filepath.Dir(filepath.Dir(path))
		b := openDirectory(t, filepath.Join(scenario, "data"), Options{ReadOnly: true})
		if b.states == 0 { // a directory of damaged topics only
			if _, err := b.c.Describe(ctx, "x"); !errors.Is(err, ErrUnknownID) {
				t.Errorf("%s: %v", scenario, err)
			}
			return nil
		}
		lines := readLines[truth](t, path)
		for _, want := range lines {
			got, err := b.c.Describe(ctx, want.TransactionalID)
			if err != nil || want.Error != 0 {
				t.Errorf("%s: %s: %v, Kafka answers error %d", scenario, want.TransactionalID, err, want.Error)
				continue
			}
			b.wantTruth(scenario, want, got)
			described++
			states[got.State]++
		}
		if got := len(b.c.List(Filter{})); got != len(lines) {
			t.Errorf("%s: %d ids, Kafka lists %d", scenario, got, len(lines))
		}
		if _, err := b.c.InitProducerID(ctx, "x", InitOptions{}); err != log.ErrReadOnly {
			t.Errorf("%s: a producer is initialised: %v", scenario, err)
		}
		return nil
	})
	if err != nil || described < 60 || states[Ongoing] == 0 || states[CompleteAbort] == 0 || states[Empty] == 0 {
		t.Errorf("%d described, %v, %v", described, states, err)
	}
}

func (b *bed) wantTruth(scenario string, want truth, got Description) {
	b.t.Helper()
	start, partitions := int64(-1), []string{}
	if !got.Start.IsZero() {
		start = got.Start.UnixMilli()
	}
	for _, tp := range got.Partitions {
		partitions = append(partitions, tp.String())
	}
	slices.Sort(want.Partitions)
	if got.State.String() != want.State || got.Producer != (batch.Producer{ID: want.ProducerID, Epoch: want.Epoch}) ||
		got.Timeout.Milliseconds() != want.TimeoutMs || start != want.StartMs || !slices.Equal(partitions, want.Partitions) {
		b.t.Errorf("%s: %+v, Kafka says %+v", scenario, got, want)
	}
}

// TestFixturesResumed opens what a broker left that was killed between decisions
// and their completion: they end as they did when it started again.
func TestFixturesResumed(t *testing.T) {
	type partition struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Producers []struct {
			ProducerID int64 `json:"producer_id"`
			Epoch      int16 `json:"epoch"`
			TxnStart   int64 `json:"txn_start"`
		} `json:"producers"`
	}
	scenario := filepath.Join(fixtures, "unclean-prepare")
	b := openDirectory(t, filepath.Join(scenario, "crashed", "data"), Options{})
	if len(b.events(EventResumed)) == 0 {
		t.Error("there was nothing to resume")
	}
	for _, want := range readLines[truth](t, filepath.Join(scenario, "recovered", "truth", "transactions.jsonl")) {
		got, err := b.c.Describe(ctx, want.TransactionalID)
		if err != nil {
			t.Error(err)
			continue
		}
		b.wantTruth(scenario, want, got)
	}
	checked := 0
	for _, path := range must(filepath.Glob(filepath.Join(scenario, "recovered", "truth", "*", "partition.json"))) {
		for _, want := range readLines[partition](t, path) {
			l := b.logs[topic.Partition{Topic: want.Topic, Index: want.Partition}]
			for _, p := range want.Producers {
				checked++
				if got, known := l.Producer(p.ProducerID); !known || got.Producer.Epoch != p.Epoch || got.TxnFirst != p.TxnStart {
					t.Errorf("%s: %+v, Kafka says %+v", l.Partition(), got, p)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no producer was compared")
	}
	for tp, l := range b.logs {
		if f := l.Frontiers(); f.LastStable != f.LogEnd && !strings.HasPrefix(tp.Topic, "__") {
			t.Errorf("%s is stable to %d and ends at %d", tp, f.LastStable, f.LogEnd)
		}
	}
}
