package log

import (
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/tail"
)

// TestPointsBeforeRecovery: whoever loads a log that was not closed cleanly, and
// closes it again, knows no more to be on the device than before.
func TestPointsBeforeRecovery(t *testing.T) {
	for _, c := range []struct {
		name     string
		readOnly bool
		clean    bool
		point    int64 // that is recorded
		want     int64
	}{
		{"unclean", false, false, 0, 0},
		{"unclean, some of it synced", false, false, 3, 3},
		{"read only", true, false, 3, 3},
		{"closed cleanly", false, true, 5, 5},
	} {
		b := newDirectBed(t, Config{Durability: DurabilityOS})
		for range 5 {
			b.append(plain(1, "x"))
		}
		if c.clean {
			if _, err := b.l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_ = b.l.Abandon()
		b.o.Clean, b.o.ReadOnly, b.o.Points = c.clean, c.readOnly, Points{RecoveryPoint: c.point}
		l, err := Load(b.o)
		if err != nil {
			t.Fatal(err)
		}
		if p := l.Points(); p.RecoveryPoint != c.want {
			t.Errorf("%s: loaded: %+v, want %d", c.name, p, c.want)
		}
		if p, err := l.Close(t.Context()); err != nil || p.RecoveryPoint != c.want {
			t.Errorf("%s: closed: %+v, %v, want %d", c.name, p, err, c.want)
		}
	}
}

// The journal holds one batch of a segment that was rolled, and not the next
// one, so that the segment cannot be sealed. Whoever frees the journal after a
// checkpoint counts on what it held: it is below the recovery point, and there
// after a crash, the aborted transaction too.
func TestCheckpointInRolledSegment(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b := newDirectBed(t, Config{})
	must(b.fs.Mkdir("room", 0o755))
	j, err := journal.Start(journal.Options{FS: b.fs, Dir: "room", Bytes: 1 << 20, Manual: true})
	must(err)
	b.o.Workers, b.o.Backing, b.o.Files = ManualWorkers(), &room{fs: b.fs, journal: j, pool: tail.NewPool(8 << 20)}, segment.NewFiles(100)
	b.reopen()
	b.append(transactional(batch.Producer{ID: 7}, 0, 2))
	held := b.mark(batch.Producer{ID: 7}, false).LastOffset + 1
	_, err = b.l.Append(t.Context(), plain(1, "not flushed"), AppendOptions{NoWait: true})
	must(err)
	must(b.l.Roll())
	points := b.checkpoint()
	if points.RecoveryPoint != held {
		t.Fatalf("recovery point %d; the journal holds offsets up to %d", points.RecoveryPoint, held)
	}
	b.crash(points)
	must(j.Close())
	b.o.Workers, b.o.Backing, b.o.Journaled = nil, nil, true // and nothing in the journal
	b.open()
	if f := b.l.Frontiers(); f.LogEnd != held {
		t.Errorf("the log ends at %d, want %d", f.LogEnd, held)
	}
	aborted, err := b.l.Aborted(0, held)
	want := index.AbortedTxn{ProducerID: 7, First: 0, Last: 2, LastStable: 3}
	if err != nil || len(aborted) != 1 || aborted[0] != want {
		t.Errorf("aborted transactions %+v, %v, want %+v", aborted, err, want)
	}
	must(b.l.Abandon())
}

// Points are entered before a deletion of records, or a truncation, can record
// newer ones.
func TestCheckpointEntersInTime(t *testing.T) {
	b := newBed(t, Config{Durability: DurabilityOS, Delete: true})
	b.append(plain(3, "x"))
	entered := Points{}
	err := b.l.CheckpointTo(t.Context(), func(p Points) {
		entered = p
		if b.l.maintainMu.TryLock() {
			t.Error("something else may move the points meanwhile")
		}
	})
	if want := (Points{RecoveryPoint: 3, HighWatermark: 3}); err != nil || entered != want {
		t.Errorf("entered %+v, %v, want %+v", entered, err, want)
	}
}
