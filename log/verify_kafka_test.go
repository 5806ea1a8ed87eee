package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// kafkaDir holds directories that real brokers wrote.
const kafkaDir = "../testdata/kafka-4.1.2"

// kafkaRoots are its log directories, by the name of their last folders:
// those that a broker stopped cleanly, and those that kill -9 left.
func kafkaRoots(t testing.TB) (roots []string) {
	t.Helper()
	err := filepath.WalkDir(kafkaDir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == "data" {
			if _, err := os.Stat(filepath.Join(path, "meta.properties")); err == nil {
				roots = append(roots, path)
			}
			return filepath.SkipDir
		}
		return err
	})
	if err != nil || len(roots) == 0 {
		t.Fatalf("log directories under %s: %v, %v", kafkaDir, roots, err)
	}
	return roots
}

// kafkaPartition gives the options under which a partition of a log directory
// is verified: what the files at its root say.
func kafkaPartition(t testing.TB, root, name string) (Options, VerifyOptions) {
	t.Helper()
	tp, err := topic.ParseDir(name)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{FS: vfs.Machine(), Dir: filepath.Join(root, name), Partition: tp, ReadOnly: true}
	_, err = os.Stat(filepath.Join(root, checkpoint.CleanShutdownFile))
	o.Clean = err == nil
	offsetIn := func(file string) (int64, bool) {
		b, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, false
		}
		if err != nil {
			t.Fatal(err)
		}
		entries, err := checkpoint.ReadOffsets(b)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(entries, func(e checkpoint.OffsetEntry) bool { return e.Partition == tp })
		if i < 0 {
			return 0, false
		}
		return entries[i].Offset, true
	}
	o.Points.RecoveryPoint, _ = offsetIn(checkpoint.RecoveryPointFile)
	o.Points.LogStart, _ = offsetIn(checkpoint.LogStartFile)
	o.Points.HighWatermark, _ = offsetIn(checkpoint.HighWatermarkFile)
	_, cleaned := offsetIn(checkpoint.CleanerFile)
	return o, VerifyOptions{Compacted: cleaned}
}

// partitionsIn are the names of the partition directories of a log directory.
func partitionsIn(t testing.TB, root string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := topic.ParseDir(e.Name()); err == nil && e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func tell(r VerifyReport) string {
	var s strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&s, "\n\t%s: %s: %s byte %d offset %d: %s", f.Severity, f.Kind, f.File, f.Pos, f.Offset, f.Text)
	}
	return s.String()
}

// Everything that a broker left is sound, be it stopped, killed or recovered.
// Notes and warnings have reasons that are known.
func TestVerifyKafkaIsSound(t *testing.T) {
	partitions, batches := 0, int64(0)
	for _, root := range kafkaRoots(t) {
		for _, name := range partitionsIn(t, root) {
			t.Run(strings.TrimPrefix(root, kafkaDir+"/")+"/"+name, func(t *testing.T) {
				o, vo := kafkaPartition(t, root, name)
				r, err := Verify(t.Context(), o, vo)
				if err != nil {
					t.Fatal(err)
				}
				if r.Damage > 0 {
					t.Errorf("%d findings of damage:%s", r.Damage, tell(r))
				} else if len(r.Findings) > 0 {
					t.Logf("%s", tell(r))
				}
				partitions, batches = partitions+1, batches+r.Batches
			})
		}
	}
	t.Logf("%d partitions, %d batches", partitions, batches)
	if partitions == 0 || batches == 0 {
		t.Error("nothing verified")
	}
}
