package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// filled is a directory with two topics of ours and 100 records in each of
// three partitions, over several segments, closed cleanly.
func filled(t testing.TB, fsys vfs.FS) {
	t.Helper()
	c := mustOpen(t, on(fsys))
	mustCreate(t, c, "a", TopicConfig{Partitions: 2})
	mustCreate(t, c, "b", TopicConfig{Durability: log.DurabilityOS})
	for _, tp := range c.all() {
		mustAppend(t, c, tp.Partition, numbers(100)...)
	}
	mustClose(t, c)
}

func checkFilled(t testing.TB, c *Catalog) {
	t.Helper()
	n := 0
	for _, p := range c.all() {
		if got := values(t, c, p.Partition); !slices.Equal(got, numbers(100)) {
			t.Errorf("%s holds %d records, want 100", p.Partition, len(got))
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d partitions, want 3", n)
	}
}

func TestOpenCloseReopen(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": newMem(t), "machine": vfs.Machine()} {
		t.Run(name, func(t *testing.T) {
			o := on(fsys)
			if name == "machine" {
				o.Dir = filepath.Join(t.TempDir(), "made")
			}
			c := mustOpen(t, o)
			mustCreate(t, c, "a", TopicConfig{Partitions: 2, SegmentBytes: 1 << 10})
			want := numbers(60)
			mustAppend(t, c, at("a", 1), want...)
			for range 3 {
				mustClose(t, c)
				if err := c.Close(t.Context()); err != nil {
					t.Fatalf("second Close: %v", err)
				}
				if _, err := c.Partition(at("a", 1)); !errors.Is(err, log.ErrClosed) {
					t.Fatalf("after Close: %v", err)
				}
				c = mustOpen(t, o)
				if got := values(t, c, at("a", 1)); !slices.Equal(got, want) {
					t.Fatalf("got %v", got)
				}
				if got := values(t, c, at("a", 0)); len(got) > 0 {
					t.Fatalf("got %v", got)
				}
				if topics := c.Topics(); len(topics) != 1 || topics[0].Config.SegmentBytes != 1<<10 || !topics[0].Stored || topics[0].Foreign || !slices.Equal(topics[0].Partitions, []int32{0, 1}) {
					t.Fatalf("got %+v", topics)
				}
				mustAppend(t, c, at("a", 1), "more")
				want = append(want, "more")
			}
		})
	}
}

// The mark of a clean stop is there only while the directory is closed, and
// what a Close leaves at the root is what Kafka knows, and ours.
func TestCleanMark(t *testing.T) {
	mem := newMem(t)
	put(t, mem, checkpoint.CleanShutdownFile, `{"version":0,"brokerEpoch":119}`)
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "a", TopicConfig{})
	mustAppend(t, c, at("a", 0), "1")
	if exists(mem.CrashClone(vfs.CrashOptions{}), checkpoint.CleanShutdownFile) {
		t.Error("the mark is there while the directory is open")
	}
	mustClose(t, c)
	if got, want := content(t, mem.CrashClone(vfs.CrashOptions{}), checkpoint.CleanShutdownFile), `{"version":0,"brokerEpoch":119}`; got != want {
		t.Errorf("the mark is %q, want %q", got, want)
	}
	entries, err := mem.ReadDir(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{checkpoint.CleanShutdownFile, LockFile, "a-0", ManifestFile, checkpoint.RecoveryPointFile, checkpoint.HighWatermarkFile}; !slices.Equal(names, want) {
		t.Errorf("root holds %v, want %v", names, want)
	}
}

func TestSecondOpener(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": newMem(t), "machine": vfs.Machine()} {
		t.Run(name, func(t *testing.T) {
			o := on(fsys)
			if name == "machine" {
				o.Dir = t.TempDir()
			}
			c := mustOpen(t, o)
			mustCreate(t, c, "a", TopicConfig{})
			mustAppend(t, c, at("a", 0), "1")
			before := tree(t, fsys, o.Dir)
			_, err := Open(o)
			if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
				t.Errorf("got %v, want ErrLocked with the holder's process id", err)
			}
			sameTree(t, tree(t, fsys, o.Dir), before)
			o.ReadOnly = true
			r := mustOpen(t, o)
			if got := values(t, r, at("a", 0)); !slices.Equal(got, []string{"1"}) {
				t.Errorf("read-only beside it: %v", got)
			}
			mustClose(t, r)
			sameTree(t, tree(t, fsys, o.Dir), before)
			mustClose(t, c)
			o.ReadOnly = false
			mustClose(t, mustOpen(t, o))
		})
	}
}

// Every operation of reading fails once: Open fails, and the directory is byte
// for byte as before.
func TestFailedOpenChangesNothing(t *testing.T) {
	for _, state := range []string{"clean", "killed", "empty", "missing"} {
		t.Run(state, func(t *testing.T) {
			mem := newMem(t)
			switch state {
			case "clean":
				filled(t, mem)
			case "killed":
				filled(t, mem)
				c := mustOpen(t, on(mem))
				mustAppend(t, c, at("a", 0), "lost?")
				mem = mem.KillClone()
				// The dead process's id: whoever takes the lock drops it.
				put(t, mem, LockFile, "")
			case "missing":
				mem = vfs.NewMem()
			}
			failures := 0
			for n := 0; ; n++ {
				clone := mem.KillClone()
				before := tree(t, clone, dataDir)
				var mu sync.Mutex // Open works with many goroutines
				changed, hit := false, faultfs.Op{}
				fsys := faultfs.New(clone, faultfs.FailNth(n, nil).And(faultfs.Plan{Hook: func(op faultfs.Op) error {
					mu.Lock()
					defer mu.Unlock()
					// Recovery has begun when the removal of the mark is synced.
					changed = changed || op.Kind == faultfs.SyncDir && op.Name == dataDir
					if op.N == n {
						hit = op
					}
					return nil
				}}))
				c, err := Open(on(fsys))
				fired := fsys.Fired()
				fsys.SetPlan(faultfs.Plan{})
				if err == nil {
					mustClose(t, c)
					if !fired {
						break
					}
					continue // what failed was of no consequence: a cache, or a close
				}
				failures++
				if !changed && hit.Kind != faultfs.Remove { // else undoing is what failed
					sameTree(t, tree(t, clone, dataDir), before)
				}
				c, err = Open(on(clone))
				if err != nil {
					t.Fatalf("after a failed Open at operation %d: %v", n, err)
				}
				if state == "clean" {
					checkFilled(t, c)
				}
				mustClose(t, c)
			}
			if failures == 0 {
				t.Error("no Open failed")
			}
		})
	}
}

// Reasons to refuse a whole directory, each with what to do in the text.
func TestOpenRefuses(t *testing.T) {
	filledMem := newMem(t)
	filled(t, filledMem)
	newer := string(signed("{\n  \"version\": 7,\n"))
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, mem *vfs.Mem)
		plan    faultfs.Plan
		change  func(o *Options)
		want    error
		text    string
	}{
		{"newer manifest", func(t *testing.T, mem *vfs.Mem) { put(t, mem, ManifestFile, newer) }, faultfs.Plan{}, nil, ErrNewerFormat, "use a newer one"},
		{"damaged manifest", func(t *testing.T, mem *vfs.Mem) { flip(t, mem, ManifestFile, 20) }, faultfs.Plan{}, nil, ErrManifest, "data/oncelog.manifest"},
		{"no permission", nil, failAll(syscall.EACCES, faultfs.Lock), nil, fs.ErrPermission, "give this user"},
		{"no permission to read", nil, failAll(syscall.EACCES, faultfs.ReadDir), nil, fs.ErrPermission, "give this user"},
		{"read-only file system", nil, failAll(syscall.EROFS, faultfs.Lock), nil, syscall.EROFS, "open the directory read-only"},
		{"too many files", nil, faultfs.FailFrom(20, syscall.EMFILE, faultfs.Open), nil, syscall.EMFILE, "ulimit"},
		{"file", nil, faultfs.Plan{}, func(o *Options) { o.Dir = dataDir + "/" + ManifestFile }, nil, "it is a file"},
		{"no parent", nil, faultfs.Plan{}, func(o *Options) { o.Dir = "x/y" }, fs.ErrNotExist, "parent directory"},
		{"missing, read-only", nil, faultfs.Plan{}, func(o *Options) { o.Dir, o.ReadOnly = "x", true }, fs.ErrNotExist, "check the path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := filledMem.KillClone()
			if c.prepare != nil {
				c.prepare(t, mem)
			}
			before := tree(t, mem, ".")
			o := on(faultfs.New(mem, c.plan))
			if c.change != nil {
				c.change(&o)
			}
			_, err := Open(o)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want %v with %q", err, c.want, c.text)
			}
			sameTree(t, tree(t, mem, "."), before)
		})
	}
}

func failAll(err error, kinds ...faultfs.Kind) faultfs.Plan {
	return faultfs.FailFrom(0, err, kinds...)
}

// Damage below the recovery point, old formats and missing directories are one
// partition's: it refuses, with the facts, is left as it is, and can be
// deleted; there is no clean mark while it is there.
func TestPartitionRefuses(t *testing.T) {
	segment := "a-1/00000000000000000000.log"
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, mem *vfs.Mem)
		want   error
		marked bool // Close leaves a clean mark
	}{
		{"bit flipped in the last segment", func(t *testing.T, mem *vfs.Mem) {
			flip(t, mem, lastSegment(t, mem, "a-1"), 70)
			// An index entry behind the damage would hide it from Open.
			for _, ext := range []string{".index", ".timeindex"} {
				if err := mem.Remove(dataDir + "/" + strings.TrimSuffix(lastSegment(t, mem, "a-1"), ".log") + ext); err != nil {
					t.Fatal(err)
				}
			}
		}, log.ErrCorrupt, false},
		{"old message format", func(t *testing.T, mem *vfs.Mem) {
			for name := range tree(t, mem, dataDir+"/a-1") {
				if name != dataDir+"/a-1" {
					if err := mem.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			put(t, mem, segment, legacyMessage)
		}, batch.ErrLegacyMagic, false},
		{"directory missing", func(t *testing.T, mem *vfs.Mem) {
			if err := removeTree(mem, dataDir+"/a-1"); err != nil {
				t.Fatal(err)
			}
		}, ErrPartitionMissing, true},
		{"another topic's directory", func(t *testing.T, mem *vfs.Mem) {
			m := checkpoint.AppendPartitionMetadata(nil, checkpoint.PartitionMetadata{TopicID: checkpoint.TopicID{1}})
			put(t, mem, "a-1/"+checkpoint.PartitionMetadataFile, string(m))
		}, ErrPartitionMissing, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := newMem(t)
			filled(t, mem)
			c.damage(t, mem)
			before := tree(t, mem, dataDir+"/a-1")
			var told events
			o := on(mem)
			o.Events = told.add
			s := mustOpen(t, o)
			_, err := s.Partition(at("a", 1))
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := told.of(EventPartitionRefused); len(got) != 1 || got[0].Partition != at("a", 1) || !errors.Is(got[0].Err, c.want) {
				t.Errorf("told %+v", got)
			}
			mustAppend(t, s, at("a", 0), "x")
			mustAppend(t, s, at("b", 0), "x")
			mustClose(t, s)
			sameTree(t, tree(t, mem, dataDir+"/a-1"), before)
			if exists(mem, checkpoint.CleanShutdownFile) != c.marked {
				t.Errorf("clean mark: %v, want %v", !c.marked, c.marked)
			}
			s = mustOpen(t, on(mem))
			if _, err := s.Partition(at("a", 1)); !errors.Is(err, c.want) {
				t.Errorf("when opened again: got %v, want %v", err, c.want)
			}
			if err := s.DeleteTopic(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			mustClose(t, s)
			if !exists(mem, checkpoint.CleanShutdownFile) {
				t.Error("no clean mark although nothing refuses")
			}
		})
	}
}

// Files of one partition that cannot be worked with are that partition's: it
// refuses, keeps all it has, the others serve, there is no clean mark, and once
// they can be it serves again.
func TestUnusableFiles(t *testing.T) {
	logFile := func(op faultfs.Op) bool {
		return strings.HasPrefix(op.Name, dataDir+"/a-1/") && strings.HasSuffix(op.Name, ".log")
	}
	inside := func(op faultfs.Op) bool { return strings.HasPrefix(op.Name, dataDir+"/a-1/") }
	itself := func(op faultfs.Op) bool { return op.Name == dataDir+"/a-1" }
	for _, c := range []struct {
		name  string
		kind  faultfs.Kind
		match func(op faultfs.Op) bool
		err   error
	}{
		{"bad sector", faultfs.Read, logFile, syscall.EIO},
		{"no permission", faultfs.Open, logFile, syscall.EACCES},
		{"directory without permission", faultfs.ReadDir, itself, syscall.EACCES},
		{"damaged file system", faultfs.Open, inside, errDirty},
		{"write of recovery", faultfs.Write, inside, syscall.EIO},
		{"sync of recovery", faultfs.Sync, inside, syscall.EIO},
	} {
		for _, level := range []log.Durability{log.DurabilityFsync, log.DurabilityOS} {
			for _, how := range []string{"reopened", "opened again", "killed and opened again"} {
				t.Run(fmt.Sprintf("%s/%s/%s", c.name, level, how), func(t *testing.T) {
					mem := newMem(t)
					s := mustOpen(t, on(mem))
					mustCreate(t, s, "a", TopicConfig{Partitions: 3, Durability: level})
					for i := range int32(3) {
						mustAppend(t, s, at("a", i), "1", "2")
					}
					mem = mem.KillClone()
					fsys := faultfs.New(mem, faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{c.kind}, Match: c.match, Err: c.err, Forever: true}}})
					s = mustOpen(t, on(fsys))
					if _, err := s.Partition(at("a", 1)); !errors.Is(err, c.err) || !strings.Contains(err.Error(), "reopen") {
						t.Fatalf("got %v, want %v", err, c.err)
					}
					for _, i := range []int32{0, 2} { // also so much that journal and tail are used again
						mustAppend(t, s, at("a", i), numbers(50)...)
					}
					switch how {
					case "reopened":
						fsys.SetPlan(faultfs.Plan{})
						if err := s.Reopen(t.Context(), at("a", 1)); err != nil {
							t.Fatal(err)
						}
					case "opened again":
						mustClose(t, s)
						if exists(mem, checkpoint.CleanShutdownFile) {
							t.Error("a clean mark although a partition refuses")
						}
						s = mustOpen(t, on(mem))
					default:
						s = mustOpen(t, on(mem.KillClone()))
					}
					for i, n := range []int{52, 2, 52} {
						if got := values(t, s, at("a", int32(i))); len(got) != n {
							t.Errorf("a-%d holds %d records, want %d", i, len(got), n)
						}
					}
					mustAppend(t, s, at("a", 1), "3")
				})
			}
		}
	}
}

// A directory that the manifest does not know and that cannot be looked into
// may be what an unfinished creation left: it becomes no topic, and as it may be
// one of Kafka's there is no clean mark.
func TestUnknownDirectoryUnreadable(t *testing.T) {
	mem := newMem(t)
	filled(t, mem)
	for _, dir := range []string{"left-0", "a-2"} {
		if err := mem.Mkdir(dataDir+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	unreadable := func(op faultfs.Op) bool { return op.Name == dataDir+"/left-0" || op.Name == dataDir+"/a-2" }
	fsys := faultfs.New(mem, faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.ReadDir}, Match: unreadable, Forever: true}}})
	var told events
	o := on(fsys)
	o.Events = told.add
	c := mustOpen(t, o)
	checkFilled(t, c)
	if got := told.of(EventPartitionRefused); len(got) != 2 || !errors.Is(got[0].Err, syscall.EIO) {
		t.Errorf("told %+v", got)
	}
	mustClose(t, c)
	if exists(mem, checkpoint.CleanShutdownFile) {
		t.Error("a clean mark although not everything was seen")
	}
	c = mustOpen(t, on(mem))
	checkFilled(t, c)
	mustClose(t, c)
	if !exists(mem, checkpoint.CleanShutdownFile) {
		t.Error("no clean mark although all was seen")
	}
}

// legacyMessage is a message of format 1: no key, value "v".
const legacyMessage = "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x17" + "\x5b\xa3\x2c\x10" + "\x01\x00" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "\xff\xff\xff\xff" + "\x00\x00\x00\x01v"

// lastSegment is the name of the newest .log file of a partition.
func lastSegment(t testing.TB, fsys vfs.FS, dir string) string {
	t.Helper()
	last := ""
	for name := range tree(t, fsys, dataDir+"/"+dir) {
		if strings.HasSuffix(name, ".log") && name > last {
			last = name
		}
	}
	return strings.TrimPrefix(last, dataDir+"/")
}

// The fixed names of Kafka that are no partitions of ours stay as they are.
func TestUntouched(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "t", TopicConfig{})
	mustClose(t, c)
	for _, dir := range []string{
		"__cluster_metadata-0", "t-0.0123456789abcdef0123456789abcdef-delete", "t-1.0123456789abcdef0123456789abcdef-stray",
		"t-2.0123456789abcdef0123456789abcdef-future", "lost+found", "u-0", "-1", "t-01", "backup",
	} {
		if err := mem.Mkdir(dataDir+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir != "u-0" { // empty: what an unfinished creation leaves
			put(t, mem, dir+"/00000000000000000000.log", "rubbish")
		}
	}
	for name, content := range map[string]string{"bootstrap.checkpoint": "x", "meta.properties": "version=1\n", "v-0": "a file", "cleaner-offset-checkpoint": "0\n1\nt 0 5\n", "x.tmp": ""} {
		put(t, mem, name, content)
	}
	before := tree(t, mem, dataDir)
	c = mustOpen(t, on(mem))
	if got := c.all(); len(got) != 1 || got[0].Partition != at("t", 0) {
		t.Errorf("partitions %v", got)
	}
	mustClose(t, c)
	after := tree(t, mem, dataDir)
	sameTree(t, after, before)
}
