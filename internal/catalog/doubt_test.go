package catalog

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// inDoubt lets the next manifest reach its name, but not durably, and no other
// be written behind it.
func inDoubt() faultfs.Plan {
	var renamed, failed atomic.Bool
	return faultfs.Plan{Hook: func(op faultfs.Op) error {
		ours := strings.HasPrefix(op.Name, dataDir+"/"+ManifestFile)
		switch {
		case !renamed.Load():
			renamed.Store(ours && op.Kind == faultfs.Rename)
		case ours, op.Kind == faultfs.SyncDir && op.Name == dataDir && !failed.Swap(true):
			return syscall.EIO
		}
		return nil
	}}
}

// doubtful is a catalog whose last change is in doubt: the file holds it.
func doubtful(t *testing.T, change func(c *Catalog) error) (*Catalog, *vfs.Mem, *faultfs.FS) {
	t.Helper()
	mem := newMem(t)
	fsys := faultfs.New(mem, faultfs.Plan{})
	c := mustOpen(t, on(fsys))
	mustCreate(t, c, "a", TopicConfig{})
	mustCreate(t, c, "other", TopicConfig{})
	mustAppend(t, c, at("a", 0), "before")
	mustAppend(t, c, at("other", 0), "before")
	fsys.SetPlan(inDoubt())
	if err := change(c); !errors.Is(err, log.ErrOutcomeUnknown) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v, want ErrOutcomeUnknown and the cause", err)
	}
	return c, mem, fsys
}

// A deletion in doubt takes no more appends, is carried out as soon as the
// manifest can be written, and loses nothing if it comes to nothing.
func TestDeletionInDoubt(t *testing.T) {
	remove := func(c *Catalog) error { return c.DeleteTopic(t.Context(), "a") }
	for _, how := range []string{"change", "tick", "close", "kill"} {
		t.Run(how, func(t *testing.T) {
			c, mem, fsys := doubtful(t, remove)
			if _, err := appendTo(c, at("a", 0), record("lost")); !errors.Is(err, ErrUnknownPartition) {
				t.Errorf("append while in doubt: %v", err)
			}
			mustAppend(t, c, at("other", 0), "after")
			fsys.SetPlan(faultfs.Plan{})
			switch how {
			case "change":
				mustCreate(t, c, "a", TopicConfig{}) // finishes the deletion first
				if got := values(t, c, at("a", 0)); len(got) > 0 {
					t.Errorf("made again it holds %v", got)
				}
				if err := c.DeleteTopic(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
			case "tick":
				c.trySettle()
				if exists(mem, "a-0") || len(c.manifest.deletions) > 0 {
					t.Error("the deletion is not carried out")
				}
			case "close":
				mustClose(t, c)
				if !exists(mem, checkpoint.CleanShutdownFile) {
					t.Error("no clean mark")
				}
			}
			left := mem
			if how != "close" {
				left = mem.KillClone()
			}
			again := mustOpen(t, on(left))
			if _, err := again.Partition(at("a", 0)); !errors.Is(err, ErrUnknownPartition) {
				t.Errorf("opened again: %v", err)
			}
			if got := values(t, again, at("other", 0)); len(got) != 2 {
				t.Errorf("the other topic holds %v", got)
			}
			if exists(left, "a-0") {
				t.Error("its directory is still there")
			}
		})
	}
}

// While a deletion is in doubt a crash may bring the topic back: with all that
// it held, whatever the journal has freed meanwhile.
func TestDeletionInDoubtComesBack(t *testing.T) {
	var old string
	c, mem, fsys := doubtful(t, func(c *Catalog) error {
		old = content(t, c.fs, ManifestFile)
		return c.DeleteTopic(t.Context(), "a")
	})
	put(t, mem, ManifestFile, old) // the rename did not survive
	if j := c.backing.running(); j != nil {
		j.CloseHalf()
		if err := c.freeJournal(t.Context()); !errors.Is(err, log.ErrOutcomeUnknown) {
			t.Errorf("the journal is freed: %v", err)
		}
	}
	for _, left := range []*vfs.Mem{mem.KillClone(), mem.CrashClone(vfs.CrashOptions{})} {
		again := mustOpen(t, on(left))
		if got := values(t, again, at("a", 0)); len(got) != 1 {
			t.Errorf("it holds %v", got)
		}
	}
	if err := c.Close(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Errorf("closed in doubt: %v", err)
	}
	if exists(mem, checkpoint.CleanShutdownFile) {
		t.Error("a clean mark although the manifest is in doubt")
	}
	fsys.SetPlan(faultfs.Plan{})
}

// Other changes in doubt do not take effect at the next opening, once the
// store went on with anything else.
func TestChangeInDoubtIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Catalog) error
		check  func(t *testing.T, c *Catalog)
	}{
		"create": {
			func(c *Catalog) error { return c.CreateTopic(t.Context(), "b", TopicConfig{}) },
			func(t *testing.T, c *Catalog) {
				if _, err := c.Partition(at("b", 0)); !errors.Is(err, ErrUnknownPartition) {
					t.Errorf("the topic: %v", err)
				}
			},
		},
		"grow": {
			func(c *Catalog) error { return c.AddPartitions(t.Context(), "a", 3) },
			func(t *testing.T, c *Catalog) {
				if _, err := c.Partition(at("a", 1)); !errors.Is(err, ErrUnknownPartition) {
					t.Errorf("the partition: %v", err)
				}
			},
		},
		"alter": {
			func(c *Catalog) error {
				return c.AlterTopic(t.Context(), "a", TopicConfig{Cleanup: CleanupDelete, RetentionBytes: 1})
			},
			func(t *testing.T, c *Catalog) {
				if got := c.Topics()[0].Config; got != (TopicConfig{}) {
					t.Errorf("configuration %+v", got)
				}
			},
		},
	} {
		for _, how := range []string{"tick", "close", "change"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				s, mem, fsys := doubtful(t, c.change)
				mustAppend(t, s, at("a", 0), "acknowledged") // it serves as before
				fsys.SetPlan(faultfs.Plan{})
				left := mem
				switch how {
				case "tick":
					s.trySettle()
					left = mem.KillClone()
				case "change":
					if err := s.Reopen(t.Context(), at("a", 0)); err != nil {
						t.Fatal(err)
					}
					left = mem.KillClone()
				case "close":
					mustClose(t, s)
				}
				again := mustOpen(t, on(left))
				c.check(t, again)
				if got := values(t, again, at("a", 0)); len(got) != 2 {
					t.Errorf("got %v", got)
				}
			})
		}
	}
}

// A change of the level in doubt takes the partitions out of service: recovery
// goes by what the manifest names.
func TestAlterDurabilityInDoubt(t *testing.T) {
	for _, level := range []log.Durability{log.DurabilityOS, log.DurabilityFsync} {
		mem := newMem(t)
		fsys := faultfs.New(mem, faultfs.Plan{})
		c := mustOpen(t, on(fsys))
		mustCreate(t, c, "a", TopicConfig{Durability: log.DurabilityOS + log.DurabilityFsync - level})
		mustAppend(t, c, at("a", 0), "before")
		fsys.SetPlan(inDoubt())
		if err := c.AlterTopic(t.Context(), "a", TopicConfig{Durability: level}); !errors.Is(err, log.ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
		if _, err := appendTo(c, at("a", 0), record("lost")); !errors.Is(err, log.ErrOutcomeUnknown) {
			t.Errorf("append while in doubt: %v", err)
		}
		for _, left := range []*vfs.Mem{mem.KillClone(), mem.CrashClone(vfs.CrashOptions{})} {
			again := mustOpen(t, on(left))
			if got := values(t, again, at("a", 0)); len(got) != 1 {
				t.Errorf("after a crash in doubt it holds %v", got)
			}
		}
		if err := c.Reopen(t.Context(), at("a", 0)); !errors.Is(err, syscall.EIO) {
			t.Errorf("reopened in doubt: %v", err)
		}
		fsys.SetPlan(faultfs.Plan{})
		if err := c.Reopen(t.Context(), at("a", 0)); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, c, at("a", 0), "after")
		again := mustOpen(t, on(mem.KillClone()))
		if got := values(t, again, at("a", 0)); len(got) != 2 {
			t.Errorf("it holds %v", got)
		}
		mustClose(t, c)
	}
}

// The loop of maintenance settles by itself, and tells while it cannot.
func TestDoubtIsSettledByMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told events
		mem := newMem(t)
		fsys := faultfs.New(mem, faultfs.Plan{})
		o := on(fsys)
		o.Events = told.add
		c := mustOpen(t, o)
		mustCreate(t, c, "a", TopicConfig{})
		fsys.SetPlan(inDoubt())
		if err := c.DeleteTopic(t.Context(), "a"); !errors.Is(err, log.ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(5 * time.Second)
		if got := told.of(EventMaintenanceFailed); len(got) == 0 || got[0].File != "manifest" || got[0].Partition != (topic.Partition{}) {
			t.Errorf("told %+v", told.all)
		}
		fsys.SetPlan(faultfs.Plan{})
		time.Sleep(5 * time.Second)
		if c.unsure.Load() || exists(mem, "a-0") {
			t.Error("it is still in doubt")
		}
		mustClose(t, c)
	})
}
