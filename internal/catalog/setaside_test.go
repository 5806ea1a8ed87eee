package catalog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// writtenOver is what a killed process left, with "ours" at level fsync and at
// level os in the memory only, and then another program that wrote "other" in the
// place of the first.
func writtenOver(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := newMem(t)
	o := on(mem)
	o.Direct, o.MemoryBytes, o.JournalBytes, o.TailBytes = false, 1<<20, journal.BytesMin, 256<<10
	c := mustOpen(t, o)
	mustCreate(t, c, "a", TopicConfig{})
	mustCreate(t, c, "b", TopicConfig{Durability: log.DurabilityOS})
	mustAppend(t, c, at("a", 0), "ours")
	mustAppend(t, c, at("b", 0), "ours")
	killed := mem.KillClone()
	f, err := killed.OpenFile(dataDir+"/a-0/00000000000000000000.log", os.O_RDWR, 0)
	if err == nil {
		other := record("other")
		other.Stamp(0, 0)
		_, err = f.WriteAt(other, 0)
		err = errors.Join(err, f.Sync(), f.Close(), killed.Remove(dataDir+"/"+LockFile))
	}
	if err != nil {
		t.Fatal(err)
	}
	return killed
}

func kept(t *testing.T, mem *vfs.Mem) (names []string) {
	t.Helper()
	for name := range tree(t, mem, dataDir) {
		if strings.HasSuffix(name, keptSuffix) {
			names = append(names, strings.SplitN(filepath.Base(name), ".", 3)[1])
		}
	}
	slices.Sort(names)
	return names
}

// What another program wrote over is an error that changes nothing, until
// somebody decides: then that counts, and ours is kept as a whole.
func TestAcceptForeign(t *testing.T) {
	mem := writtenOver(t)
	before := tree(t, mem, dataDir)
	_, err := Open(on(mem))
	if e, ok := errors.AsType[*log.ForeignWriterError](err); !ok || e.Offset != 0 {
		t.Fatalf("opens: %v, want a foreign writer at offset 0", err)
	}
	sameTree(t, tree(t, mem, dataDir), before)

	o := on(mem)
	o.AcceptForeign = true
	var told []string
	o.Events = func(e Event) {
		if e.Kind == EventSetAside {
			told = append(told, filepath.Base(e.File))
		}
	}
	c := mustOpen(t, o)
	if got := values(t, c, at("a", 0)); !slices.Equal(got, []string{"other"}) {
		t.Errorf("a has %q, want what the other program wrote", got)
	}
	if got := values(t, c, at("b", 0)); len(got) != 0 {
		t.Errorf("b has %q: the tail is not set aside as a whole", got)
	}
	if got := kept(t, mem); !slices.Equal(got, []string{"journal", "tail"}) || len(told) != 2 {
		t.Errorf("kept are %v, told of %v", got, told)
	}
	mustAppend(t, c, at("a", 0), "more")
	mustClose(t, c)
	again := mustOpen(t, on(mem))
	if got := values(t, again, at("a", 0)); !slices.Equal(got, []string{"other", "more"}) {
		t.Errorf("then a has %q", got)
	}
	if got := kept(t, mem); len(got) != 2 {
		t.Errorf("a clean close removes what is kept: %v", got)
	}
}

// TestAcceptForeignFails lets every operation fail once: what was set aside in
// part is set aside whole the next time, and nothing of it is lost.
func TestAcceptForeignFails(t *testing.T) {
	origin := writtenOver(t)
	for n := 0; ; n++ {
		mem := origin.KillClone()
		reached := false
		fault := faultfs.Fault{Effect: faultfs.Fail, Err: errors.New("injected"), Match: func(op faultfs.Op) bool {
			reached = reached || op.N == n
			return op.N == n && op.Kind != faultfs.Open && op.Kind != faultfs.Stat
		}}
		o := on(faultfs.New(mem, faultfs.Plan{Faults: []faultfs.Fault{fault}}))
		o.AcceptForeign = true
		c, err := Open(o)
		if err == nil {
			_ = c.Close(t.Context()) // may be what fails
			if !reached {
				return
			}
		}
		left := mem.KillClone()
		if _, err := left.Stat(dataDir + "/" + LockFile); err == nil {
			if err := left.Remove(dataDir + "/" + LockFile); err != nil {
				t.Fatal(err)
			}
		}
		o = on(left)
		o.AcceptForeign = true
		c, err = Open(o)
		if err != nil {
			t.Fatalf("operation %d failed, and then it does not open: %v", n, err)
		}
		if got := values(t, c, at("a", 0)); !slices.Equal(got, []string{"other"}) {
			t.Errorf("operation %d failed: a has %q", n, got)
		}
		if got := kept(t, left); !slices.Equal(got, []string{"journal", "tail"}) {
			t.Errorf("operation %d failed: kept are %v", n, got)
		}
		mustClose(t, c)
	}
}
