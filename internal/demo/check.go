package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oncelog/oncelog"
)

// found is what one partition holds, at both levels.
type found struct {
	uncommitted, committed *content
}

// tally is what check counts.
type tally struct {
	records, present, lost, damaged int
	twice                           int // records in the log more than once
	hidden, leaked                  int // committed but not shown, aborted but shown
	committed, aborted, open        int // transactions of the demo
}

// check compares the directory with the acknowledgements.
func check(ctx context.Context, s settings) (err error) {
	acks, err := readAcks(s.acks)
	if err != nil {
		return err
	}
	store, err := oncelog.Open(s.dir, oncelog.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	all := writers(s.foreign)
	holds := map[oncelog.TopicPartition]found{}
	for _, w := range all {
		if _, done := holds[w.partition]; done {
			continue
		}
		var f found
		if f.uncommitted, err = read(ctx, store, w.partition, oncelog.ReadUncommitted); err != nil {
			return err
		}
		if f.committed, err = read(ctx, store, w.partition, oncelog.ReadCommitted); err != nil {
			return err
		}
		holds[w.partition] = f
	}
	t, err := count(acks, all, holds)
	if err != nil {
		return err
	}
	if t.open, err = countOpen(store, holds); err != nil {
		return err
	}
	printHolds(holds)
	t.print(acks)
	if t.lost+t.damaged+t.twice+t.hidden+t.leaked > 0 || s.ended && t.open > 0 {
		return errBroken
	}
	return nil
}

// count looks for every acknowledged record, and for the outcome of its
// transaction.
func count(acks *acknowledged, all []writer, holds map[oncelog.TopicPartition]found) (t tally, err error) {
	for _, a := range acks.batches {
		if a.writer >= len(all) {
			return t, fmt.Errorf("no writer %d", a.writer)
		}
		w := &all[a.writer]
		f := holds[w.partition]
		commit, ended := acks.ended[[2]int{w.id, txnOf(a.n)}]
		for i := range batchRecords {
			offset := a.base + int64(i)
			key, present := f.uncommitted.records[offset]
			_, shown := f.committed.records[offset]
			t.records++
			switch {
			case !present:
				t.lost++
				continue
			case string(key) != string(recordKey(w.id, a.n, i)):
				t.damaged++
				continue
			}
			t.present++
			switch below := offset < f.committed.bounds.LastStable; {
			case shown && w.txn && ended && !commit:
				t.leaked++
			case !shown && below && (!w.txn || ended && commit):
				t.hidden++
			}
		}
	}
	for _, f := range holds {
		t.damaged += f.uncommitted.damaged
		t.twice += f.uncommitted.twice
	}
	for _, commit := range acks.ended {
		if commit {
			t.committed++
		} else {
			t.aborted++
		}
	}
	return t, nil
}

// countOpen counts the demo's transactions that are not ended.
func countOpen(store *oncelog.Store, holds map[oncelog.TopicPartition]found) (n int, err error) {
	for tp := range holds {
		l, err := store.Partition(tp)
		if err != nil {
			return 0, err
		}
		for _, t := range l.Ongoing() {
			if t.Producer.ID >= firstProducerID {
				n++
			}
		}
	}
	return n, nil
}

func (t *tally) print(acks *acknowledged) {
	const megabyte = 1e6
	seconds := acks.took.Seconds()
	fmt.Printf("  acknowledged  %d records in %d batches, %.1f MB in %.1f s: %.1f MB/s, %.0f batches/s, each on the device\n",
		t.records, len(acks.batches), float64(acks.bytes)/megabyte, seconds, float64(acks.bytes)/megabyte/seconds, float64(len(acks.batches))/seconds)
	fmt.Printf("  found         %d, where they were acknowledged and as they were sent\n", t.present)
	fmt.Printf("  lost          %d\n", t.lost)
	fmt.Printf("  damaged       %d\n", t.damaged)
	fmt.Printf("  stored twice  %d\n", t.twice)
	fmt.Printf("  transactions  %d committed, %d aborted (acknowledged), %d open\n", t.committed, t.aborted, t.open)
	fmt.Printf("  isolation     %d records of committed transactions not shown that should be, %d of aborted ones shown\n", t.hidden, t.leaked)
}

// printHolds tells how many records each partition shows, with all that was
// in it before.
func printHolds(holds map[oncelog.TopicPartition]found) {
	fmt.Printf("  %-12s %18s %18s\n", "partition", "read_uncommitted", "read_committed")
	for _, tp := range slices.SortedFunc(maps.Keys(holds), oncelog.TopicPartition.Compare) {
		f := holds[tp]
		fmt.Printf("  %-12s %18d %18d", tp, len(f.uncommitted.records), len(f.committed.records))
		if b := f.committed.bounds; b.LastStable < b.HighWatermark {
			fmt.Printf("   up to %d, where a transaction is open", b.LastStable)
		}
		fmt.Println()
	}
}
