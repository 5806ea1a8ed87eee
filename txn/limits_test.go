package txn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/topic"
)

// A transaction takes as many partitions as a record can list, and what it took it
// can end, though the record of that is longer.
func TestTooManyPartitions(t *testing.T) {
	for most := 400; most < 420; most++ { // the last partition just fits, or just does not
		b, list := wide(t, 100)
		c := b.logs[stateLog].Config()
		c.BatchBytesMax = most
		b.logs[stateLog].SetConfig(c)
		p := b.init("x")
		s := b.c.shard("x")
		s.mu.Lock()
		s.entries["x"].t.Producer.Epoch = epochsUsed // the longest decision
		s.mu.Unlock()
		p.Epoch = epochsUsed
		var err error
		added := 0
		for err == nil {
			if err = b.c.Enlist(ctx, "x", p, list[added:added+1]); err == nil {
				added++
			}
		}
		b.want(err, ErrTooManyPartitions, "one too many")
		if ClassOf(err) != ClassAbortable || added < 20 {
			t.Errorf("class %s after %d", ClassOf(err), added)
		}
		next := b.mustEnd("x", p, false)
		b.want(b.c.Enlist(ctx, "x", next, list[:1]), nil, "another transaction")
	}
}

// Long ids are forgotten in batches that the log takes.
func TestForgetLongIDs(t *testing.T) {
	b := newBed(t, Options{})
	const n = 100
	for i := range n {
		b.init(fmt.Sprint(strings.Repeat("x", idBytesMax-3), i))
	}
	b.sleep(8 * 24 * time.Hour)
	if got := len(b.c.List(Filter{})); got != 0 {
		t.Errorf("%d of %d are left", got, n)
	}
	if m := b.c.Metrics(); m.Expired != n {
		t.Errorf("metrics %+v", m)
	}
}

// A partition's list is not shared with whoever described it, and not with the
// next transaction.
func TestPartitionsAreCopied(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	list := []topic.Partition{part("t", 1)}
	if err := b.c.Enlist(ctx, "x", p, list); err != nil {
		t.Fatal(err)
	}
	list[0] = part("t", 3)
	d, err := b.c.Describe(ctx, "x")
	if err != nil || d.Partitions[0] != part("t", 1) {
		t.Fatalf("%+v, %v", d, err)
	}
	p = b.mustEnd("x", p, true)
	if err := b.c.Enlist(ctx, "x", p, list); err != nil {
		t.Fatal(err)
	}
	if d.Partitions[0] != part("t", 1) {
		t.Errorf("what was described became %v", d.Partitions)
	}
}
