package producerstate

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
)

// million is how many producers the promises about size are made for.
const million = 1_000_000

// spread makes ids as they come: not dense, not in order.
func spread(i int) int64 { return int64(uint64(i) * 0x9e3779b97f4a7c15 >> 2) }

// fill makes a table with n producers of so many batches each.
func fill(n, batches int) *Table {
	t := New(Options{})
	var h batch.Header
	for i := range n {
		for b := range batches {
			h = batch.Header{BaseOffset: int64(i*batches + b), Producer: batch.Producer{ID: spread(i)}, BaseSequence: int32(b)}
			t.Apply(&h, nil, int64(i))
		}
	}
	return t
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestBytesAProducer: at most 96 bytes with one batch, 200 with five, at a
// million; and at the sizes where the index is emptiest.
func TestBytesAProducer(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("fills tables with a million producers")
	}
	for _, c := range []struct{ n, batches, limit int }{
		{million, 1, 96},
		{million, 5, 200},
		{million * 9 / 10, 1, 96},
		{million * 3 / 4, 1, 96},
	} {
		before := heapInUse()
		table := fill(c.n, c.batches)
		heap := float64(heapInUse()-before) / float64(c.n)
		counted := float64(table.Bytes()) / float64(c.n)
		t.Logf("%d producers with %d batches: %.1f bytes each of heap, %.1f as Bytes counts", c.n, c.batches, heap, counted)
		if heap > float64(c.limit) {
			t.Errorf("%.1f bytes, the limit is %d", heap, c.limit)
		}
		if counted < heap*0.95 || counted > heap*1.05 {
			t.Errorf("Bytes says %.1f, the heap %.1f", counted, heap)
		}
		runtime.KeepAlive(table)
	}
}

// TestNoAllocations: in steady state neither asking nor recording allocates.
func TestNoAllocations(t *testing.T) {
	table := fill(2000, 5)
	sequence, offset := int32(5), int64(1_000_000)
	var completed int
	for name, f := range map[string]func(i int){
		"new batch": func(i int) {
			h := batch.Header{BaseOffset: offset, Producer: batch.Producer{ID: spread(i)}, BaseSequence: sequence}
			if v, err := table.Check(Request{Header: &h}); err != nil || v.Kind != Accept {
				t.Fatal(v, err)
			}
			table.Apply(&h, nil, offset)
			offset++
		},
		"duplicate": func(i int) {
			h := batch.Header{Producer: batch.Producer{ID: spread(1000 + i)}, BaseSequence: 3}
			if v, err := table.Check(Request{Header: &h}); err != nil || v.Kind != Duplicate {
				t.Fatal(v, err)
			}
		},
		"transaction": func(i int) {
			p := batch.Producer{ID: spread(500 + i), Epoch: 1}
			g, _ := table.Verify(p, 0, true, 0)
			h := batch.Header{BaseOffset: offset, Producer: p, Attributes: bitTransactional}
			if v, err := table.Check(Request{Header: &h, Guard: g}); err != nil || v.Kind != Accept {
				t.Fatal(v, err)
			}
			table.Apply(&h, nil, offset)
			p.Epoch++
			m := batch.Marker{Producer: p, Commit: true}
			h = batch.Header{BaseOffset: offset + 1, Producer: p, Attributes: bitTransactional | bitControl}
			if v, err := table.Check(Request{Header: &h, Marker: &m, Origin: OriginCoordinator, TV2: true}); err != nil || v.Kind != Accept {
				t.Fatal(v, err)
			}
			if _, ok := table.Apply(&h, &m, offset); ok {
				completed++
			}
			offset += 2
			if _, ok := table.FirstUndecided(); ok {
				t.Fatal("still open")
			}
		},
		"expire nothing": func(int) { table.Expire(0, 1<<40) },
	} {
		i := 0
		f(400) // warm
		if n := testing.AllocsPerRun(300, func() { f(i); i++ }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if completed < 300 {
		t.Errorf("%d transactions", completed)
	}
}

// TestCostOfAMillion reports CPU times, and judges none: the longest Apply
// while a table grows to a million producers, the longest piece of a snapshot
// and Apply beside it, and what a collection costs with the table alive. The
// collector's assists are in what Apply takes.
func TestCostOfAMillion(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("fills a table with a million producers")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	table := New(Options{})
	took := make([]time.Duration, 0, million)
	for i := range million {
		h := batch.Header{BaseOffset: int64(i), Producer: batch.Producer{ID: spread(i)}}
		start := threadTime()
		table.Apply(&h, nil, int64(i))
		took = append(took, threadTime()-start)
	}
	report(t, "Apply while growing", took)

	took = took[:0]
	begin := threadTime()
	s := table.BeginSnapshot()
	began := threadTime() - begin
	file, more := make([]byte, 0, snapshotHeaderSize+million*snapshotEntrySize), true
	var pieces []time.Duration
	for i := 0; more; i++ {
		start := threadTime()
		file, more = s.Next(file, 1000)
		pieces = append(pieces, threadTime()-start)
		for j := range 100 {
			h := batch.Header{BaseOffset: million, Producer: batch.Producer{ID: spread((i*100 + j) * 7 % million)}, BaseSequence: 1}
			start := threadTime()
			table.Apply(&h, nil, million)
			took = append(took, threadTime()-start)
		}
	}
	t.Logf("BeginSnapshot: %v; table of %d MiB", began, table.Bytes()>>20)
	report(t, "snapshot, 1000 entries a piece", pieces)
	report(t, "Apply beside a snapshot", took)

	file = nil
	var cycles []time.Duration
	for range 9 {
		cycles = append(cycles, collectorTime(t))
	}
	report(t, "CPU of a collection with the table", cycles)
	runtime.KeepAlive(table)

	took = took[:0]
	for table.Len() > 0 {
		start := threadTime()
		table.ExpireSome(1<<40, 1, 1000)
		took = append(took, threadTime()-start)
	}
	report(t, "ExpireSome, 1000 a step", took)
}

func report(t *testing.T, what string, took []time.Duration) {
	sorted := slices.Sorted(slices.Values(took))
	n := len(sorted)
	t.Logf("%s: p50 %v, p99.9 %v, max %v (%d)", what, sorted[n/2], sorted[n*999/1000], sorted[n-1], n)
}
