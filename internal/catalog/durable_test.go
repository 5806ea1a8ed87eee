package catalog

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// A directory that an opener made who died before its name was durable is made
// durable by the next one, before anything in it is promised.
func TestNameOfDirectoryIsDurable(t *testing.T) {
	mem := vfs.NewMem()
	dying := faultfs.New(mem, faultfs.FailFrom(0, syscall.EIO, faultfs.SyncDir, faultfs.Remove))
	if c, err := Open(on(dying)); err == nil {
		c.Close(context.Background())
		t.Fatal("opened")
	}
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "t", TopicConfig{})
	mustAppend(t, c, at("t", 0), "kept")
	lost := mem.CrashClone(vfs.CrashOptions{KeepUnsynced: vfs.KeepNone})
	after := mustOpen(t, on(lost))
	if got := values(t, after, at("t", 0)); len(got) != 1 || got[0] != "kept" {
		t.Fatalf("got %q after a power loss, want the record that was acknowledged", got)
	}
}

// Points that could not be recorded do not hold: a partition that is opened
// again starts where it did.
func TestPointsThatFailedDoNotHold(t *testing.T) {
	mem := newMem(t)
	fsys := faultfs.New(mem, faultfs.Plan{})
	c := mustOpen(t, on(fsys))
	mustCreate(t, c, "t", TopicConfig{Cleanup: CleanupDelete})
	mustAppend(t, c, at("t", 0), numbers(5)...)
	before := c.book.get(at("t", 0))
	fsys.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{{
		Kinds: []faultfs.Kind{faultfs.Write}, Err: syscall.EIO,
		Match: func(op faultfs.Op) bool { return op.Name == dataDir+"/log-start-offset-checkpoint.tmp" },
	}}})
	l, err := c.Partition(at("t", 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.DeleteRecords(t.Context(), 3); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v, want EIO", err)
	}
	if got := c.book.get(at("t", 0)); got.LogStart != before.LogStart {
		t.Fatalf("the points are %+v after a failure, they were %+v", got, before)
	}
	if got := l.Frontiers().LogStart; got != 0 {
		t.Fatalf("the log starts at %d after a failure, want 0", got)
	}
}
