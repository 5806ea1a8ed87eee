package oncelog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// fetchAll fetches from offset 0 of partitions and gives the batches of each.
func fetchAll(t *testing.T, s *oncelog.Store, o oncelog.FetchOptions, requests ...oncelog.FetchRequest) (batches []int) {
	t.Helper()
	results, err := s.Fetch(t.Context(), requests, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		n := 0
		for range r.Batches() {
			n++
		}
		batches = append(batches, n)
		r.Close()
	}
	return batches
}

// The budget is Kafka's: what each partition and all together may answer, and
// one batch whole until something was answered.
func TestFetchBudget(t *testing.T) {
	s := newStore(t, 4, oncelog.Options{})
	size := len(recordsOf(batch.Plain, strings.Repeat("x", 1000)))
	for i := range 3 { // partition 3 stays empty
		for range 5 {
			mustAppend(t, s, partition(i), strings.Repeat("x", 1000))
		}
	}
	for _, c := range []struct {
		name  string
		order []int
		each  int
		all   int
		want  []int
	}{
		{"all of it", []int{0, 1, 2, 3}, 0, 0, []int{5, 5, 5, 0}},
		{"a partition's bound", []int{0, 1}, 2*size + 10, 0, []int{2, 2}},
		{"the bound of all", []int{0, 1, 2}, 0, 7*size + 10, []int{5, 2, 0}},
		{"both", []int{0, 1, 2}, 2 * size, 5*size + 10, []int{2, 2, 1}},
		{"one batch whole, from the first that has any", []int{3, 0, 1}, 10, 20, []int{0, 1, 0}},
		{"one batch whole, then the bounds hold", []int{0, 1, 2}, 10, 3 * size, []int{1, 0, 0}},
		{"nothing is left after the one", []int{0, 1}, size, size / 2, []int{1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests []oncelog.FetchRequest
			for _, i := range c.order {
				requests = append(requests, oncelog.FetchRequest{TopicPartition: partition(i), BytesMax: c.each})
			}
			got := fetchAll(t, s, oncelog.FetchOptions{BytesMax: c.all}, requests...)
			for i := range got {
				if got[i] != c.want[i] {
					t.Fatalf("got %v batches, want %v", got, c.want)
				}
			}
		})
	}
}

// What is wrong with one partition is its own, and ends the wait.
func TestFetchErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 2, oncelog.Options{})
		mustAppend(t, s, partition(0), "x")
		start := time.Now()
		results, err := s.Fetch(t.Context(), []oncelog.FetchRequest{
			{TopicPartition: partition(1)}, {TopicPartition: partition(0), Offset: 7}, {TopicPartition: partition(9)}, {TopicPartition: partition(0), Offset: -1},
		}, oncelog.FetchOptions{WaitMax: time.Hour, Results: make([]oncelog.FetchResult, 8)})
		if err != nil || len(results) != 4 || time.Since(start) != 0 {
			t.Fatalf("%d results after %v, %v", len(results), time.Since(start), err)
		}
		for i, want := range []error{nil, oncelog.ErrOffsetOutOfRange, oncelog.ErrUnknownPartition, oncelog.ErrOffsetOutOfRange} {
			if !errors.Is(results[i].Err, want) || (want == nil) != (results[i].Fetched != nil) {
				t.Errorf("result %d: %v, want %v", i, results[i].Err, want)
			}
			results[i].Close()
		}
		s.Close(t.Context())
		results, err = s.Fetch(t.Context(), []oncelog.FetchRequest{{TopicPartition: partition(0)}}, oncelog.FetchOptions{})
		if err != nil || !errors.Is(results[0].Err, oncelog.ErrClosed) {
			t.Errorf("after Close: %+v, %v", results, err)
		}
	})
}

// A long poll ends when there is enough, when time is over, when the caller's
// context ends, when the topic goes and when the store closes.
func TestFetchWaits(t *testing.T) {
	const wait = 10 * time.Second
	size := len(recordsOf(batch.Plain, "x"))
	for _, c := range []struct {
		name   string
		least  int
		during func(t *testing.T, s *oncelog.Store) // after a second
		cancel bool
		took   time.Duration
		want   []int // batches; nil: an error
		err    error
	}{
		{"time over", 0, nil, false, wait, []int{0, 0}, nil},
		{"an append", 0, func(t *testing.T, s *oncelog.Store) { mustAppend(t, s, partition(1), "x") }, false, time.Second, []int{0, 1}, nil},
		{"too little", 2 * size, func(t *testing.T, s *oncelog.Store) { mustAppend(t, s, partition(1), "x") }, false, wait, []int{0, 1}, nil},
		{"enough in two", 2 * size, func(t *testing.T, s *oncelog.Store) {
			mustAppend(t, s, partition(1), "x")
			time.Sleep(time.Second)
			mustAppend(t, s, partition(0), "x")
		}, false, 2 * time.Second, []int{1, 1}, nil},
		{"context", 0, nil, true, time.Second, nil, context.Canceled},
		{"deleted", 0, func(t *testing.T, s *oncelog.Store) {
			if err := s.DeleteTopic(t.Context(), "t"); err != nil {
				t.Error(err)
			}
		}, false, time.Second, nil, oncelog.ErrUnknownPartition},
		{"closed", 0, func(t *testing.T, s *oncelog.Store) {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}, false, time.Second, nil, oncelog.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, 2, oncelog.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					time.Sleep(time.Second)
					if c.during != nil {
						c.during(t, s)
					}
					if c.cancel {
						cancel()
					}
				}()
				start := time.Now()
				requests := []oncelog.FetchRequest{{TopicPartition: partition(0)}, {TopicPartition: partition(1)}}
				results, err := s.Fetch(ctx, requests, oncelog.FetchOptions{WaitMax: wait, BytesMin: c.least})
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				for i := range results {
					if c.want == nil {
						err = results[i].Err
					} else if n := len(results[i].Bytes()) / size; n != c.want[i] {
						t.Errorf("partition %d: %d batches, want %d", i, n, c.want[i])
					}
					results[i].Close()
				}
				if !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				s.Close(t.Context())
				if m := s.Metrics(); m.Fetches != 1 || m.FetchWaits != 1 {
					t.Errorf("%d fetches, %d waits", m.Fetches, m.FetchWaits)
				}
			})
		})
	}
}

// A read_committed reader waits for the end of the transaction, not for its
// records.
func TestFetchWaitsForCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 1, oncelog.Options{})
		l, err := s.Partition(partition(0))
		if err != nil {
			t.Fatal(err)
		}
		p := batch.Producer{ID: 1}
		send(t.Context(), l, p, "x")
		go func() {
			time.Sleep(time.Second)
			mustAppend(t, s, partition(0), "behind it")
			time.Sleep(time.Second)
			if _, err := l.AppendMarker(t.Context(), batch.Marker{Producer: p, Commit: true}, log.MarkerOptions{}); err != nil {
				t.Error(err)
			}
		}()
		start := time.Now()
		got := fetchAll(t, s, oncelog.FetchOptions{Isolation: oncelog.ReadCommitted, WaitMax: time.Hour}, oncelog.FetchRequest{TopicPartition: partition(0)})
		if got[0] != 3 || time.Since(start) != 2*time.Second {
			t.Errorf("%d batches after %v, want 3 after 2s", got[0], time.Since(start))
		}
		s.Close(t.Context())
	})
}

// Neither a fetch that finds something nor an append allocates: the caller gives
// the memory.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	// The memory file system allocates when it syncs.
	s := newStore(t, 2, oncelog.Options{Durability: oncelog.DurabilityOS})
	mustAppend(t, s, partition(0), "x")
	mustAppend(t, s, partition(1), "x")
	requests := []oncelog.FetchRequest{{TopicPartition: partition(0)}, {TopicPartition: partition(1)}}
	o := oncelog.FetchOptions{Results: make([]oncelog.FetchResult, 0, 2)}
	ctx := t.Context()
	allocated := testing.AllocsPerRun(1000, func() {
		results, err := s.Fetch(ctx, requests, o)
		if err != nil || len(results[0].Bytes()) == 0 {
			t.Fatal(err)
		}
		closeResults(results)
	})
	b := recordsOf(batch.Plain, "x")
	appended := testing.AllocsPerRun(1000, func() {
		if _, err := s.Append(ctx, partition(0), b, oncelog.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	if allocated > 0 || appended > 0 {
		t.Errorf("%v allocations a fetch, %v an append", allocated, appended)
	}
}

func closeResults(results []oncelog.FetchResult) {
	for i := range results {
		results[i].Close()
	}
}

// What is there is enough though it is less than asked for, when waiting would
// not make it more: the answer ends with its segment, or the next batch does
// not fit.
func TestFetchDoesNotWaitForNothing(t *testing.T) {
	size := len(recordsOf(batch.Plain, "x"))
	for _, c := range []struct {
		name           string
		offset         int64
		bytesMin       int
		each, all      int
		first, expects int // partitions asked, batches in all
	}{
		{"the segment ends", 55, 5000, 0, 0, 1, 4096/size - 55},
		{"the partition's bound", 0, 1000, 1000, 0, 1, 1000 / size},
		{"the bound of all", 0, 1000, 0, 1000, 1, 1000 / size},
		{"the bound of all, met in the second", 195, 1000, 0, 1000, 2, 1000 / size},
		{"an answer larger than its bound", 0, 1000, 10, 10, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, 2, oncelog.Options{SegmentBytes: 4096})
				for range 200 {
					mustAppend(t, s, partition(0), "x")
					mustAppend(t, s, partition(1), "x")
				}
				requests := []oncelog.FetchRequest{{TopicPartition: partition(0), Offset: c.offset, BytesMax: c.each}, {TopicPartition: partition(1), BytesMax: c.each}}
				start, n := time.Now(), 0
				for _, batches := range fetchAll(t, s, oncelog.FetchOptions{WaitMax: time.Hour, BytesMin: c.bytesMin, BytesMax: c.all}, requests[:c.first]...) {
					n += batches
				}
				if took := time.Since(start); took != 0 || n != c.expects {
					t.Errorf("%d batches after %v, want %d at once", n, took, c.expects)
				}
				s.Close(t.Context())
			})
		})
	}
}

// A long poll reads what it answers, once when it begins and once when there is
// enough, however often something comes.
func TestFetchWaitReadsOnce(t *testing.T) {
	const least = 100_000
	for _, isolation := range []oncelog.Isolation{oncelog.ReadUncommitted, oncelog.ReadCommitted} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, 2, oncelog.Options{SegmentBytes: 1 << 20, Durability: oncelog.DurabilityOS})
			mustAppend(t, s, partition(0), "x")
			value := strings.Repeat("x", 300)
			enough := make(chan struct{})
			var appender sync.WaitGroup
			appender.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-enough:
						return
					case <-time.After(time.Millisecond): // the fetch waits again
						mustAppend(t, s, partition(i%2), value)
					}
				}
			})
			results, err := s.Fetch(t.Context(), []oncelog.FetchRequest{{TopicPartition: partition(0)}, {TopicPartition: partition(1)}},
				oncelog.FetchOptions{Isolation: isolation, WaitMax: time.Hour, BytesMin: least})
			close(enough)
			appender.Wait()
			if err != nil {
				t.Fatal(err)
			}
			answered := 0
			for i := range results {
				answered += len(results[i].Bytes())
			}
			batchSize := len(recordsOf(batch.Plain, value))
			if answered < least || answered >= least+batchSize {
				t.Errorf("%d bytes, want %d as soon as they are there", answered, least)
			}
			closeResults(results)
			m := s.Metrics()
			if extra := m.ReadBytes - int64(answered); extra > int64(batchSize) || m.Reads > 4 {
				t.Errorf("%d bytes in %d reads for an answer of %d", m.ReadBytes, m.Reads, answered)
			}
			s.Close(t.Context())
		})
	}
}

// What came is answered when the time is over, though it is too little.
func TestFetchTimeOverAnswersWhatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 1, oncelog.Options{})
		mustAppend(t, s, partition(0), "x")
		go func() {
			for range 3 {
				time.Sleep(time.Second)
				mustAppend(t, s, partition(0), "x")
			}
		}()
		start := time.Now()
		got := fetchAll(t, s, oncelog.FetchOptions{WaitMax: 10 * time.Second, BytesMin: 10_000}, oncelog.FetchRequest{TopicPartition: partition(0)})
		if got[0] != 4 || time.Since(start) != 10*time.Second {
			t.Errorf("%d batches after %v, want 4 after 10s", got[0], time.Since(start))
		}
		s.Close(t.Context())
	})
}

// A result is closed through copies, as a loop variable is one, and again: each
// answer gives its memory back once, and none is taken from another reader.
func TestFetchResultClosedTwice(t *testing.T) {
	s := newStore(t, 2, oncelog.Options{})
	mustAppend(t, s, partition(0), "zero")
	mustAppend(t, s, partition(1), "one")
	one := func(i int) []oncelog.FetchResult {
		results, err := s.Fetch(t.Context(), []oncelog.FetchRequest{{TopicPartition: partition(i)}}, oncelog.FetchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	for range 100 {
		old := one(0)
		for _, r := range old {
			r.Close()
		}
		a := one(0) // perhaps in the memory of old
		old[0].Close()
		b := one(1)
		old[0].Close()
		c := one(0)
		if a[0].Fetched == b[0].Fetched || b[0].Fetched == c[0].Fetched || a[0].Fetched == c[0].Fetched {
			t.Fatal("two open answers are one")
		}
		for i, r := range [][]oncelog.FetchResult{a, b, c} {
			if want := []string{"zero", "one", "zero"}[i]; !strings.Contains(string(r[0].Bytes()), want) {
				t.Fatalf("answer %d is %q, want %q in it", i, r[0].Bytes(), want)
			}
			closeResults(r)
		}
	}
}

// A result with an error has no batches, and says so when it is asked.
func TestFetchResultWithError(t *testing.T) {
	s := newStore(t, 1, oncelog.Options{})
	results, err := s.Fetch(t.Context(), []oncelog.FetchRequest{{TopicPartition: partition(7)}}, oncelog.FetchOptions{})
	if err != nil || !errors.Is(results[0].Err, oncelog.ErrUnknownPartition) {
		t.Fatalf("%+v, %v", results, err)
	}
	r := results[0]
	for range r.Batches() {
		t.Error("there is a batch")
	}
	var w strings.Builder
	if n, err := r.WriteTo(&w); r.Bytes() != nil || r.NextOffset() != -1 || n != 0 || err != nil || w.Len() != 0 {
		t.Errorf("%d bytes, next %d, %d written, %v", len(r.Bytes()), r.NextOffset(), n, err)
	}
	r.Close()
	r.Close()
}
