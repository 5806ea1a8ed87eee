package oncelog_test

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// recordsOf builds a batch of records without keys.
func recordsOf(o batch.BuilderOptions, values ...string) batch.Batch {
	var w batch.Builder
	w.Reset(nil, o)
	for _, v := range values {
		w.Add(time.Now().UnixMilli(), nil, []byte(v))
	}
	b, err := w.Finish()
	if err != nil {
		panic(err) // only for no record at all, or far too many
	}
	return b
}

// A store in memory; leave FS out for one on disk.
func ExampleOpen() {
	ctx := context.Background()
	store, err := oncelog.Open("data", oncelog.Options{FS: oncelog.NewMemFS()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close(ctx)

	err = store.CreateTopic(ctx, "orders", oncelog.TopicConfig{
		Partitions:   3,
		Cleanup:      oncelog.CleanupDelete,
		RetentionAge: 7 * 24 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range store.Topics() {
		fmt.Println(t.Name, t.Partitions, t.Config.Cleanup)
	}
	// Output: orders [0 1 2] delete
}

// An idempotent producer sends a batch twice: it is stored once.
func ExampleStore_Append() {
	ctx := context.Background()
	store, err := oncelog.Open("data", oncelog.Options{FS: oncelog.NewMemFS()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close(ctx)
	if err := store.CreateTopic(ctx, "orders", oncelog.TopicConfig{}); err != nil {
		fmt.Println(err)
		return
	}

	o := batch.Plain
	o.Producer, o.BaseSequence = batch.Producer{ID: 1}, 0
	b := recordsOf(o, "apples", "pears")
	for range 2 {
		a, err := store.Append(ctx, oncelog.TopicPartition{Topic: "orders"}, b, oncelog.AppendOptions{})
		fmt.Println(a.BaseOffset, a.LastOffset, a.Duplicate, err)
	}
	// Output:
	// 0 1 false <nil>
	// 0 1 true <nil>
}

// A fetch over two partitions, one of which has nothing.
func ExampleStore_Fetch() {
	ctx := context.Background()
	store, err := oncelog.Open("data", oncelog.Options{FS: oncelog.NewMemFS()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close(ctx)
	if err := store.CreateTopic(ctx, "orders", oncelog.TopicConfig{Partitions: 2}); err != nil {
		fmt.Println(err)
		return
	}
	first := oncelog.TopicPartition{Topic: "orders", Index: 0}
	second := oncelog.TopicPartition{Topic: "orders", Index: 1}
	if _, err := store.Append(ctx, second, recordsOf(batch.Plain, "apples", "pears"), oncelog.AppendOptions{}); err != nil {
		fmt.Println(err)
		return
	}

	results, err := store.Fetch(ctx, []oncelog.FetchRequest{
		{TopicPartition: first, Offset: 0},
		{TopicPartition: second, Offset: 1}, // the batch that holds it comes whole
	}, oncelog.FetchOptions{WaitMax: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	var records batch.Records
	defer records.Close()
	for _, r := range results {
		if r.Err != nil {
			fmt.Println(r.Err)
			continue
		}
		fmt.Println(r.TopicPartition, "up to", r.HighWatermark)
		for b := range r.Batches() {
			for records.Reset(b); records.Next(); {
				fmt.Println(records.Record().Offset, string(records.Record().Value))
			}
		}
		r.Close()
	}
	// Output:
	// orders-0 up to 0
	// orders-1 up to 2
	// 0 apples
	// 1 pears
}

// Two transactions in one partition, one aborted, one open, beside a plain
// record. The log of the partition takes them; a reader leaves out what the
// answer names as aborted, and never sees what is open.
func Example_readCommitted() {
	ctx := context.Background()
	store, err := oncelog.Open("data", oncelog.Options{FS: oncelog.NewMemFS()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close(ctx)
	if err := store.CreateTopic(ctx, "orders", oncelog.TopicConfig{}); err != nil {
		fmt.Println(err)
		return
	}
	orders, err := store.Partition(oncelog.TopicPartition{Topic: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}

	aborted, open := batch.Producer{ID: 1}, batch.Producer{ID: 2}
	send(ctx, orders, aborted, "never mind")
	if _, err := orders.Append(ctx, recordsOf(batch.Plain, "apples"), log.AppendOptions{}); err != nil {
		fmt.Println(err)
	}
	marker := batch.Marker{Producer: aborted, Commit: false, Timestamp: time.Now().UnixMilli()}
	if _, err := orders.AppendMarker(ctx, marker, log.MarkerOptions{}); err != nil {
		fmt.Println(err)
	}
	send(ctx, orders, open, "not yet")

	f, err := orders.Read(0, log.ReadOptions{Isolation: oncelog.ReadCommitted})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println("stable up to", f.LastStable, "of", f.LogEnd)
	var records batch.Records
	defer records.Close()
	for b := range f.Batches() {
		if b.IsControl() || b.IsTransactional() && f.Aborted[0].ProducerID == b.ProducerID() {
			continue
		}
		for records.Reset(b); records.Next(); {
			fmt.Println(records.Record().Offset, string(records.Record().Value))
		}
	}
	// Output:
	// stable up to 3 of 4
	// 1 apples
}

// send begins a transaction in a partition with one record. Between the guard
// and the append a coordinator would be told.
func send(ctx context.Context, l *log.Log, p batch.Producer, value string) {
	o := batch.Plain
	o.Producer, o.BaseSequence, o.Transactional = p, 0, true
	guard, _, err := l.Guard(p, 0, false)
	if err == nil {
		_, err = l.Append(ctx, recordsOf(o, value), log.AppendOptions{Guard: guard})
	}
	if err != nil {
		fmt.Println(err)
	}
}
