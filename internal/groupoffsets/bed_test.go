package groupoffsets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

var ctx = context.Background()

const at0 = 1_700_000_000_000 // ms

// bed is a store over logs in memory, with a clock of its own.
type bed struct {
	t    testing.TB
	fs   *vfs.Mem
	o    Options
	lo   log.Options // of every log
	n    int
	logs []*log.Log
	s    *Store

	mu     sync.Mutex
	now    time.Time
	broken error    // that Partition answers
	stale  *log.Log // that it answers once more
}

func newBed(t testing.TB, n int, lo log.Options) *bed {
	t.Helper()
	b := &bed{t: t, fs: vfs.NewMem(), lo: lo, n: n, now: time.UnixMilli(at0)}
	if b.lo.Config.Durability == log.DurabilityDefault {
		b.lo.Config.Durability = log.DurabilityOS
	}
	b.lo.Config.Compact = true
	for i := range n {
		b.logs = append(b.logs, b.openLog(i))
	}
	b.s = b.store()
	return b
}

func (b *bed) store() *Store {
	o := b.o
	o.Now = b.clock
	return New(o, b)
}

func (b *bed) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bed) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bed) openLog(i int) *log.Log {
	b.t.Helper()
	o := b.lo
	o.FS, o.Partition, o.Now = b.fs, topic.Partition{Topic: topic.ConsumerOffsets, Index: int32(i)}, b.clock
	o.Dir = o.Partition.String()
	if err := b.fs.Mkdir(o.Dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		b.t.Fatal(err)
	}
	l, err := log.Load(o)
	if err == nil && !o.ReadOnly {
		_, err = l.Recover(ctx)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { l.Abandon() })
	return l
}

// reopen opens a log again, without having closed it.
func (b *bed) reopen(i int) {
	b.t.Helper()
	b.mu.Lock()
	old := b.logs[i]
	b.mu.Unlock()
	old.Abandon()
	l := b.openLog(i)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logs[i] = l
}

func (b *bed) OffsetsPartitions() int { return b.n }

func (b *bed) Partition(tp topic.Partition) (*log.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.stale; l != nil {
		b.stale = nil
		return l, nil
	}
	return b.logs[tp.Index], b.broken
}

// of is the log of a group.
func (b *bed) of(group string) *log.Log {
	l, err := b.Partition(must(b.s.PartitionOf(group)))
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func part(index int32) topic.Partition { return topic.Partition{Topic: "t", Index: index} }

func at(index int32, offset int64) Commit {
	return Commit{Partition: part(index), Offset: offset, LeaderEpoch: batch.None}
}

func (b *bed) commit(group string, commits ...Commit) Published {
	b.t.Helper()
	p, err := b.s.Commit(ctx, group, commits, log.AppendOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func producer(id int64) batch.Producer { return batch.Producer{ID: id} }

// stage commits offsets in the transaction of a producer.
func (b *bed) stage(group string, id int64, commits ...Commit) Published {
	b.t.Helper()
	guard, _, err := b.of(group).Guard(producer(id), batch.None, false)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := b.s.CommitTransactional(ctx, group, producer(id), commits, log.AppendOptions{Guard: guard})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// end writes the marker of a producer.
func (b *bed) end(group string, id int64, commit bool) {
	b.t.Helper()
	m := batch.Marker{Producer: producer(id), Commit: commit, Timestamp: at0}
	if _, err := b.of(group).AppendMarker(ctx, m, log.MarkerOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// offset is what is committed for a partition of topic t: unstable is -2.
func (b *bed) offset(group string, index int32, stable bool) int64 {
	b.t.Helper()
	all, err := b.s.Fetch(ctx, nil, group, []topic.Partition{part(index)}, FetchOptions{RequireStable: stable})
	if err != nil {
		b.t.Fatal(err)
	}
	return number(b.t, all[0])
}

const unstableNumber = -2

func number(t testing.TB, c Committed) int64 {
	t.Helper()
	if c.Err == nil {
		return c.Offset
	}
	if !errors.Is(c.Err, ErrUnstable) || c.Offset != -1 || c.LeaderEpoch != -1 || c.Metadata != "" {
		t.Fatalf("got %+v, want an unstable one to say none", c)
	}
	return unstableNumber
}

// want holds offsets of one partition: as it is, and stable.
func (b *bed) want(group string, index int32, offset, stable int64) {
	b.t.Helper()
	if got := b.offset(group, index, false); got != offset {
		b.t.Errorf("%s %d: committed %d, want %d", group, index, got, offset)
	}
	if got := b.offset(group, index, true); got != stable {
		b.t.Errorf("%s %d: stable %d, want %d", group, index, got, stable)
	}
	b.same()
}

// same holds what is known against another store's fold of the same logs.
func (b *bed) same() {
	b.t.Helper()
	if err := b.s.CatchUp(ctx); err != nil {
		b.t.Fatal(err)
	}
	anew := b.store()
	if err := anew.CatchUp(ctx); err != nil {
		b.t.Fatal(err)
	}
	for i := range b.n {
		if live, replayed := b.s.at(i).fold.text(), anew.at(i).fold.text(); live != replayed {
			b.t.Fatalf("partition %d: live\n%sreplayed\n%s", i, live, replayed)
		}
		b.s.at(i).fold.check(b.t)
	}
}

// text is all that a fold says.
func (f *fold) text() string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for name, g := range f.groups {
		add("%q open=%d classic=%+v consumer=%v members=%v", name, g.open, g.classic != nil, g.consumer, len(g.members))
		if g.classic != nil {
			add("%q %+v", name, *g.classic)
		}
		for _, t := range g.topics {
			for _, e := range t.entries {
				add("%q %s-%d committed %+v", name, t.name, e.partition, e.committed)
				for p := e.pending; p != nil; p = p.next {
					add("%q %s-%d pending %d %+v", name, t.name, e.partition, p.of.producer, p.value)
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// check holds what must be true of a fold.
func (f *fold) check(t testing.TB) {
	t.Helper()
	offsets, pending, groups := 0, 0, map[*groupState]int{}
	for id, o := range f.open {
		if o.producer != id {
			t.Errorf("transaction of %d is filed under %d", o.producer, id)
		}
		for i, p := range o.list {
			if p.of != o || p.at != i || p.entry.pendingOf(o) != p {
				t.Errorf("pending offset %d of %d is not in its place", i, id)
			}
		}
		pending += len(o.list)
		for g := range o.groups {
			groups[g]++
		}
	}
	staged := 0
	for name, g := range f.groups {
		if !g.isKnown() || g.name != name || g.open != groups[g] {
			t.Errorf("group %q: %+v, open in %d", name, g, groups[g])
		}
		for topic, u := range g.topics {
			if len(u.entries) == 0 || u.name != topic || u.group != g {
				t.Errorf("group %q: topic %q is not in its place, or empty", name, topic)
			}
			if !slices.IsSortedFunc(u.entries, func(a, b *entry) int { return int(a.partition) - int(b.partition) }) {
				t.Errorf("group %q: partitions of %q are not sorted", name, topic)
			}
			for _, e := range u.entries {
				if !e.isLive() || e.topic != u {
					t.Errorf("group %q: %s-%d is not live, or not in its place", name, topic, e.partition)
				}
				if e.isCommitted() {
					offsets++
				}
				for p := e.pending; p != nil; p = p.next {
					staged++
				}
			}
		}
	}
	if offsets != f.offsets || pending != f.pending || staged != f.pending {
		t.Errorf("counted %d offsets and %d, %d pending ones; the fold says %d and %d", offsets, pending, staged, f.offsets, f.pending)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
