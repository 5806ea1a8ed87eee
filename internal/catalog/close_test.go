package catalog

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// stuck makes the operations of a kind hang until it is released.
func stuck(kind faultfs.Kind) (plan faultfs.Plan, inside chan struct{}, release func()) {
	inside, hold := make(chan struct{}, 1000), make(chan struct{})
	return faultfs.Plan{Hook: func(op faultfs.Op) error {
		if op.Kind == kind {
			inside <- struct{}{}
			<-hold
		}
		return nil
	}}, inside, func() { close(hold) }
}

// Close ends with its context, whatever hangs: a flush, or a change of topics.
// The directory is locked until that ends, and loses nothing.
func TestCloseIsBoundedByContext(t *testing.T) {
	for _, c := range []struct {
		name string
		kind faultfs.Kind
		hang func(c *Catalog) // has begun when the kind is met
	}{
		{"flush of the close", faultfs.Sync, nil},
		{"flush of a log", faultfs.Sync, func(c *Catalog) { _ = c.Sync(context.Background()) }},
		{"change", faultfs.Mkdir, func(c *Catalog) { _ = c.CreateTopic(context.Background(), "b", TopicConfig{}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := newMem(t)
			fsys := faultfs.New(mem, faultfs.Plan{})
			s := mustOpen(t, on(fsys))
			mustCreate(t, s, "a", TopicConfig{Durability: log.DurabilityOS})
			mustAppend(t, s, at("a", 0), "1")
			held, err := s.Partition(at("a", 0))
			if err != nil {
				t.Fatal(err)
			}
			plan, inside, release := stuck(c.kind)
			fsys.SetPlan(plan)
			hung := make(chan struct{})
			go func() {
				defer close(hung)
				if c.hang != nil {
					c.hang(s)
				}
			}()
			if c.hang != nil {
				<-inside
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			for range 2 {
				if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the end of the context", err)
				}
			}
			if _, err := Open(on(mem)); !errors.Is(err, vfs.ErrLocked) {
				t.Errorf("opened beside it: %v", err)
			}
			if _, err := held.Append(t.Context(), record("late"), log.AppendOptions{}); !errors.Is(err, log.ErrClosed) {
				t.Errorf("append after Close: %v", err)
			}
			release()
			<-hung
			mustClose(t, s) // waits for the first
			again := mustOpen(t, on(mem))
			if got := values(t, again, at("a", 0)); !slices.Equal(got, []string{"1"}) {
				t.Errorf("opened again it holds %v", got)
			}
		})
	}
}

// With a context that has ended Close closes files and leaves the rest.
func TestCloseWithEndedContext(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "a", TopicConfig{Partitions: 3})
	mustAppend(t, c, at("a", 0), "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	again := mustOpen(t, on(mem))
	if again.clean {
		t.Error("the stop counts as clean")
	}
	if got := values(t, again, at("a", 0)); !slices.Equal(got, []string{"1"}) {
		t.Errorf("got %v", got)
	}
}

// There is no clean mark beside the log of a deleted topic that still has its
// name, and Close tries once more to take that away.
func TestNoMarkBesidePendingDeletion(t *testing.T) {
	for _, repaired := range []bool{false, true} {
		mem := newMem(t)
		fsys := faultfs.New(mem, faultfs.Plan{})
		c := mustOpen(t, on(fsys))
		mustCreate(t, c, "a", TopicConfig{Partitions: 2})
		mustAppend(t, c, at("a", 1), "old")
		broken := faultfs.Fault{Kinds: []faultfs.Kind{faultfs.Rename}, Match: func(op faultfs.Op) bool { return op.Name == dataDir+"/a-1" }, Forever: true}
		fsys.SetPlan(faultfs.Plan{Faults: []faultfs.Fault{broken}})
		if err := c.DeleteTopic(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if repaired {
			fsys.SetPlan(faultfs.Plan{})
		}
		mustClose(t, c)
		if got := exists(mem, checkpoint.CleanShutdownFile); got != repaired || exists(mem, "a-1") == repaired {
			t.Errorf("repaired %v: clean mark %v, directory %v", repaired, got, exists(mem, "a-1"))
		}
		mustClose(t, mustOpen(t, on(mem))) // finishes it
		if !exists(mem, checkpoint.CleanShutdownFile) || exists(mem, "a-1") {
			t.Error("the next opening does not finish the deletion")
		}
	}
}
