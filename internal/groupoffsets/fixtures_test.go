package groupoffsets

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// fixtures holds log directories that real brokers wrote, and what they said of
// them: see the README.md there.
const fixtures = "../../testdata/kafka-4.1.2"

// truth is a line of group_offsets.jsonl: OffsetFetch. Partitions without an
// offset or an error are left out.
type truth struct {
	Group         string `json:"group"`
	RequireStable bool   `json:"require_stable"`
	Topics        string `json:"topics"`
	Error         int    `json:"error"`
	Offsets       []struct {
		Topic       string `json:"topic"`
		Partition   int32  `json:"partition"`
		Error       int    `json:"error"`
		Offset      int64  `json:"offset"`
		LeaderEpoch int32  `json:"leader_epoch"`
		Metadata    string `json:"metadata"`
	} `json:"offsets"`
}

// truthGroup is a line of groups.jsonl: ListGroups.
type truthGroup struct {
	Group    string `json:"group"`
	Type     string `json:"type"`
	Protocol string `json:"protocol"`
	State    string `json:"state"`
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

// openDirectory is a bed over a directory that Kafka wrote, and the partitions of
// all its topics.
func openDirectory(t testing.TB, dir string) (*bed, []topic.Partition) {
	t.Helper()
	b := newBed(t, 0, log.Options{})
	var all []topic.Partition
	for _, e := range must(os.ReadDir(dir)) {
		tp, err := topic.ParseDir(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		if all = append(all, tp); tp.Topic != topic.ConsumerOffsets {
			continue
		}
		if err := b.fs.Mkdir(e.Name(), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range must(os.ReadDir(filepath.Join(dir, e.Name()))) {
			if err := vfs.Replace(b.fs, e.Name()+"/"+f.Name(), must(os.ReadFile(filepath.Join(dir, e.Name(), f.Name())))); err != nil {
				t.Fatal(err)
			}
		}
		b.n++
	}
	for i := range b.n {
		b.logs = append(b.logs, b.openLog(i))
	}
	return b, all
}

// TestFixtures reads what real brokers committed and holds it against what they
// answered to OffsetFetch and ListGroups.
func TestFixtures(t *testing.T) {
	answers, stable, unstable, groups := 0, 0, 0, 0
	paths := must(filepath.Glob(fixtures + "/*/truth/group_offsets.jsonl"))
	paths = append(paths, fixtures+"/unclean/recovered/truth/group_offsets.jsonl")
	for _, path := range paths {
		dir := filepath.Dir(filepath.Dir(path))
		t.Run(filepath.Base(dir), func(t *testing.T) {
			b, partitions := openDirectory(t, filepath.Join(dir, "data"))
			for _, line := range readLines[truth](t, path) {
				got := b.answer(line, partitions)
				var want []Committed
				for _, o := range line.Offsets {
					c := Committed{Partition: topic.Partition{Topic: o.Topic, Index: o.Partition}, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata}
					if answers++; o.Error == 88 {
						c.Err = ErrUnstable
						unstable++
					} else if o.Error != 0 {
						t.Fatalf("error %d is not known here", o.Error)
					}
					want = append(want, c)
				}
				slices.SortFunc(want, func(a, b Committed) int { return a.Partition.Compare(b.Partition) })
				if !slices.Equal(got, want) || line.Error != 0 {
					t.Errorf("%q, stable %v, %s:\ngot  %+v\nwant %+v", line.Group, line.RequireStable, line.Topics, got, want)
				}
				if line.RequireStable {
					stable++
				}
			}
			if listed := filepath.Join(dir, "truth", "groups.jsonl"); exists(listed) {
				groups += b.listed(readLines[truthGroup](t, listed))
			}
			b.same()
		})
	}
	if answers < 100 || stable < 40 || unstable < 5 || groups < 15 {
		t.Errorf("%d offsets, %d answers of stable ones, %d unstable and %d groups: too few", answers, stable, unstable, groups)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// answer is what the truth has: no time of the commit, and no none.
func (b *bed) answer(line truth, partitions []topic.Partition) (all []Committed) {
	b.t.Helper()
	o := FetchOptions{RequireStable: line.RequireStable}
	var err error
	if line.Topics == "all" {
		all, err = b.s.FetchAll(ctx, nil, line.Group, o)
	} else {
		all, err = b.s.Fetch(ctx, nil, line.Group, partitions, o)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(c Committed) bool { return c.Offset == -1 && c.Err == nil })
	for i := range all {
		if all[i].CommitMs = 0; all[i].Err != nil && all[i].LeaderEpoch != -1 {
			b.t.Errorf("%+v says something", all[i])
		}
	}
	slices.SortFunc(all, func(a, b Committed) int { return a.Partition.Compare(b.Partition) })
	return all
}

// listed holds the groups against those that Kafka lists, and counts them.
func (b *bed) listed(want []truthGroup) int {
	b.t.Helper()
	got := must(b.s.Groups(ctx))
	slices.SortFunc(want, func(x, y truthGroup) int { return bytes.Compare([]byte(x.Group), []byte(y.Group)) })
	if len(got) != len(want) {
		b.t.Errorf("groups\n%+v\nwant\n%+v", got, want)
		return 0
	}
	for i, g := range got {
		w := want[i]
		protocol := g.ProtocolType
		if g.Kind == KindConsumer {
			protocol = "consumer"
		}
		if g.Name != w.Group || protocol != w.Protocol || (g.Kind == KindConsumer) != (w.Type == "Consumer") || (g.Members == 0) != (w.State == "Empty") {
			b.t.Errorf("got %+v, want %+v", g, w)
		}
	}
	return len(got)
}

// TestFixturesRecords reads every key and value that real brokers wrote, and writes
// those of offsets again: byte for byte the same.
func TestFixturesRecords(t *testing.T) {
	offsets, tombstones, classic := 0, 0, 0
	for _, path := range must(filepath.Glob(fixtures + "/*/data")) {
		b, _ := openDirectory(t, path)
		for _, l := range b.logs {
			var records batch.Records
			for at := l.Frontiers().LogStart; at < l.Frontiers().LogEnd; {
				f := must(l.Read(at, log.ReadOptions{}))
				for v := range f.Batches() {
					for records.Reset(v); !v.IsControl() && records.Next(); {
						r := records.Record()
						k, known, err := readKey(r.Key)
						switch {
						case err != nil:
							t.Errorf("%s: %x: %v", path, r.Key, err)
						case known && k.isOffset() && r.Value == nil:
							tombstones++
						case known && k.isOffset():
							sameOffset(t, &k, r)
							offsets++
						case known && k.version == keyClassic && r.Value != nil:
							if _, err := readClassic(r.Value); err != nil {
								t.Errorf("%s: %x: %v", path, r.Value, err)
							}
							classic++
						}
					}
				}
				at = max(f.NextOffset(), at+1)
				f.Close()
			}
			records.Close()
		}
	}
	if offsets < 200 || tombstones < 5 || classic < 5 {
		t.Errorf("%d offsets, %d tombstones and %d classic groups: too few", offsets, tombstones, classic)
	}
}

func sameOffset(t *testing.T, k *key, r *batch.Record) {
	t.Helper()
	f, err := readValue(r.Value)
	if err != nil {
		t.Errorf("%x: %v", r.Value, err)
		return
	}
	c := Commit{Partition: topic.Partition{Topic: string(k.topic), Index: k.partition}, Offset: f.offset, LeaderEpoch: f.leaderEpoch, Metadata: string(f.metadata)}
	if got := appendOffsetKey(nil, string(k.group), c.Partition.Topic, c.Partition.Index); !bytes.Equal(got, r.Key) {
		t.Errorf("key %x, want %x", got, r.Key)
	}
	if got := appendValue(nil, &c, f.commitMs); !bytes.Equal(got, r.Value) {
		t.Errorf("value %x, want %x", got, r.Value)
	}
}
