package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// bed is a coordinator over logs in memory, with a clock of its own.
type bed struct {
	t    testing.TB
	fs   *vfs.Mem
	o    Options
	c    *Coordinator
	told []Event

	mu       sync.Mutex
	logs     map[topic.Partition]*log.Log
	gone     map[topic.Partition]bool  // their topic was deleted
	broken   map[topic.Partition]error // do not serve now
	states   int                       // partitions of the transaction log
	first    int64                     // producer id that was reserved
	reserved int64
	now      time.Time
	live     bool
	level    log.Durability // of every log; DurabilityDefault: DurabilityOS
	barriers int
	// barrier is asked before each; nil: none fails or waits.
	barrier func([]topic.Partition) error
}

var stateLog = topic.Partition{Topic: topic.TransactionState}

func part(name string, index int32) topic.Partition {
	return topic.Partition{Topic: name, Index: index}
}

// newBed has partitions t-0 to t-3, and one of each internal topic.
func newBed(t testing.TB, o Options) *bed {
	t.Helper()
	b := &bed{t: t, fs: vfs.NewMem(), o: o, states: 1, first: 4000, reserved: 4000, now: time.UnixMilli(at0)}
	b.wire()
	b.openLogs()
	b.open()
	return b
}

// newLive is a bed whose coordinator does by itself what is due, by the clock of
// the machine: for tests in a bubble, where that is a false one.
func newLive(t testing.TB, o Options) *bed { return newLiveAt(t, o, log.DurabilityOS) }

func newLiveAt(t testing.TB, o Options, level log.Durability) *bed {
	t.Helper()
	b := &bed{level: level, t: t, fs: vfs.NewMem(), o: o, states: 1, first: 4000, reserved: 4000, live: true}
	b.wire()
	b.openLogs()
	b.open()
	return b
}

// wire makes events those of the bed, and unless it lives by itself the clock
// too.
func (b *bed) wire() {
	if b.o.Now = time.Now; !b.live {
		b.o.Manual = true
		b.o.Now = func() time.Time {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.now
		}
	}
	b.o.Events = func(e Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, e)
	}
}

func (b *bed) openLogs() {
	b.t.Helper()
	b.logs, b.gone, b.broken = map[topic.Partition]*log.Log{}, map[topic.Partition]bool{}, map[topic.Partition]error{}
	for _, tp := range []topic.Partition{stateLog, part(topic.ConsumerOffsets, 0), part("t", 0), part("t", 1), part("t", 2), part("t", 3)} {
		b.openLog(tp)
	}
}

func (b *bed) openLog(tp topic.Partition) {
	b.t.Helper()
	if err := b.fs.Mkdir(tp.String(), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		b.t.Fatal(err)
	}
	l, err := log.Load(log.Options{FS: b.fs, Dir: tp.String(), Partition: tp, Now: b.o.Now, Config: log.Config{Durability: cmp.Or(b.level, log.DurabilityOS)}})
	if err == nil {
		_, err = l.Recover(context.Background())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logs[tp] = l
	b.t.Cleanup(func() { l.Abandon() })
}

func (b *bed) open() {
	b.t.Helper()
	c, err := Open(context.Background(), b.o, b)
	if err != nil {
		b.t.Fatal(err)
	}
	b.c = c
	b.t.Cleanup(c.Close)
}

// crash kills the process and opens everything again.
func (b *bed) crash() {
	b.t.Helper()
	b.c.Close()
	b.fs = b.fs.KillClone()
	for _, l := range b.logs {
		l.Abandon()
	}
	b.openLogs()
	b.open()
}

func (b *bed) Partition(tp topic.Partition) (*log.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.broken[tp] != nil:
		return nil, b.broken[tp]
	case b.gone[tp] || b.logs[tp] == nil:
		return nil, ErrPartitionGone
	}
	return b.logs[tp], nil
}

func (b *bed) Create(_ context.Context, name string) error {
	b.openLog(part(name, 0))
	return nil
}

func (b *bed) All() iter.Seq[topic.Partition] {
	return slices.Values(slices.SortedFunc(maps.Keys(b.logs), topic.Partition.Compare))
}

func (b *bed) StatePartitions() int   { return b.states }
func (b *bed) OffsetsPartitions() int { return 1 }

func (b *bed) Barrier(_ context.Context, set []topic.Partition) error {
	b.mu.Lock()
	b.barriers++
	ask := b.barrier
	b.mu.Unlock()
	if ask == nil {
		return nil
	}
	return ask(set)
}

func (b *bed) ReserveIDs(_ context.Context, n int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved += int64(n)
	return b.reserved - int64(n), nil
}

func (b *bed) Reserved(id int64) bool { return id >= b.first && id < b.reserved }

func (b *bed) sleep(d time.Duration) {
	b.mu.Lock()
	b.now = b.now.Add(d)
	b.mu.Unlock()
	b.c.Work(context.Background())
}

// serve has a partition serve again, or not.
func (b *bed) serve(tp topic.Partition, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken[tp] = err; err == nil {
		delete(b.broken, tp)
	}
}

func (b *bed) events(kind EventKind) (found []Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.told {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

var ctx = context.Background()

// init gives a producer its identity.
func (b *bed) init(id string) batch.Producer {
	b.t.Helper()
	p, err := b.c.InitProducerID(ctx, id, InitOptions{Wait: true})
	if err != nil {
		b.t.Fatalf("init %s: %v", id, err)
	}
	return p
}

// send appends a batch of n records to a transaction, as a log does that asks
// the coordinator.
func (b *bed) send(id string, p batch.Producer, tp topic.Partition, sequence int32, n int) error {
	l, err := b.Partition(tp)
	if err != nil {
		return err
	}
	g, needed, err := l.Guard(p, sequence, true)
	if err == nil && needed && g != 0 { // without a guard the log refuses it anyway
		err = b.c.Enlist(ctx, id, p, []topic.Partition{tp})
	}
	if err != nil {
		return err
	}
	return b.write(l, p, sequence, n, log.AppendOptions{Guard: g})
}

func (b *bed) write(l *log.Log, p batch.Producer, sequence int32, n int, o log.AppendOptions) error {
	var w batch.Builder
	w.Reset(nil, batch.BuilderOptions{Producer: p, BaseSequence: sequence, Transactional: true})
	for i := range n {
		w.Add(b.o.Now().UnixMilli(), nil, fmt.Append(nil, sequence+int32(i)))
	}
	raw, err := w.Finish()
	if err == nil {
		_, err = l.Append(ctx, raw, o)
	}
	return err
}

func (b *bed) mustSend(id string, p batch.Producer, tp topic.Partition, sequence int32, n int) {
	b.t.Helper()
	if err := b.send(id, p, tp, sequence, n); err != nil {
		b.t.Fatalf("send %s %+v to %s: %v", id, p, tp, err)
	}
}

func (b *bed) end(id string, p batch.Producer, commit bool) (batch.Producer, error) {
	return b.c.End(ctx, id, p, EndOptions{Commit: commit, TV2: true})
}

func (b *bed) mustEnd(id string, p batch.Producer, commit bool) batch.Producer {
	b.t.Helper()
	next, err := b.end(id, p, commit)
	if err != nil {
		b.t.Fatalf("end %s %+v: %v", id, p, err)
	}
	return next
}

func (b *bed) state(id string) State {
	b.t.Helper()
	d, err := b.c.Describe(ctx, id)
	if err != nil {
		b.t.Fatalf("describe %s: %v", id, err)
	}
	return d.State
}

// want fails unless err is of a kind; nil: none.
func (b *bed) want(err, kind error, what string) {
	b.t.Helper()
	if !errors.Is(err, kind) || (err == nil) != (kind == nil) {
		b.t.Errorf("%s: %v, want %v", what, err, kind)
	}
}

// visible is what read_committed shows of a partition.
func (b *bed) visible(tp topic.Partition) (values []string) {
	b.t.Helper()
	l := b.logs[tp]
	var records batch.Records
	defer records.Close()
	for from := l.Frontiers().LogStart; ; {
		f, err := l.Read(from, log.ReadOptions{Isolation: log.ReadCommitted})
		if err != nil {
			b.t.Fatal(err)
		}
		if f.NextOffset() == from {
			f.Close()
			return values
		}
		for raw := range f.Batches() {
			gone := slices.ContainsFunc(f.Aborted, func(a index.AbortedTxn) bool {
				return a.ProducerID == raw.ProducerID() && raw.BaseOffset() >= a.First && raw.BaseOffset() <= a.Last
			})
			if raw.IsControl() || gone {
				continue
			}
			for records.Reset(raw); records.Next(); {
				values = append(values, string(records.Record().Value))
			}
		}
		from = f.NextOffset()
		f.Close()
	}
}

func (b *bed) wantVisible(tp topic.Partition, want ...string) {
	b.t.Helper()
	if got := b.visible(tp); !slices.Equal(got, want) {
		b.t.Errorf("%s shows %q, want %q", tp, got, want)
	}
}

// wantStable fails unless nothing is open.
func (b *bed) wantStable() {
	b.t.Helper()
	for tp, l := range b.logs {
		if f := l.Frontiers(); f.LastStable != f.LogEnd {
			b.t.Errorf("%s is stable to %d and ends at %d", tp, f.LastStable, f.LogEnd)
		}
	}
}
