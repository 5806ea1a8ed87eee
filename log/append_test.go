package log

import (
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/tail"
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

// TestMarkerTimestamp: where the topic stamps its time, the producer is as young
// as the marker that is in the log, not as the coordinator's clock had it.
func TestMarkerTimestamp(t *testing.T) {
	for _, stamped := range []bool{false, true} {
		b := newDirectBed(t, Config{})
		if stamped {
			b = newDirectBed(t, Config{Timestamps: batch.LogAppendTime})
		}
		p := batch.Producer{ID: 7, Epoch: 1}
		b.append(transactional(p, 0, 2))
		m := batch.Marker{Producer: p, Commit: true, Timestamp: 12345}
		if _, err := b.l.AppendMarker(t.Context(), m, MarkerOptions{}); err != nil {
			t.Fatal(err)
		}
		want := m.Timestamp
		if stamped {
			want = b.now.UnixMilli()
		}
		live, _ := b.l.Producer(7)
		if live.LastTimestamp != want {
			t.Errorf("stamped %v: %+v, want %d", stamped, live, want)
		}
		_ = b.l.Abandon()
		b.open()
		if again, _ := b.l.Producer(7); again != live {
			t.Errorf("stamped %v: %+v, replayed %+v", stamped, live, again)
		}
	}
}

// TestLargerThanMemory: a batch of which no piece of memory takes the whole goes
// around it, whatever the level.
func TestLargerThanMemory(t *testing.T) {
	for _, level := range []Durability{DurabilityFsync, DurabilityOS} {
		b := newDirectBed(t, Config{Durability: level})
		b.back()
		b.l.o.Backing.(*room).pool = tail.NewPool(16 << 10)
		for _, size := range []int{10, 60_000, 10, 300_000, 15_000, 20_000} {
			a := b.append(plain(1, strings.Repeat("x", size)))
			f, err := b.l.Read(a.BaseOffset, ReadOptions{})
			if err != nil || f.NextOffset() != a.LastOffset+1 {
				t.Fatalf("%s, %d bytes: next %d, %v", level, size, f.NextOffset(), err)
			}
			f.Close()
		}
		if err := b.l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
