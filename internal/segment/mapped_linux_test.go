package segment

import (
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/vfs"
)

// TestMappingsOutliveTruncation: a reader that was handed a sealed segment reads
// its mapped indexes to the end, though the segment is cut, and cut again,
// meanwhile. A page behind the end of a mapped file would end the process.
func TestMappingsOutliveTruncation(t *testing.T) {
	batches := history(0, 3000)
	b := &bed{TB: t, env: &Environment{FS: vfs.Machine(), Dir: t.TempDir(),
		Txns: func(base, _ int64) (*index.Txn, error) { return index.NewTxn(base), nil }}}
	s := b.sealed(0, 1, batches)
	held, err := s.Acquire()
	b.ok(err)
	want := offsetsOf(held.Offsets)
	if len(want)*index.OffsetEntrySize < 4*4096 {
		t.Fatalf("only %d entries", len(want))
	}
	all := positions(batches)
	for _, n := range []int{2000, 5, 0} {
		cut, err := s.Truncated(batches[n].BaseOffset(), all[n], 1<<20, 1)
		b.ok(err)
		b.ok(s.Retire())
		if i, err := misread(held, want); err != nil || i >= 0 {
			t.Errorf("cut at %d: entry %d of the mapped index is another: %v", n, i, err)
		}
		b.ok(cut.EndTimes())
		b.ok(cut.Trim())
		b.ok(cut.Seal())
		s = cut
	}
	b.ok(held.Release())
	b.ok(s.Retire())
}

// misread is the first entry that is not the wanted one, -1 if none is.
func misread(h *Handle, want []index.OffsetEntry) (i int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	for i = range want {
		if h.Offsets.At(i) != want[i] {
			return i, nil
		}
	}
	if last, ok := h.Times.Last(); !ok || last.Timestamp < 0 {
		return 0, fmt.Errorf("time index ends with %+v", last)
	}
	return -1, nil
}
