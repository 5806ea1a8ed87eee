package log

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/vfs"
)

// crash gives the log as kill -9 would leave it, from its last checkpoint on.
func (b *bed) crash(points Points) {
	b.t.Helper()
	mem := b.fs.(*vfs.Mem).KillClone()
	if err := b.l.Abandon(); err != nil {
		b.t.Fatal(err)
	}
	b.fs, b.o.FS, b.o.Points, b.o.Clean = mem, mem, points, false
}

func (b *bed) remove(name string) {
	b.t.Helper()
	if err := b.fs.Remove(filepath.Join("d", name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) checkpoint() Points {
	b.t.Helper()
	p, err := b.l.Checkpoint(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// told tells whether an event of a kind names a file.
func (b *bed) told(k EventKind, name string) bool {
	return slices.ContainsFunc(b.events, func(e Event) bool { return e.Kind == k && filepath.Base(e.File) == name })
}

const firstSegment = "00000000000000000000"

// at is a batch of one record at a timestamp.
func at(timestamp int64) batch.Batch {
	var w batch.Builder
	w.Reset(nil, batch.Plain)
	w.Add(timestamp, nil, []byte("some value that takes a little room"))
	b, err := w.Finish()
	if err != nil {
		panic(err)
	}
	return b
}

// TestLostTimeIndex: the greatest timestamp lies far before the recovery
// point, and only the index knew of it.
func TestLostTimeIndex(t *testing.T) {
	b := newDirectBed(t, Config{IndexIntervalBytes: 100})
	const greatest = 1_700_000_009_000
	b.append(at(greatest))
	for i := range int64(20) {
		b.append(at(1_700_000_000_000 + i))
	}
	b.crash(b.checkpoint())
	b.remove(firstSegment + ".timeindex")
	b.open()
	want := TimeOffset{Timestamp: greatest, Offset: 0}
	if got, err := b.l.MaxTimestamp(ReadUncommitted); err != nil || got != want {
		t.Errorf("greatest timestamp: %+v, %v; want %+v", got, err, want)
	}
	if got, err := b.l.OffsetForTime(greatest, ReadUncommitted); err != nil || got != want {
		t.Errorf("offset for time: %+v, %v; want %+v", got, err, want)
	}
	if !b.told(EventIndexRebuilt, firstSegment+".timeindex") {
		t.Errorf("events %+v do not tell of the lost index", b.events)
	}
}

// TestLostEpochs: a lost file of leader epochs is made anew from the log, of
// segments too that nothing else makes it read.
func TestLostEpochs(t *testing.T) {
	for _, clean := range []bool{true, false} {
		b := newBed(t, Config{})
		for _, epoch := range []int32{2, 5, 7} {
			if err := b.l.BeginEpoch(epoch); err != nil {
				t.Fatal(err)
			}
			b.append(plain(3, "value"))
			if err := b.l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
		want := []checkpoint.EpochEntry{{Epoch: 2, Start: 0}, {Epoch: 5, Start: 3}, {Epoch: 7, Start: 6}}
		if clean {
			p, err := b.l.Close(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b.o.Points, b.o.Clean = p, true
		} else {
			b.crash(b.checkpoint())
		}
		b.remove(EpochsName)
		b.open()
		if got := b.l.Epochs(); !slices.Equal(got, want) {
			t.Errorf("clean %v: epochs %v, want %v", clean, got, want)
		}
	}
}

// TestEpochWithoutBatch: an epoch that began is remembered, though the log has
// no batch of it, and batches of the one before do not take it back.
func TestEpochWithoutBatch(t *testing.T) {
	for _, clean := range []bool{true, false} {
		b := newDirectBed(t, Config{})
		b.append(plain(3, "value"))
		if err := b.l.BeginEpoch(4); err != nil {
			t.Fatal(err)
		}
		want := []checkpoint.EpochEntry{{Epoch: 0, Start: 0}, {Epoch: 4, Start: 3}}
		if clean {
			b.reopen()
		} else {
			b.crash(Points{})
			b.open()
		}
		if got := b.l.Epochs(); !slices.Equal(got, want) {
			t.Errorf("clean %v: epochs %v, want %v", clean, got, want)
		}
		if err := b.l.BeginEpoch(3); err == nil {
			t.Errorf("clean %v: an older epoch was taken", clean)
		}
	}
}

// TestTransactionIndexAtOpen: one that is sound is believed, one that is not is
// made anew.
func TestTransactionIndexAtOpen(t *testing.T) {
	b := newDirectBed(t, Config{})
	p := batch.Producer{ID: 9}
	var want []index.AbortedTxn
	for i := range int32(3) {
		a := b.append(transactional(p, i*2, 2))
		m := b.mark(p, false)
		want = append(want, index.AbortedTxn{ProducerID: 9, First: a.BaseOffset, Last: m.BaseOffset, LastStable: m.BaseOffset + 1})
	}
	damage := func(pos int64) {
		f, err := b.fs.OpenFile(filepath.Join("d", firstSegment+".txnindex"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{0x7f}, pos); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(){
		"sound":                func() {},
		"without offset index": func() { b.remove(firstSegment + ".index") },
		"damaged":              func() { damage(index.TxnEntrySize + 10) },
	} {
		b.events = nil
		points, err := b.l.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.o.Points, b.o.Clean = points, true
		spoil()
		b.open()
		if got, err := b.l.Aborted(0, 100); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
		if got := b.told(EventIndexRebuilt, firstSegment+".txnindex"); got != (name == "damaged") {
			t.Errorf("%s: told of a rebuilt index: %v", name, got)
		}
	}
}

// TestStartInsideTransaction: what is left of an open transaction comes after
// the log start, and that is where the last stable offset stands.
func TestStartInsideTransaction(t *testing.T) {
	b := newBed(t, Config{})
	p := batch.Producer{ID: 9}
	b.append(transactional(p, 0, 5))
	b.append(plain(5, "value"))
	for range 2 {
		if _, err := b.l.DeleteRecords(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if f := b.l.Frontiers(); f.LogStart != 3 || f.LastStable != 3 {
			t.Errorf("%+v, want log start and last stable offset 3", f)
		}
		b.reopen()
	}
	b.mark(p, true)
	if f := b.l.Frontiers(); f.LastStable != 11 {
		t.Errorf("%+v, want last stable offset 11", f)
	}
}

// TestEpochsBehindFile: batches from a leader brought an epoch that the file
// did not get before the crash.
func TestEpochsBehindFile(t *testing.T) {
	b := newDirectBed(t, Config{})
	b.append(plain(3, "value"))
	points := b.checkpoint()
	raw := plain(2, "value")
	raw.Stamp(3, 6)
	if _, err := b.l.AppendReplica(t.Context(), raw, ReplicaOptions{}); err != nil {
		t.Fatal(err)
	}
	b.crash(points)
	b.open()
	want := []checkpoint.EpochEntry{{Epoch: 0, Start: 0}, {Epoch: 6, Start: 3}}
	if got := b.l.Epochs(); !slices.Equal(got, want) {
		t.Errorf("epochs %v, want %v", got, want)
	}
}
