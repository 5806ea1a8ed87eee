package txn

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// In a bubble: time goes by when nothing else is left to do.

// TestBlockedPartition: a partition that keeps appends out holds up neither the
// other partitions of a transaction nor other transactions, however many wait for
// it, and is not waited for longer than it takes.
func TestBlockedPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLive(t, Options{})
		const many = 3 * slowMax
		answers := make(chan error, many)
		l := b.logs[part("t", 0)]
		for i := range many {
			id := fmt.Sprint("x", i)
			p := b.init(id)
			b.mustSend(id, p, part("t", 0), 0, 1)
			b.mustSend(id, p, part("t", 1), 0, 1)
		}
		start := time.Now()
		l.Freeze()
		thaw := sync.OnceFunc(l.Thaw)
		defer thaw()
		for i := range many {
			id := fmt.Sprint("x", i)
			go func() {
				_, err := b.end(id, b.current(id), true)
				answers <- err
			}()
		}
		synctest.Wait()
		if got := len(b.visible(part("t", 1))); got != many {
			t.Errorf("%d of %d are visible in the other partition", got, many)
		}
		p := b.init("y")
		b.mustSend("y", p, part("t", 2), 0, 1)
		b.mustEnd("y", p, true)
		// One whose marker failed for another reason is tried again meanwhile.
		z := b.init("z")
		b.mustSend("z", z, part("t", 3), 0, 1)
		b.serve(part("t", 3), errors.New("not now"))
		if _, err := b.c.End(ctx, "z", z, EndOptions{Commit: true, TV2: true, Async: true}); err != nil {
			t.Fatal(err)
		}
		b.serve(part("t", 3), nil)
		if err := b.c.Settle(ctx, "z"); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 2*retryAfter {
			t.Errorf("held up for %v", d)
		}
		if len(answers) > 0 {
			t.Fatalf("answered while it is blocked: %v", <-answers)
		}
		thaw()
		for i := range many {
			if err := <-answers; err != nil {
				t.Error(err)
			}
			defer b.wantSettled(fmt.Sprint("x", i))
		}
		if d := time.Since(start); d > 2*retryAfterMax {
			t.Errorf("waited for %v", d)
		}
	})
}

// current is the identity of an id.
func (b *bed) current(id string) batch.Producer {
	b.t.Helper()
	d, err := b.c.Describe(ctx, id)
	if err != nil {
		b.t.Error(err)
	}
	return d.Producer
}

func (b *bed) wantSettled(id string) {
	b.t.Helper()
	if d, err := b.c.Describe(ctx, id); err != nil || d.State != CompleteCommit {
		b.t.Errorf("%s is %+v, %v", id, d, err)
	}
}

// TestRetriesSlowDown: what fails for long is tried less and less often, what
// fails for a moment soon, and the operator is told once.
func TestRetriesSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLive(t, Options{})
		end := func(id string, tp topic.Partition) {
			p := b.init(id)
			b.mustSend(id, p, tp, 0, 1)
			b.serve(tp, errors.New("not now"))
			if _, err := b.c.End(ctx, id, p, EndOptions{Commit: true, TV2: true, Async: true}); err != nil {
				t.Fatal(err)
			}
		}
		end("x", part("t", 0))
		time.Sleep(time.Minute)
		if got := len(b.events(EventMarkerFailed)); got != 1 {
			t.Errorf("told %d times", got)
		}
		end("y", part("t", 1))
		b.serve(part("t", 1), nil)
		time.Sleep(retryAfter)
		synctest.Wait()
		b.wantSettled("y")
		b.serve(part("t", 0), nil)
		time.Sleep(retryAfterMax)
		synctest.Wait()
		b.wantSettled("x")
	})
}

// 61, 65: by itself.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLive(t, Options{})
		p, err := b.c.InitProducerID(ctx, "x", InitOptions{Timeout: 25 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		b.mustSend("x", p, part("t", 0), 0, 1)
		time.Sleep(25 * time.Second) // at 28 s; it is looked at 30 s
		synctest.Wait()
		if b.state("x") != Ongoing {
			t.Errorf("at its timeout it is %s", b.state("x"))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if b.state("x") != CompleteAbort {
			t.Errorf("a look later it is %s", b.state("x"))
		}
		b.wantStable()
		time.Sleep(7*24*time.Hour + time.Hour)
		synctest.Wait()
		if _, err := b.c.Describe(ctx, "x"); !errors.Is(err, ErrUnknownID) {
			t.Errorf("after a week: %v", err)
		}
	})
}

// Whoever waits for a transaction to be completed goes on when it is, and not
// before; and is told when the coordinator closes.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLive(t, Options{})
		p := b.init("x")
		b.mustSend("x", p, part("t", 0), 0, 1)
		b.serve(part("t", 0), errors.New("not now"))
		ended, began := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := b.end("x", p, true)
			ended <- err
		}()
		synctest.Wait()
		go func() {
			_, err := b.c.InitProducerID(ctx, "x", InitOptions{Wait: true})
			began <- err
		}()
		synctest.Wait()
		if len(ended)+len(began) > 0 {
			t.Fatal("somebody did not wait")
		}
		b.serve(part("t", 0), nil)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := <-began; err != nil {
			t.Error(err)
		}
		p = b.current("x")
		b.mustSend("x", p, part("t", 0), 0, 1)
		b.serve(part("t", 0), errors.New("not now"))
		go func() {
			_, err := b.end("x", p, true)
			ended <- err
		}()
		synctest.Wait()
		b.c.Close()
		err := <-ended
		b.want(err, ErrOutcomeUnknown, "end, closed meanwhile")
		b.want(err, log.ErrClosed, "end, closed meanwhile")
		if ClassOf(err) != ClassUnknown {
			t.Errorf("its class is %s", ClassOf(err))
		}
	})
}
