package index

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"
)

// TestLocate walks the chunks: every entry in its place, every chunk full.
func TestLocate(t *testing.T) {
	chunk, place, size := 0, 0, 1<<chunkBitsMin
	for i := range 100_000 {
		if k, j := locate(i); k != chunk || j != place {
			t.Fatalf("entry %d: got chunk %d, place %d, want %d, %d", i, k, j, chunk, place)
		}
		if place++; place == size {
			chunk, place, size = chunk+1, 0, min(2*size, 1<<chunkBitsMax)
		}
	}
}

// TestFileAppendTo cuts at every place that could matter: around the ends of
// the chunks.
func TestFileAppendTo(t *testing.T) {
	const n = 20_000
	x := NewOffset(0)
	for i := range n {
		if err := x.Append(OffsetEntry{int64(i), int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	whole := x.AppendTo(nil, 0)
	if len(whole) != n*OffsetEntrySize {
		t.Fatalf("got %d bytes", len(whole))
	}
	view, err := ViewOffset(0, whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []int{0, 1, 15, 16, 17, 47, 48, 4096, 8175, 8176, 8177, 12_271, 12_272, n - 1, n, n + 1} {
		want := append([]byte("head"), whole[min(from, n)*OffsetEntrySize:]...)
		if got := x.AppendTo([]byte("head"), from); !bytes.Equal(got, want) {
			t.Errorf("from %d: memory form differs", from)
		}
		if got := view.AppendTo([]byte("head"), from); !bytes.Equal(got, want) {
			t.Errorf("from %d: view differs", from)
		}
	}
}

// TestEmptyIsSmall: ten thousand idle partitions have three indexes each.
func TestEmptyIsSmall(t *testing.T) {
	if s := unsafe.Sizeof(Offset{}); s > 100 {
		t.Errorf("Offset has %d bytes", s)
	}
	if s := unsafe.Sizeof(Time{}); s > 100 {
		t.Errorf("Time has %d bytes", s)
	}
	if s := unsafe.Sizeof(Txn{}); s > 200 {
		t.Errorf("Txn has %d bytes", s)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x, y, z := NewOffset(0), NewTime(0), NewTxn(0)
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > 3+5 { // the runtime itself may allocate beside us
		t.Errorf("%d allocations for three empty indexes", n)
	}
	runtime.KeepAlive([]any{x, y, z})
}

func TestNoAllocation(t *testing.T) {
	x, y, z := NewOffset(0), NewTime(0), NewTxn(0)
	i := int64(0)
	add := func() {
		i++
		if x.Append(OffsetEntry{i, i}) != nil {
			t.Fatal("offset")
		}
		if _, err := y.MaybeAppend(TimeEntry{i, i}); err != nil {
			t.Fatal(err)
		}
		if z.Append(AbortedTxn{1, i - 1, i, i}) != nil {
			t.Fatal("txn")
		}
	}
	for range 8176 + 1 { // the first of a large chunk
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n != 0 {
		t.Errorf("append: %v allocations", n)
	}
	view, err := ViewTxn(0, z.AppendTo(nil, 0))
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]AbortedTxn, 0, 100)
	found := 0
	look := func() {
		x.Lookup(5000)
		x.AfterPos(5000)
		y.Lookup(5000)
		for _, v := range []*Txn{z, view} {
			got, _ := v.Overlapping(dst, 5000, 5050)
			found += len(got)
			v.MinFirst()
		}
	}
	look()
	if n := testing.AllocsPerRun(1000, look); n != 0 {
		t.Errorf("lookup: %v allocations", n)
	}
	if found == 0 {
		t.Error("nothing found")
	}
}
