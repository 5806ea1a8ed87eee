package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// A directory that another process writes, rolls, trims and deletes from opens
// read-only at any moment, and nothing in it changes by that.
func TestReadOnlyOnLiveDirectory(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "a", TopicConfig{Partitions: 2, SegmentBytes: 1000})
	written := faultfs.New(mem, faultfs.Plan{Hook: func(op faultfs.Op) error {
		switch op.Kind {
		case faultfs.Write, faultfs.Truncate, faultfs.Allocate, faultfs.Sync, faultfs.SyncDir, faultfs.Rename, faultfs.Remove, faultfs.Mkdir, faultfs.Lock:
			return fmt.Errorf("%s of %s by a reader", op.Kind, op.Name)
		case faultfs.Open:
			if op.Flag != 0 {
				return fmt.Errorf("open of %s for writing by a reader", op.Name)
			}
		}
		return nil
	}})
	var writer sync.WaitGroup
	done := make(chan struct{})
	writer.Go(func() {
		defer close(done)
		l, err := c.Partition(at("a", 0))
		if err != nil {
			t.Error(err)
			return
		}
		for i := range 40 {
			for n := range 30 {
				if _, err := appendTo(c, at("a", int32(n%2)), record(fmt.Sprint(i))); err != nil {
					t.Error(err)
					return
				}
			}
			_, err := l.DeleteRecords(context.Background(), -1)
			if i%4 == 0 && err == nil {
				err = c.CreateTopic(context.Background(), "b", TopicConfig{Partitions: 3})
			}
			if i%4 == 2 && err == nil {
				err = c.DeleteTopic(context.Background(), "b")
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	opened := 0
	for live := true; live; opened++ {
		select {
		case <-done:
			live = false
		default:
		}
		o := on(written)
		o.ReadOnly = true
		r, err := Open(o)
		if err != nil {
			t.Errorf("open number %d: %v", opened, err)
			break
		}
		for _, p := range r.all() {
			if p.err != nil && !p.missing {
				t.Errorf("open number %d: %s: %v", opened, p.Partition, p.err)
			}
		}
		mustClose(t, r)
	}
	writer.Wait()
	if written.Fired() {
		t.Error("a reader wrote")
	}
	t.Logf("opened %d times", opened)
}

// Read-only, crashed directories show what recovery would make of them, and
// stay as they are.
func TestReadOnlyOnCrashedDirectory(t *testing.T) {
	mem := newMem(t)
	filled(t, mem)
	c := mustOpen(t, on(mem))
	mustAppend(t, c, at("a", 0), "unclean")
	crashed := mem.KillClone()
	if err := crashed.Remove(dataDir + "/" + LockFile); err != nil {
		t.Fatal(err)
	}
	before := tree(t, crashed, dataDir)
	o := on(crashed)
	o.ReadOnly = true
	r := mustOpen(t, o)
	if got, want := values(t, r, at("a", 0)), append(numbers(100), "unclean"); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if _, err := appendTo(r, at("a", 0), record("x")); !errors.Is(err, log.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	mustClose(t, r)
	sameTree(t, tree(t, crashed, dataDir), before)
}

// A full disk: making a topic fails whole, appends are refused, the rest goes
// on; with room again everything works, also where the program was killed.
func TestFullDisk(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	mustCreate(t, c, "a", TopicConfig{})
	mustAppend(t, c, at("a", 0), "first") // which makes the journal
	want, maybe := []string{"first"}, 0
	mem.SetCapacity(mem.Used() + 64<<10)
	for i := 0; ; i++ {
		v := fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000))
		_, err := appendTo(c, at("a", 0), record(v))
		if errors.Is(err, log.ErrOutcomeUnknown) { // it is in memory, and the journal is full
			want, maybe = append(want, v), maybe+1
		}
		if errors.Is(err, log.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, v)
	}
	mem.SetCapacity(mem.Used())
	err := c.CreateTopic(t.Context(), "b", TopicConfig{Partitions: 3})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("got %v", err)
	}
	if got := c.Topics(); len(got) != 1 {
		t.Errorf("topics %+v", got)
	}
	full := mem.KillClone()
	again, err := Open(on(full))
	if err != nil { // recovery may need room: it says so, and goes on when there is some
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free space") {
			t.Errorf("got %v", err)
		}
		full.SetCapacity(0)
		again = mustOpen(t, on(full))
	}
	if got, least := values(t, again, at("a", 0)), len(want)-maybe; len(got) < least || !slices.Equal(got, want[:len(got)]) {
		t.Errorf("after a kill: %d records, want %d and perhaps %d more", len(got), least, maybe)
	}
	mem.SetCapacity(0)
	mustCreate(t, c, "b", TopicConfig{Partitions: 3})
	for { // the journal is emptied by itself, soon
		_, err := appendTo(c, at("a", 0), record("more"))
		if err == nil {
			break
		}
		if !errors.Is(err, log.ErrNoSpace) || errors.Is(err, log.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if got := values(t, c, at("a", 0)); !slices.Equal(got, append(want, "more")) {
		t.Errorf("%d records, want %d", len(got), len(want)+1)
	}
	mustClose(t, c)
}

// An empty active segment whose index is missing, empty or full of zeros is
// nothing special (FR-F3), and neither is a newest segment that is missing,
// empty or all zeros (FR-F12); an older one that is empty is damage.
func TestEmptySegments(t *testing.T) {
	last := "00000000000000000100"
	for _, c := range []struct {
		name   string
		change func(mem *vfs.Mem) error
		want   error
	}{
		{"as it is", func(*vfs.Mem) error { return nil }, nil},
		{"no index", func(mem *vfs.Mem) error { return mem.Remove(dataDir + "/a-0/" + last + ".index") }, nil},
		{"empty indexes", func(mem *vfs.Mem) error { return write(mem, "a-0/"+last+".index", "") }, nil},
		{"preallocated indexes", func(mem *vfs.Mem) error {
			return errors.Join(write(mem, "a-0/"+last+".index", zeros(10<<10)), write(mem, "a-0/"+last+".timeindex", zeros(12<<10)))
		}, nil},
		{"preallocated segment", func(mem *vfs.Mem) error { return write(mem, "a-0/"+last+".log", zeros(32<<10)) }, nil},
		{"no segment", func(mem *vfs.Mem) error { return mem.Remove(dataDir + "/a-0/" + last + ".log") }, nil},
		{"empty sealed segment", func(mem *vfs.Mem) error { return write(mem, "a-0/00000000000000000000.log", "") }, log.ErrCorrupt},
		{"zeros in a sealed segment", func(mem *vfs.Mem) error {
			return write(mem, "a-0/00000000000000000000.log", zeros(1000))
		}, nil}, // found by the reader
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s clean=%v", c.name, clean), func(t *testing.T) {
				mem := newMem(t)
				s := mustOpen(t, on(mem))
				mustCreate(t, s, "a", TopicConfig{SegmentBytes: 1000})
				mustAppend(t, s, at("a", 0), numbers(100)...)
				l, _ := s.Partition(at("a", 0))
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
				mustClose(t, s)
				if !clean {
					if err := mem.Remove(dataDir + "/" + checkpoint.CleanShutdownFile); err != nil {
						t.Fatal(err)
					}
				}
				if clean && strings.HasPrefix(c.name, "preallocated") {
					t.Skip("a clean stop trims")
				}
				if err := c.change(mem); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				s = mustOpen(t, on(mem))
				l, err := s.Partition(at("a", 0))
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if err != nil {
					return
				}
				if f := l.Frontiers(); f.LogEnd != 100 {
					t.Errorf("log end %d, want 100", f.LogEnd)
				}
				bases := map[int64]bool{}
				for range 2 {
					mustAppend(t, s, at("a", 0), numbers(30)...)
					if err := l.Roll(); err != nil {
						t.Fatal(err)
					}
				}
				for seg := range l.Segments() {
					if bases[seg.Base] {
						t.Errorf("two segments with base %d", seg.Base)
					}
					bases[seg.Base] = true
				}
				mustClose(t, s)
			})
		}
	}
}

func zeros(n int) string { return strings.Repeat("\x00", n) }

// write makes or replaces a file.
func write(fsys vfs.FS, name, content string) error {
	return vfs.Replace(fsys, dataDir+"/"+name, []byte(content))
}
