package index

import (
	"bytes"
	"math"
	"os"
	"testing"
)

// The fuzz targets feed any bytes to the decoders. A view must agree with what
// is loaded from the same bytes wherever Check finds nothing wrong; nothing may
// panic; answers must be entries of the file.

func seedFiles(f *testing.F, golden string, names ...string) {
	f.Helper()
	f.Add([]byte(nil), int64(0), int64(0))
	f.Add(unhex(f, golden), int64(0), int64(106))
	f.Add(append(unhex(f, golden), make([]byte, 68)...), int64(50), int64(4300))
	for _, name := range names {
		b, err := os.ReadFile(kafkaDir + "/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, int64(0), int64(30))
	}
}

func FuzzOffset(f *testing.F) {
	seedFiles(f, goldenOffset, "txn/data/orders-1/00000000000000000000.index", "unclean/crashed/data/orders-0/00000000000000000000.index")
	f.Fuzz(func(t *testing.T, b []byte, base, offset int64) {
		x := LoadOffset(base, b, math.MaxInt64, math.MaxInt64)
		if !bytes.HasPrefix(b, x.AppendTo(nil, 0)) {
			t.Fatal("loaded entries are not those of the file")
		}
		if x.Check() != nil {
			t.Fatal("loaded entries are not in order")
		}
		view, err := ViewOffset(base, b)
		if err != nil {
			return
		}
		if e := view.Lookup(offset); e.Offset > offset && e != (OffsetEntry{Offset: base}) {
			t.Fatalf("Lookup(%d) = %v", offset, e)
		}
		view.AfterPos(offset)
		view.Truncated(offset)
		if view.Check() != nil || base < 0 || base > math.MaxInt64-math.MaxInt32-1 {
			return
		}
		after, ok := view.AfterPos(offset)
		after2, ok2 := x.AfterPos(offset)
		if view.Len() != x.Len() || view.Lookup(offset) != x.Lookup(offset) || after != after2 || ok != ok2 {
			t.Fatal("view and loaded form differ")
		}
	})
}

func FuzzTime(f *testing.F) {
	seedFiles(f, goldenTime, "txn/data/orders-1/00000000000000000000.timeindex", "unclean/crashed/data/orders-0/00000000000000000000.timeindex")
	f.Fuzz(func(t *testing.T, b []byte, base, timestamp int64) {
		x := LoadTime(base, b, math.MaxInt64)
		if !bytes.HasPrefix(b, x.AppendTo(nil, 0)) {
			t.Fatal("loaded entries are not those of the file")
		}
		if x.Check() != nil {
			t.Fatal("loaded entries are not in order")
		}
		view, err := ViewTime(base, b)
		if err != nil {
			return
		}
		if e := view.Lookup(timestamp); e.Timestamp > timestamp && e.Timestamp != noTimestamp {
			t.Fatalf("Lookup(%d) = %v", timestamp, e)
		}
		view.Truncated(timestamp)
		if view.Check() != nil || base < 0 || base > math.MaxInt64-math.MaxInt32-1 {
			return
		}
		if view.Len() != x.Len() || view.Lookup(timestamp) != x.Lookup(timestamp) {
			t.Fatal("view and loaded form differ")
		}
	})
}

func FuzzTxn(f *testing.F) {
	seedFiles(f, goldenTxn, "txn/data/orders-1/00000000000000000240.txnindex", "unclean/crashed/data/__consumer_offsets-0/00000000000000000000.txnindex")
	f.Fuzz(func(t *testing.T, b []byte, from, upper int64) {
		x := LoadTxn(0, b, math.MaxInt64)
		if !bytes.HasPrefix(b, x.AppendTo(nil, 0)) {
			t.Fatal("loaded entries are not those of the file")
		}
		checkOverlapping(t, x, collect(x.Len(), x.At), from, upper)
		view, err := ViewTxn(0, b)
		if err != nil {
			return
		}
		all := collect(view.Len(), view.At)
		checkOverlapping(t, view, all, from, upper)
		checkLowest(t, view, all)
		if view.Check() == nil && view.Len() != x.Len() && x.Len() != len(b)/TxnEntrySize {
			// A marker at MaxInt64 is never below an end offset.
			if last := all[x.Len()].Last; last != math.MaxInt64 {
				t.Fatal("view and loaded form differ")
			}
		}
	})
}
