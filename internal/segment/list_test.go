package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// swapCase is a directory and what Kafka's rules make of it. Files are written
// as "OFFSET.kind[.suffix]"; a .log holds one batch that ends before END in
// "OFFSET-END.log", and what a file held shows where it went: each starts with
// its own name.
type swapCase struct {
	name  string
	files []string
	want  []string // files afterwards, as they were named before
}

var swapCases = []swapCase{
	{"nothing to do", []string{"0-10.log", "0.index", "0.timeindex", "10-20.log", "10.index", "10.snapshot"},
		[]string{"0-10.log", "0.index", "0.timeindex", "10-20.log", "10.index", "10.snapshot"}},
	{"deleted", []string{"0-10.log.deleted", "0.index.deleted", "5.snapshot.deleted", "10-20.log", "10.index"},
		[]string{"10-20.log", "10.index"}},
	{"cleaned", []string{"0-10.log", "0.index", "0-10.log.cleaned", "0.index.cleaned", "0.txnindex.cleaned"},
		[]string{"0-10.log", "0.index"}},
	{"indexes without a log", []string{"0.index", "0.timeindex", "0.txnindex", "10-20.log"},
		[]string{"10-20.log"}},
	{"swap of one segment", []string{"0-10.log", "0.index", "0.txnindex", "0-10.log.swap", "0.index.swap", "0.timeindex.swap", "10-20.log"},
		[]string{"0-10.log.swap", "0.index.swap", "0.timeindex.swap", "10-20.log"}},
	{"swap that covers many, snapshots too", []string{"0-10.log", "0.index", "10-20.log", "10.txnindex", "10.snapshot", "20-30.log", "20.snapshot",
		"30-40.log", "30.snapshot", "0-30.log.swap", "0.index.swap"},
		[]string{"0-30.log.swap", "0.index.swap", "30-40.log", "30.snapshot"}},
	{"swap, the old files renamed already", []string{"0-10.log.deleted", "0.index.deleted", "0-10.log.swap", "0.index.swap", "10-20.log"},
		[]string{"0-10.log.swap", "0.index.swap", "10-20.log"}},
	{"swap, half renamed into place", []string{"0-10.log", "0.index.swap", "0.timeindex.swap", "10-20.log"},
		[]string{"0-10.log", "0.index.swap", "0.timeindex.swap", "10-20.log"}},
	{"half a swap, its log deleted since", []string{"0-10.log.deleted", "0.index", "0.index.swap", "0.timeindex.swap", "10-20.log", "10.index"},
		[]string{"10-20.log", "10.index"}},
	{"unfinished group: a swap at or above the lowest cleaned goes", []string{"0-30.log", "0.index", "10-20.log.cleaned", "20-30.log.swap", "20.index.swap"},
		[]string{"0-30.log", "0.index"}},
	{"a swap below the lowest cleaned is finished", []string{"0-10.log", "10-20.log", "0-10.log.swap", "10-20.log.cleaned"},
		[]string{"0-10.log.swap", "10-20.log"}},
	{"split into two", []string{"0-30.log", "0.index", "0.snapshot", "0-20.log.swap", "20-30.log.swap", "30-40.log", "30.snapshot"},
		[]string{"0-20.log.swap", "20-30.log.swap", "30-40.log", "30.snapshot"}},
	{"foreign names stay", []string{"0-10.log", "leader-epoch-checkpoint", "partition.metadata", "00000000000000000000.log.5.cut"},
		[]string{"0-10.log", "leader-epoch-checkpoint", "partition.metadata", "00000000000000000000.log.5.cut"}},
	{"unfinished writes", []string{"0-10.log", "0.index", "10.snapshot.tmp", "0.index.tmp", "leader-epoch-checkpoint.tmp"}, []string{"0-10.log", "0.index"}},
	{"prepared segment", []string{"0-10.log", PreparedName}, []string{"0-10.log"}},
}

// file is the name and content of a file of a case.
func (c swapCase) file(short string) (name string, content []byte) {
	digits, rest, _ := strings.Cut(short, ".")
	from, to, isLog := strings.Cut(digits, "-")
	var base, end int64
	if _, err := fmt.Sscan(from, &base); err != nil || len(from) > 10 {
		return short, []byte(short)
	}
	name = fmt.Sprintf("%020d.%s", base, rest)
	if !isLog {
		return name, []byte(short)
	}
	fmt.Sscan(to, &end)
	b := record(base, int(end-base), 1, 0)
	return name, append(b, short...)
}

// dir makes the directory of a case.
func (c swapCase) dir(t *testing.T) *bed {
	b := newBed(t)
	for _, short := range c.files {
		b.write(c.file(short))
	}
	return b
}

// check compares the directory with what it must be.
func (c swapCase) check(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	want := map[string]string{}
	for _, short := range c.want {
		n, content := c.file(short)
		if p, ok := ParseName(n); ok {
			p.Suffix = SuffixNone
			n = p.String()
		}
		want[n] = string(content)
	}
	if got := files(t, mem); !maps.Equal(got, want) {
		t.Errorf("files\n%q, want\n%q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

func TestList(t *testing.T) {
	for _, c := range swapCases {
		t.Run(c.name, func(t *testing.T) {
			b := c.dir(t)
			before := files(t, b.mem)
			l, err := List(b.mem, "/d")
			b.ok(err)
			if !maps.Equal(files(t, b.mem), before) {
				t.Error("listing changed something")
			}
			// The listing shows the directory as it will be, under the names of
			// now.
			shown := map[string]string{}
			for _, s := range l.Segments {
				for k, path := range s.Paths {
					if path != "" {
						shown[FileName(s.Base, Kind(k))] = before[path[3:]]
					}
				}
			}
			for _, at := range l.Snapshots {
				shown[FileName(at, KindSnapshot)] = before[l.SnapshotPath(at)[3:]]
			}
			b.ok(l.Apply(b.mem))
			c.check(t, b.mem)
			for n, content := range files(t, b.mem) {
				if _, ours := ParseName(n); ours && shown[n] != content {
					t.Errorf("%s was shown as %q, is %q", n, shown[n], content)
				}
				delete(shown, n)
			}
			if len(shown) > 0 {
				t.Errorf("shown and not there: %q", shown)
			}
			again, err := List(b.mem, "/d")
			b.ok(err)
			if again.Pending() || l.Pending() {
				t.Error("something is still to do")
			}
		})
	}
}

// TestApplyKilled ends Apply at every file operation, by the end of the process
// and by power losses that keep any of the changes: what is done again ends in
// the same.
func TestApplyKilled(t *testing.T) {
	dead := errors.New("dead")
	for _, c := range swapCases {
		t.Run(c.name, func(t *testing.T) {
			for n := 0; ; n++ {
				r := rand.New(rand.NewPCG(uint64(n), 1))
				b := c.dir(t)
				fsys := faultfs.New(b.mem, faultfs.FailFrom(n, dead))
				l, err := List(fsys, "/d")
				if err == nil {
					err = l.Apply(fsys)
				}
				if !fsys.Fired() {
					b.ok(err)
					break
				}
				if !errors.Is(err, dead) {
					t.Fatalf("operation %d: %v", n, err)
				}
				clones := []*vfs.Mem{b.mem.KillClone(), b.mem.CrashClone(vfs.CrashOptions{})}
				for range 12 {
					clones = append(clones, b.mem.CrashClone(vfs.CrashOptions{Rand: r, KeepUnsynced: 0.5}))
				}
				for i, mem := range clones {
					l, err := List(mem, "/d")
					if err == nil {
						err = l.Apply(mem)
					}
					if err != nil {
						t.Fatalf("operation %d, clone %d: %v", n, i, err)
					}
					c.check(t, mem)
					if t.Failed() {
						t.Fatalf("operation %d, clone %d", n, i)
					}
				}
			}
		})
	}
}

// TestDirectoryInPlaceOfFile: a directory where an index should be goes, one
// where the log should be is an error.
func TestDirectoryInPlaceOfFile(t *testing.T) {
	b := newBed(t)
	batches := history(0, 20)
	b.write(name(0, KindLog), join(batches))
	for k := KindOffsetIndex; k <= KindSnapshot; k++ {
		b.ok(b.mem.Mkdir("/d/"+name(0, k), 0o755))
	}
	l, err := List(b.mem, "/d")
	b.ok(err)
	if len(l.Segments) != 1 || l.Segments[0].Paths[KindOffsetIndex] != "" || len(l.Snapshots) != 0 {
		t.Errorf("%+v", l)
	}
	b.ok(l.Apply(b.mem))
	if got := slices.Collect(maps.Keys(files(t, b.mem))); !slices.Equal(got, []string{name(0, KindLog)}) {
		t.Errorf("left: %v", got)
	}
	b.ok(b.mem.Mkdir("/d/"+name(50, KindLog), 0o755))
	path := (*fs.PathError)(nil)
	if _, err := List(b.mem, "/d"); !errors.As(err, &path) || path.Path != "/d/"+name(50, KindLog) {
		t.Errorf("list: %v", err)
	}
}

// TestTransactionIndexIsDirectory: with it the offset index goes, and first, so
// that nothing is left that says of the segment that nothing was aborted in it.
func TestTransactionIndexIsDirectory(t *testing.T) {
	dead := errors.New("dead")
	for n := 0; ; n++ {
		b := newBed(t)
		b.write(name(0, KindLog), join(history(0, 20)))
		b.write(name(0, KindOffsetIndex), nil)
		b.ok(b.mem.Mkdir("/d/"+name(0, KindTxnIndex), 0o755))
		b.ok(b.mem.SyncDir("/d"))
		fsys := faultfs.New(b.mem, faultfs.FailFrom(n, dead))
		l, err := List(fsys, "/d")
		if err == nil {
			err = l.Apply(fsys)
		}
		for i := range uint64(8) {
			mem := b.mem.CrashClone(vfs.CrashOptions{Rand: rand.New(rand.NewPCG(uint64(n), i)), KeepUnsynced: 0.5})
			l, err := List(mem, "/d")
			b.ok(err)
			if len(l.Segments) != 1 || l.Segments[0].Paths[KindOffsetIndex] != "" {
				t.Fatalf("operation %d: %+v", n, l.Segments)
			}
		}
		if !fsys.Fired() {
			b.ok(err)
			break
		}
	}
}
