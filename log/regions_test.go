package log

import (
	"errors"
	"io"
	"sync"
	"testing"
)

// TestRegionReadAt: a region is an io.ReaderAt, so it tells of its end.
func TestRegionReadAt(t *testing.T) {
	b := newBed(t, Config{})
	b.append(plain(3, "x"))
	b.append(plain(1, "y"))
	regions, err := b.l.Regions(3)
	if err != nil || len(regions) != 1 {
		t.Fatal(regions, err)
	}
	r := regions[0]
	defer r.Release()
	for _, c := range []struct {
		pos  int64
		size int
		n    int
		err  error
	}{
		{0, int(r.Bytes), int(r.Bytes), nil},
		{0, int(r.Bytes) + 1, int(r.Bytes), io.EOF},
		{r.Bytes - 1, 1, 1, nil},
		{r.Bytes - 1, 2, 1, io.EOF},
		{r.Bytes, 1, 0, io.EOF},
		{r.Bytes + 5, 1, 0, io.EOF},
	} {
		if n, err := r.ReadAt(make([]byte, c.size), c.pos); n != c.n || err != c.err && (c.err != nil || err != io.EOF) {
			t.Errorf("%d bytes at %d: %d, %v, want %d, %v", c.size, c.pos, n, err, c.n, c.err)
		}
	}
	whole, err := io.ReadAll(io.NewSectionReader(r, 0, 1<<20))
	if err != nil || int64(len(whole)) != r.Bytes {
		t.Errorf("%d bytes of %d read, %v", len(whole), r.Bytes, err)
	}
}

// TestLookUpBesideDeletion looks things up while the segments are deleted that
// they are found in.
func TestLookUpBesideDeletion(t *testing.T) {
	b := newBed(t, Config{SegmentBytes: 1400, Delete: true, Durability: DurabilityOS})
	b.o.Events = nil
	b.reopen()
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					lookUp(t, b.l)
				}
			}
		})
	}
	for range 300 {
		for range 10 {
			b.append(plain(3, "0123456789012345678901234567890123456789"))
		}
		if _, err := b.l.DeleteRecords(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	group.Wait()
}

func lookUp(t *testing.T, l *Log) {
	if _, err := l.OffsetForTime(epoch2023, ReadUncommitted); err != nil {
		t.Errorf("offset for a time: %v", err)
	}
	if _, err := l.MaxTimestamp(ReadUncommitted); err != nil {
		t.Errorf("greatest timestamp: %v", err)
	}
	if _, err := l.Aborted(0, 1<<40); err != nil {
		t.Errorf("aborted: %v", err)
	}
	regions, err := l.Regions(l.Frontiers().LogStart)
	if err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("regions: %v", err)
	}
	for _, r := range regions {
		_ = r.Release()
	}
}
