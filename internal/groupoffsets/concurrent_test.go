package groupoffsets

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Writers, transactions, readers, removals and reopenings at once: an offset that
// was acknowledged is never seen to go back, and the end of a transaction is seen
// by whoever asks after it.
func TestConcurrent(t *testing.T) {
	for _, level := range []log.Durability{log.DurabilityOS, log.DurabilityFsync} {
		t.Run(level.String(), func(t *testing.T) {
			rounds := 300
			if raced {
				rounds = 60
			}
			b := newBed(t, 2, log.Options{Config: log.Config{Durability: level}})
			var work, aside sync.WaitGroup
			stop := make(chan struct{})
			for i := range 4 {
				work.Go(func() { b.plainly(fmt.Sprint("plain-", i), rounds) })
				work.Go(func() { b.inTransactions(fmt.Sprint("txn-", i), int64(i+1), rounds) })
			}
			aside.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					if _, err := b.s.Expire(ctx, ExpireOptions{}); err != nil {
						t.Error(err)
					}
					if _, err := b.s.DeleteTopic(ctx, "other"); err != nil {
						t.Error(err)
					}
					if _, err := b.s.Groups(ctx); err != nil {
						t.Error(err)
					}
					b.s.Metrics()
				}
			})
			work.Wait()
			close(stop)
			aside.Wait()
			b.same()
		})
	}
}

func (b *bed) plainly(group string, rounds int) {
	var got []Committed
	for i := range rounds {
		o := log.AppendOptions{}
		c := []Commit{at(0, int64(i)), {Partition: topic.Partition{Topic: "other"}, Offset: 1, LeaderEpoch: -1}}
		if _, err := b.s.Commit(ctx, group, c, o); err != nil {
			b.t.Error(err)
			return
		}
		var err error
		got, err = b.s.Fetch(ctx, got[:0], group, []topic.Partition{part(0)}, FetchOptions{RequireStable: i%2 == 0})
		if err != nil || got[0].Err != nil || got[0].Offset != int64(i) {
			b.t.Errorf("round %d: got %+v, %v", i, got, err)
			return
		}
	}
}

func (b *bed) inTransactions(group string, id int64, rounds int) {
	l := b.of(group)
	want := int64(-1)
	for i := range rounds {
		b.stage(group, id, at(0, int64(i)))
		commit := i%3 > 0
		m := batch.Marker{Producer: producer(id), Commit: commit, Timestamp: at0}
		a, err := l.AppendMarker(ctx, m, log.MarkerOptions{NoWait: true})
		if err == nil {
			err = l.Await(ctx, a.LastOffset+1, log.DurabilityDefault)
		}
		if err != nil {
			b.t.Error(err)
			return
		}
		if commit {
			want = int64(i)
		}
		got, err := b.s.Fetch(ctx, nil, group, []topic.Partition{part(0)}, FetchOptions{RequireStable: true})
		if err != nil || got[0].Err != nil || got[0].Offset != want {
			b.t.Errorf("round %d: got %+v, %v, want %d", i, got, err, want)
			return
		}
	}
}

// A store that opens a long log is asked by many at once.
func TestConcurrentCatchUp(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	var c []Commit
	for i := range int32(2000) {
		c = append(c, Commit{Partition: part(i), Offset: 1, LeaderEpoch: -1, Metadata: "some text that makes it longer"})
	}
	for i := range 20 {
		b.commit(fmt.Sprint("g", i), c...)
	}
	b.s = b.store()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			got, err := b.s.FetchAll(ctx, nil, fmt.Sprint("g", i), FetchOptions{})
			if err != nil || len(got) != len(c) {
				t.Errorf("got %d, %v, want %d", len(got), err, len(c))
			}
		})
	}
	all.Wait()
	if m := b.s.Metrics(); m != (Metrics{Groups: 20, Offsets: 20 * len(c)}) {
		t.Errorf("got %+v", m)
	}
}
