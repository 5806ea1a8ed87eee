package txn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// worker is one of many producers: it does transactions until it is told to stop,
// and knows how each ended.
type worker struct {
	*bed
	id        string
	r         *rand.Rand
	committed map[string]topic.Partition // what has to be there
	ends      int
}

// TestConcurrently: many producers over the same partitions, while others fence
// them, partitions fail, the log is looked at, and time goes by. Each transaction
// is there as a whole or not at all.
func TestConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLive(t, Options{AbortInterval: time.Second})
		var stop atomic.Bool
		var group sync.WaitGroup
		var workers []*worker
		for i := range 8 {
			// Two of them share an id, and fence each other.
			w := &worker{bed: b, id: fmt.Sprint("id-", min(i, 6)), r: rand.New(rand.NewPCG(uint64(i), 7)), committed: map[string]topic.Partition{}}
			workers = append(workers, w)
			group.Go(func() { w.work(&stop) })
		}
		group.Go(func() { b.disturb(&stop) })
		time.Sleep(15 * time.Second)
		stop.Store(true)
		group.Wait()
		for i := range int32(4) {
			b.serve(part("t", i), nil)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		b.wantStable()
		visible := map[string]topic.Partition{}
		for i := range int32(4) {
			for _, v := range b.visible(part("t", i)) {
				visible[v] = part("t", i)
			}
		}
		ends := 0
		for _, w := range workers {
			w.judge(visible)
			ends += w.ends
		}
		if len(visible) > 0 {
			t.Errorf("nobody wrote %v", visible)
		}
		if m := b.c.Metrics(); ends < 100 || m.Committed == 0 || m.Aborted == 0 || m.Fenced == 0 {
			t.Errorf("%d ends, metrics %+v", ends, m)
		}
	})
}

// disturb does what makes it hard.
func (b *bed) disturb(stop *atomic.Bool) {
	r := rand.New(rand.NewPCG(1, 2))
	for !stop.Load() {
		tp := part("t", int32(r.IntN(4)))
		switch r.IntN(5) {
		case 0:
			b.serve(tp, errors.New("not now"))
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
			b.serve(tp, nil)
		case 1:
			l := b.logs[tp]
			l.Freeze()
			time.Sleep(10 * time.Millisecond)
			l.Thaw()
		case 2:
			_ = b.c.Abort(ctx, fmt.Sprint("id-", r.IntN(7)))
		case 3:
			b.c.List(Filter{States: []State{Ongoing}})
			_, _ = b.c.Hanging(ctx, 0)
			b.c.Metrics()
		default:
			b.c.Work(ctx)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *worker) work(stop *atomic.Bool) {
	p := none
	for n := 0; !stop.Load(); n++ {
		if p == none {
			var err error
			if p, err = w.c.InitProducerID(ctx, w.id, InitOptions{Wait: true, Timeout: 5 * time.Second}); err != nil {
				w.t.Errorf("%s: init: %v", w.id, err)
				return
			}
		}
		p = w.transact(p, n)
		time.Sleep(time.Duration(w.r.IntN(20)) * time.Millisecond)
	}
}

// transact does one transaction, and answers who the producer is then.
func (w *worker) transact(p batch.Producer, n int) batch.Producer {
	values := map[string]topic.Partition{}
	sequences := map[topic.Partition]int32{}
	whole := true
	for i := range 1 + w.r.IntN(4) {
		tp, value := part("t", int32(w.r.IntN(4))), fmt.Sprintf("%s %d/%d %d.%d", w.id, p.ID, p.Epoch, n, i)
		if err := w.put(p, tp, sequences[tp], value); err != nil {
			whole = false
			break
		}
		sequences[tp]++
		values[value] = tp
	}
	commit := whole && w.r.IntN(3) > 0
	for {
		next, err := w.c.End(ctx, w.id, p, EndOptions{Commit: commit, TV2: true, Async: w.r.IntN(2) == 0})
		switch {
		case err == nil && commit:
			w.ends++
			for v, tp := range values {
				w.committed[v] = tp
			}
			return next
		case err == nil:
			return next
		case ClassOf(err) == ClassRetriable:
			time.Sleep(5 * time.Millisecond)
		case ClassOf(err) == ClassUnknown:
			w.t.Errorf("%s: end: %v", w.id, err)
			return none
		default: // fenced, or aborted meanwhile
			return none
		}
	}
}

func (w *worker) put(p batch.Producer, tp topic.Partition, sequence int32, value string) error {
	l, err := w.Partition(tp)
	if err != nil {
		return err
	}
	g, needed, err := l.Guard(p, sequence, true)
	for err == nil && needed && g != 0 {
		if err = w.c.Enlist(ctx, w.id, p, []topic.Partition{tp}); !errors.Is(err, ErrConcurrent) {
			break
		}
		time.Sleep(time.Millisecond)
		g, needed, err = l.Guard(p, sequence, true)
	}
	if err != nil {
		return err
	}
	var b batch.Builder
	b.Reset(nil, batch.BuilderOptions{Producer: p, BaseSequence: sequence, Transactional: true})
	b.Add(time.Now().UnixMilli(), nil, []byte(value))
	raw, err := b.Finish()
	if err == nil {
		_, err = l.Append(ctx, raw, log.AppendOptions{Guard: g})
	}
	return err
}

// judge takes what has to be there out of what is.
func (w *worker) judge(visible map[string]topic.Partition) {
	for v, tp := range w.committed {
		if visible[v] != tp {
			w.t.Errorf("%q was committed, and is not there", v)
		}
		delete(visible, v)
	}
}
