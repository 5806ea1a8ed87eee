package log

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// What the crash model found in opening a log again, each on its own.

// A transaction that ended above the high watermark is not stable after an
// opening either.
func TestReopenedUnstable(t *testing.T) {
	b := newBed(t, Config{})
	b.o.Replicated = true
	b.reopen()
	p := batch.Producer{ID: 1}
	b.append(transactional(p, 0, 2))
	b.append(plain(1, "between"))
	b.mark(p, false)
	b.l.AdvanceHighWatermark(3)
	b.reopen()
	if f := b.l.Frontiers(); f.HighWatermark != 3 || f.LastStable != 0 {
		t.Fatalf("got %+v, want the high watermark at 3 and the last stable offset at 0", f)
	}
	b.l.AdvanceHighWatermark(4)
	if f := b.l.Frontiers(); f.LastStable != 4 {
		t.Fatalf("got %+v, want the last stable offset at 4", f)
	}
}

// An epoch that began without a batch stands in its file alone: that this
// cannot be read once is no reason to forget it.
func TestReopenedEpochs(t *testing.T) {
	b := newBed(t, Config{})
	b.append(plain(1, "of epoch 0"))
	if err := b.l.BeginEpoch(7); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(b.l.Epochs())
	points, err := b.l.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inner := b.fs
	b.o.Points, b.o.Clean = points, false
	b.o.FS = faultfs.New(inner, faultfs.Plan{Hook: func(op faultfs.Op) error {
		if op.Kind == faultfs.Read && op.Name == "d/"+EpochsName {
			return syscall.EIO
		}
		return nil
	}})
	if _, err := Load(b.o); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v, want EIO", err)
	}
	b.o.FS = inner
	b.open()
	if got := b.l.Epochs(); !slices.Equal(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// A truncation at the log end forgets epochs without a batch, but not the one
// that holds the log start, also when all its batches were deleted.
func TestTruncationKeepsEpochOfStart(t *testing.T) {
	b := newBed(t, Config{Delete: true})
	if err := b.l.BeginEpoch(5); err != nil {
		t.Fatal(err)
	}
	b.append(plain(3, "deleted"))
	if _, err := b.l.DeleteRecords(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := b.l.Truncate(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	b.append(plain(1, "of epoch 5"))
	if e := b.l.EpochFor(3); e != 5 {
		t.Fatalf("the next batch has epoch %d, want 5: %+v", e, b.l.Epochs())
	}
}
