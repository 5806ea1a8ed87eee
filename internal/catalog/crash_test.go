package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// life is what a program does with a directory, step by step, and what it was
// told: the base of tests that stop it at every file operation.
type life struct {
	fs       vfs.FS
	c        *Catalog
	exist    map[string]bool              // topics: acknowledged as made or deleted; missing: unknown
	appended map[topic.Partition][]string // acknowledged values
	n        int
	death    *death // nil: it cannot die
}

// death is the end of a program at its n-th file operation.
type death struct {
	mem  *vfs.Mem
	n    int
	dead atomic.Bool // set before left is made: what is answered later was not heard
	mu   sync.Mutex
	left *vfs.Mem // what the program leaves; nil: it lives
}

var errDied = errors.New("died")

// hook stops the program. Operations of other goroutines that are under way
// when it dies end in the file system that it leaves or do not.
func (d *death) hook(op faultfs.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == nil && op.N == d.n {
		d.dead.Store(true)
		d.left = d.mem.KillClone()
	}
	if d.left != nil {
		return errDied
	}
	return nil
}

// dieAt is a file system for a program that dies.
func dieAt(mem *vfs.Mem, n int) (vfs.FS, *death) {
	d := &death{mem: mem, n: n}
	return faultfs.New(mem, faultfs.Plan{Hook: d.hook}), d
}

// heard is err, unless the program was dead before it could hear it.
func (l *life) heard(err error) error {
	if err == nil && l.death != nil && l.death.dead.Load() {
		return errDied
	}
	return err
}

// steps of a life. Each returns the first error it meets.
var steps = []struct {
	name string
	do   func(l *life) error
}{
	{"open", func(l *life) (err error) { l.c, err = Open(on(l.fs)); return err }},
	{"create a", func(l *life) error { return l.create("a", TopicConfig{Partitions: 2, SegmentBytes: 1000}) }},
	{"append a", func(l *life) error { return l.append(at("a", 1), 28) }}, // fills two segments to the last record
	{"close", func(l *life) error { return l.c.Close(context.Background()) }},
	{"open again", func(l *life) (err error) { l.c, err = Open(on(l.fs)); return err }},
	{"grow a", func(l *life) error { return l.c.AddPartitions(context.Background(), "a", 3) }},
	{"append a-2", func(l *life) error { return l.append(at("a", 2), 3) }},
	{"create b", func(l *life) error { return l.create("b", TopicConfig{Durability: log.DurabilityOS}) }},
	{"append b", func(l *life) error { return l.append(at("b", 0), 3) }},
	{"alter b", func(l *life) error {
		return l.c.AlterTopic(context.Background(), "b", TopicConfig{Durability: log.DurabilityFsync})
	}},
	{"delete records", func(l *life) error {
		log, err := l.c.Partition(at("a", 1))
		if err != nil {
			return err
		}
		_, err = log.DeleteRecords(context.Background(), 20)
		if err = l.heard(err); err == nil {
			l.appended[at("a", 1)] = l.appended[at("a", 1)][20:]
		}
		return err
	}},
	{"append a, rolled at the recovery point", func(l *life) error { return l.append(at("a", 1), 3) }},
	{"delete a", func(l *life) error { return l.delete("a") }},
	{"create a again", func(l *life) error { return l.create("a", TopicConfig{Partitions: 2}) }},
	{"append a again", func(l *life) error { return l.append(at("a", 1), 2) }},
	{"close again", func(l *life) error { return l.c.Close(context.Background()) }},
}

func (l *life) create(name string, config TopicConfig) error {
	delete(l.exist, name)
	err := l.heard(l.c.CreateTopic(context.Background(), name, config))
	if err == nil {
		l.exist[name] = true
	}
	return err
}

func (l *life) delete(name string) error {
	delete(l.exist, name)
	for tp := range l.appended {
		if tp.Topic == name {
			delete(l.appended, tp)
		}
	}
	err := l.heard(l.c.DeleteTopic(context.Background(), name))
	if err == nil {
		l.exist[name] = false
	}
	return err
}

func (l *life) append(tp topic.Partition, n int) error {
	for range n {
		v := fmt.Sprint(l.n)
		l.n++
		_, err := appendTo(l.c, tp, record(v))
		if err = l.heard(err); err != nil {
			return err
		}
		l.appended[tp] = append(l.appended[tp], v)
	}
	return nil
}

// run makes the steps until one fails and gives its name, "" if none did.
func (l *life) run() (string, error) {
	l.exist, l.appended = map[string]bool{}, map[topic.Partition][]string{}
	for _, s := range steps {
		if err := l.heard(s.do(l)); err != nil {
			return s.name, err
		}
	}
	return "", nil
}

// check opens what is left and compares it with what was acknowledged.
// failed is the step that was under way: what it did is there or not. power
// says that unsynced data are gone.
func (l *life) check(t *testing.T, what string, fsys vfs.FS, failed string, power bool) {
	t.Helper()
	c, err := Open(on(fsys))
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if !exists(fsys, checkpoint.CleanShutdownFile) {
			t.Errorf("%s: no clean mark", what)
		}
	}()
	topics := map[string]TopicInfo{}
	for _, info := range c.Topics() {
		topics[info.Name] = info
		if info.Foreign {
			t.Errorf("%s: topic %q is taken for a foreign one", what, info.Name)
		}
	}
	for name, want := range l.exist {
		if _, got := topics[name]; got != want {
			t.Errorf("%s: topic %q exists: %v, want %v", what, name, got, want)
		}
	}
	for name := range topics {
		if _, known := l.exist[name]; !known && failed != "create "+name && failed != "create "+name+" again" && failed != "delete "+name {
			t.Errorf("%s: topic %q has come from nowhere", what, name)
		}
	}
	for _, p := range c.all() {
		if p.err != nil {
			t.Errorf("%s: %s refuses: %v", what, p.Partition, p.err)
			continue
		}
		got, want := values(t, c, p.Partition), l.appended[p.Partition]
		if power && p.Topic == "b" && failed != "" {
			want = nil // level OS, and since when it is another is not told
		}
		if failed == "delete a" && p.Topic == "a" {
			continue
		}
		if failed == "delete records" && len(got) < len(want) {
			want = want[len(want)-len(got):]
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%s: %s holds %v, want %v", what, p.Partition, got, want)
		}
		if len(got) > len(want)+1 && !(power && p.Topic == "b") {
			t.Errorf("%s: %s holds %v, and only %v was ever appended", what, p.Partition, got, want)
		}
		mustAppend(t, c, p.Partition, "alive")
	}
}

// The program dies at every file operation of a life; and then the power goes,
// and any part of what was not synced survives. Nothing acknowledged is lost,
// nothing deleted comes back.
func TestKilledAnywhere(t *testing.T) {
	reached := map[string]int{}
	// How many operations a life has is not always the same: workers may come
	// late and find less to do.
	const spare = 20
	for n, lived := 0, 0; lived < spare; n++ {
		fsys, death := dieAt(newMem(t), n)
		l := &life{fs: fsys, death: death}
		failed, err := l.run()
		if l.c != nil {
			l.c.Close(context.Background())
		}
		killed := death.left
		if killed == nil {
			lived++
			continue
		}
		reached[failed]++
		what := fmt.Sprintf("operation %d, in %q (%v)", n, failed, err)
		l.check(t, "killed at "+what, killed.KillClone(), failed, false)
		l.check(t, "power lost at "+what, killed.CrashClone(vfs.CrashOptions{}), failed, true)
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for range 6 {
			l.check(t, "power lost in part at "+what, killed.CrashClone(vfs.CrashOptions{Rand: r, KeepUnsynced: r.Float64(), Tear: true}), failed, true)
		}
		if t.Failed() {
			return
		}
	}
	for _, s := range steps {
		if reached[s.name] == 0 {
			t.Errorf("nothing was stopped in %q", s.name)
		}
	}
}

// One operation fails, the program goes on as if nothing had been, or gives up
// that step: what was acknowledged is there when it opens the directory again.
func TestFailingAnywhere(t *testing.T) {
	for n := 0; ; n++ {
		mem := newMem(t)
		fsys := faultfs.New(mem, faultfs.FailNth(n, nil))
		l := &life{fs: fsys}
		failed, err := l.run()
		fired := fsys.Fired()
		fsys.SetPlan(faultfs.Plan{})
		if l.c != nil {
			l.c.Close(context.Background())
		}
		l.check(t, fmt.Sprintf("operation %d failed in %q (%v)", n, failed, err), mem.KillClone(), failed, false)
		l.check(t, fmt.Sprintf("operation %d failed in %q (%v), power lost", n, failed, err), mem.CrashClone(vfs.CrashOptions{}), failed, true)
		if !fired || t.Failed() {
			break
		}
	}
}

// Killed while it recovers, again and again: the last recovery gives it all.
func TestKilledInRecovery(t *testing.T) {
	mem := newMem(t)
	filled(t, mem)
	c := mustOpen(t, on(mem))
	for _, p := range c.all() {
		mustAppend(t, c, p.Partition, "unclean")
	}
	left := mem.KillClone()
	for n := 0; ; n++ {
		fsys, death := dieAt(left, n)
		c, err := Open(on(fsys))
		lived := !death.dead.Load()
		if err == nil {
			c.Close(context.Background()) // may die in it
		} else if lived {
			t.Fatal(err)
		}
		if death.left != nil {
			left = death.left
		}
		if lived {
			break
		}
	}
	c = mustOpen(t, on(left))
	for _, p := range c.all() {
		if got, want := values(t, c, p.Partition), append(numbers(100), "unclean"); !slices.Equal(got, want) {
			t.Errorf("%s holds %v", p.Partition, got)
		}
	}
}

// A crash between the reading and the end of recovery must not be taken for a
// clean stop (FR-F2).
func TestMarkIsGoneBeforeRecovery(t *testing.T) {
	mem := newMem(t)
	filled(t, mem)
	var writes atomic.Int32
	fsys := faultfs.New(mem, faultfs.Plan{Hook: func(op faultfs.Op) error {
		switch op.Kind {
		case faultfs.Write, faultfs.Rename, faultfs.Truncate, faultfs.Allocate, faultfs.Remove:
		default:
			return nil
		}
		if op.Name == dataDir+"/"+LockFile || op.Name == dataDir+"/"+checkpoint.CleanShutdownFile {
			return nil
		}
		writes.Add(1)
		if exists(mem.CrashClone(vfs.CrashOptions{}), checkpoint.CleanShutdownFile) {
			t.Errorf("%s of %s while a power loss would bring the mark back", op.Kind, op.Name)
		}
		return errDied
	}})
	c, err := Open(on(fsys))
	if err == nil {
		mustCreateFails(t, c)
		c.Close(context.Background())
	}
	if writes.Load() == 0 {
		t.Error("nothing was written")
	}
	// Now the tail is damaged: recovery runs, since the stop was not clean.
	left := mem.KillClone()
	put(t, left, checkpoint.RecoveryPointFile, "0\n3\na 0 1000\na 1 0\nb 0 0\n") // beyond the end of a-0: it is clamped
	size := len(tree(t, left, dataDir)[dataDir+"/"+lastSegment(t, left, "b-0")])
	flip(t, left, lastSegment(t, left, "b-0"), int64(size-1))
	var told events
	o := on(left)
	o.Events = told.add
	c = mustOpen(t, o)
	if got := values(t, c, at("b", 0)); !slices.Equal(got, numbers(99)) {
		t.Errorf("%d records, want the 99 before the damage", len(got))
	}
	if got := told.of(EventTailCut); len(got) != 1 || got[0].Partition != at("b", 0) || got[0].From != 99 {
		t.Errorf("told %+v", got)
	}
	if got := told.of(EventPointBeyondEnd); len(got) != 1 || got[0].Partition != at("a", 0) {
		t.Errorf("told %+v", got)
	}
}

func mustCreateFails(t *testing.T, c *Catalog) {
	t.Helper()
	if err := c.CreateTopic(context.Background(), "x", TopicConfig{}); err == nil {
		t.Error("created on a file system that fails")
	}
}
