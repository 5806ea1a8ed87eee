package log

import (
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// TestRepeatedMarkerIsAnsweredWhenSafe repeats a marker that nobody waited for:
// the answer promises the first one, so that the coordinator may forget the
// transaction.
func TestRepeatedMarkerIsAnsweredWhenSafe(t *testing.T) {
	eitherWay(t, Config{}, func(t *testing.T, b *bed) {
		b.append(transactional(batch.Producer{ID: 7, Epoch: 1}, 0, 2))
		if err := b.fs.SyncDir("."); err != nil {
			t.Fatal(err)
		}
		m := batch.Marker{Producer: batch.Producer{ID: 7, Epoch: 2}, Commit: true, Timestamp: b.now.UnixMilli()}
		first, err := b.l.AppendMarker(t.Context(), m, MarkerOptions{TV2: true, NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		again, err := b.l.AppendMarker(t.Context(), m, MarkerOptions{TV2: true})
		if err != nil || !again.Duplicate || again.BaseOffset != -1 || again.LastOffset != -1 {
			t.Fatalf("repeated: %+v, %v", again, err)
		}
		if f := b.l.Frontiers(); f.Durable <= first.LastOffset {
			t.Errorf("answered at %+v, the marker is at %d", f, first.LastOffset)
		}
		if b.o.Backing != nil {
			return // what the journal holds, a store brings back
		}
		b.fs = b.fs.(*vfs.Mem).CrashClone(vfs.CrashOptions{})
		b.o.FS = b.fs
		b.open()
		if open := b.l.Ongoing(); len(open) > 0 {
			t.Errorf("after a power loss still open: %+v", open)
		}
	})
}
