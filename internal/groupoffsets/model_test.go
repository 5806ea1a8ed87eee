package groupoffsets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// event is one thing that stands in the log, as the model writes it down.
type event struct {
	record   int64 // log offset
	producer int64 // 0: none
	end      byte  // 'c' or 'a': a marker; 0: a record
	name     touched
	offset   int64 // -1: a tombstone
}

// model says what is committed and pending by going through all events each time.
type model []event

type said struct{ offset, record int64 }

func (m model) state(highWatermark int64) (committed map[touched]said, pending map[touched]map[int64]said) {
	committed, pending = map[touched]said{}, map[touched]map[int64]said{}
	for _, e := range m {
		switch {
		case e.record >= highWatermark:
		case e.end != 0:
			for name, by := range pending {
				s, there := by[e.producer]
				if delete(by, e.producer); there && e.end == 'c' && (committed[name] == said{} || committed[name].record < s.record) {
					committed[name] = s
				}
			}
		case e.offset < 0:
			delete(committed, e.name)
			delete(pending, e.name)
		case e.producer != 0:
			if pending[e.name] == nil {
				pending[e.name] = map[int64]said{}
			}
			pending[e.name][e.producer] = said{e.offset, e.record}
		default:
			committed[e.name] = said{e.offset, e.record}
		}
	}
	return committed, pending
}

// staged tells whether something of a transaction stands above the high watermark.
func (m model) staged(name touched, highWatermark int64) bool {
	return slices.ContainsFunc(m, func(e event) bool {
		return e.record >= highWatermark && e.end == 0 && e.producer != 0 && e.name == name
	})
}

// life is a random history of one partition.
type life struct {
	*bed
	random *rand.Rand
	m      model
	open   map[int64]bool
	names  []touched
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{bed: newBed(t, 1, log.Options{Replicated: true}), random: rand.New(rand.NewPCG(seed, 0)), open: map[int64]bool{}}
	for _, g := range []string{"g", "h"} {
		for _, tp := range []topic.Partition{{Topic: "t"}, {Topic: "t", Index: 1}, {Topic: "u"}} {
			l.names = append(l.names, touched{g, tp})
		}
	}
	return l
}

func (l *life) log() *log.Log { return l.logs[0] }

// some are offsets of one group.
func (l *life) some() (group string, commits []Commit) {
	group = []string{"g", "h"}[l.random.IntN(2)]
	for range 1 + l.random.IntN(3) {
		tp := l.names[l.random.IntN(3)].partition
		commits = append(commits, Commit{Partition: tp, Offset: l.random.Int64N(100), LeaderEpoch: -1})
	}
	return group, commits
}

// step does one thing and has the model do it too.
func (l *life) step() {
	id := 1 + l.random.Int64N(3)
	switch n := l.random.IntN(20); {
	case n < 5:
		l.publish(0)
	case n < 11:
		l.publish(id)
	case n < 14:
		commit := l.random.IntN(2) == 0
		m := batch.Marker{Producer: producer(id), Commit: commit, Timestamp: at0}
		if _, err := l.log().AppendMarker(ctx, m, log.MarkerOptions{NoWait: true}); err != nil {
			l.t.Fatal(err)
		}
		l.open[id] = false
		l.m = append(l.m, event{record: l.log().Frontiers().LogEnd - 1, producer: id, end: map[bool]byte{true: 'c', false: 'a'}[commit]})
	case n < 17:
		f := l.log().Frontiers()
		l.log().AdvanceHighWatermark(f.HighWatermark + l.random.Int64N(f.LogEnd-f.HighWatermark+1))
	case n < 18:
		l.remove()
	case n < 19:
		l.seen()
		l.mu.Lock()
		old := l.logs[0]
		l.mu.Unlock()
		p, err := old.Close(ctx)
		if err != nil {
			l.t.Fatal(err)
		}
		l.lo.Points, l.lo.Clean = p, true
		l.reopen(0)
		l.lo.Points, l.lo.Clean = log.Points{}, false
	default:
		if l.cut(); l.random.IntN(2) == 0 {
			l.s = l.store()
		}
	}
}

func (l *life) seen() { l.log().AdvanceHighWatermark(l.log().Frontiers().LogEnd) }

// publish commits something, in the transaction of a producer or plainly.
func (l *life) publish(id int64) {
	group, commits := l.some()
	o := log.AppendOptions{NoWait: true}
	var p Published
	var err error
	if id == 0 {
		p, err = l.s.Commit(ctx, group, commits, o)
	} else {
		if o.Guard, _, err = l.log().Guard(producer(id), batch.None, false); err != nil {
			l.t.Fatal(err)
		}
		p, err = l.s.CommitTransactional(ctx, group, producer(id), commits, o)
		l.open[id] = true
	}
	if err != nil {
		l.t.Fatal(err)
	}
	for i, c := range commits {
		l.m = append(l.m, event{record: p.End - int64(len(commits)-i), producer: id, name: touched{group, c.Partition}, offset: c.Offset})
	}
}

// remove deletes something, and has expire what is neither pending nor touched.
func (l *life) remove() {
	l.seen()
	from := l.log().Frontiers().LogEnd
	name := l.names[l.random.IntN(len(l.names))]
	l.advanced(func() {
		var err error
		switch l.random.IntN(4) {
		case 0:
			_, err = l.s.Delete(ctx, name.group, []topic.Partition{name.partition})
		case 1:
			if err = l.s.DeleteGroup(ctx, name.group); err == ErrUnknownGroup {
				err = nil
			}
		case 2:
			_, err = l.s.DeleteTopic(ctx, name.partition.Topic)
		default:
			l.expire(from)
		}
		if err != nil {
			l.t.Error(err)
		}
	})
	l.note(from)
}

// expire holds what expires against the model: every committed offset without a
// pending one beside it.
func (l *life) expire(from int64) {
	committed, pending := l.m.state(from)
	want := 0
	for name := range committed {
		if len(pending[name]) == 0 {
			want++
		}
	}
	l.pass(DefaultRetention + time.Hour)
	if n, err := l.s.Expire(ctx, ExpireOptions{}); n != want || err != nil {
		l.t.Errorf("%d expired, %v, want %d", n, err, want)
	}
}

// note writes down the tombstones that were written from an offset on.
func (l *life) note(from int64) {
	var records batch.Records
	defer records.Close()
	for at := from; at < l.log().Frontiers().LogEnd; {
		f := must(l.log().Read(at, log.ReadOptions{Replica: true}))
		for v := range f.Batches() {
			for records.Reset(v); records.Next(); {
				k, known, err := readKey(records.Record().Key)
				if records.Record().Value != nil || !known || err != nil || !k.isOffset() {
					l.t.Fatalf("record %+v, want a tombstone", records.Record())
				}
				name := touched{string(k.group), topic.Partition{Topic: string(k.topic), Index: k.partition}}
				l.m = append(l.m, event{record: records.Record().Offset, name: name, offset: -1})
			}
		}
		at = f.NextOffset()
		f.Close()
	}
}

// cut takes away what is above the high watermark, as another leader would.
func (l *life) cut() {
	high := l.log().Frontiers().HighWatermark
	// A high watermark inside of a batch bounds no reader there.
	if err := l.log().Truncate(ctx, high); err != nil {
		return
	}
	l.m = slices.DeleteFunc(l.m, func(e event) bool { return e.record >= high })
	clear(l.open)
}

// held holds what the store says against the model.
func (l *life) held() error {
	high := l.s.at(0).cursor
	committed, pending := l.m.state(high)
	for _, stable := range []bool{false, true} {
		for _, name := range l.names {
			got := must(l.s.Fetch(ctx, nil, name.group, []topic.Partition{name.partition}, FetchOptions{RequireStable: stable}))
			want := int64(-1)
			if s, there := committed[name]; there {
				want = s.offset
			}
			if stable && (len(pending[name]) > 0 || l.m.staged(name, high)) {
				want = unstableNumber
			}
			if n := number(l.t, got[0]); n != want {
				return fmt.Errorf("%v, stable %v, at %d: got %d, want %d", name, stable, high, n, want)
			}
		}
	}
	return nil
}

// TestHistories does random things and compares with the model and with a fold
// from the start, after each of them.
func TestHistories(t *testing.T) {
	lives, steps := uint64(60), 150
	if testing.Short() || raced {
		lives = 8
	}
	for seed := range lives {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			l := newLife(t, seed)
			for i := range steps {
				l.step()
				l.same()
				if err := l.held(); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
		})
	}
}

// TestCompacted folds random histories before and after compaction: what is said
// stays the same.
func TestCompacted(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var m model
		for at := range int64(40) {
			e := event{record: at, producer: random.Int64N(3), name: touched{"g", part(int32(random.IntN(3)))}, offset: random.Int64N(100)}
			switch n := random.IntN(10); {
			case n < 2:
				e.end, e.producer = "ca"[random.IntN(2)], 1+random.Int64N(2)
			case n < 3:
				e.offset, e.producer = -1, 0
			}
			m = append(m, e)
		}
		m = append(m, event{record: 40, producer: 1, end: 'c'}, event{record: 41, producer: 2, end: 'a'})
		want, got := m.fold(t).text(), m.compacted().fold(t).text()
		if want != got {
			t.Fatalf("seed %d: %+v\n%s\ncompacted %+v\n%s", seed, m, want, m.compacted(), got)
		}
	}
}

// compacted is what a cleaner leaves: of each key the last record that was not
// aborted, and the markers.
func (m model) compacted() (left model) {
	aborted := func(i int) bool {
		for _, e := range m[i:] {
			if e.end != 0 && e.producer == m[i].producer {
				return e.end == 'a'
			}
		}
		return false
	}
	seen := map[touched]bool{}
	for i := len(m) - 1; i >= 0; i-- {
		if e := m[i]; e.end == 0 && (seen[e.name] || e.producer != 0 && aborted(i)) {
			continue
		} else if e.end == 0 {
			seen[e.name] = true
		}
		left = append(left, m[i])
	}
	slices.Reverse(left)
	return left
}

// fold folds the events, each in a batch.
func (m model) fold(t *testing.T) *fold {
	t.Helper()
	f := new(fold)
	f.reset()
	for _, e := range m {
		var b batch.Batch
		if e.end != 0 {
			b = batch.AppendMarker(nil, batch.Marker{Producer: producer(e.producer), Commit: e.end == 'c', Timestamp: at0})
		} else {
			o := batch.Plain
			if e.producer != 0 {
				o.Producer, o.Transactional = producer(e.producer), true
			}
			var w batch.Builder
			w.Reset(nil, o)
			c := Commit{Partition: e.name.partition, Offset: e.offset, LeaderEpoch: -1}
			var v []byte
			if e.offset >= 0 {
				v = appendValue(nil, &c, at0)
			}
			w.Add(at0, appendOffsetKey(nil, e.name.group, e.name.partition.Topic, e.name.partition.Index), v)
			b = must(w.Finish())
		}
		b.Stamp(e.record, 0)
		if err := f.batch(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	f.check(t)
	return f
}
