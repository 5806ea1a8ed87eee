package txn

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// 42 to 46, 86: markers by hand, each partition with its own answer.
func TestWriteMarkers(t *testing.T) {
	b := newBed(t, Options{})
	p := producer(17, 3) // nobody's
	b.smuggle(p, part("t", 0), 0)
	b.smuggle(p, part("t", 1), 0)
	marker := func(epoch int16, coordinator int32, tv2 bool, list ...topic.Partition) MarkerRequest {
		return MarkerRequest{Marker: batch.Marker{Producer: producer(17, epoch), CoordinatorEpoch: coordinator, Timestamp: at0}, TV2: tv2, Partitions: list}
	}
	for _, c := range []struct {
		name    string
		request MarkerRequest
		want    []error
	}{
		{"43 older epoch", marker(2, 0, false, part("t", 0)), []error{producerstate.ErrInvalidProducerEpoch}},
		{"44 same epoch, open", marker(3, 0, true, part("t", 0)), []error{producerstate.ErrInvalidProducerEpoch}},
		{"43 same epoch, epoch stays", marker(3, 5, false, part("t", 0), part("u", 0)), []error{nil, ErrPartitionGone}},
		{"42 older coordinator", marker(3, 4, false, part("t", 0)), []error{producerstate.ErrCoordinatorFenced}},
		{"42 same coordinator", marker(4, 5, true, part("t", 0), part("t", 1)), []error{nil, nil}},
		{"44, 45 once more", marker(4, 5, true, part("t", 0), part("t", 1)), []error{nil, nil}},
		{"46 nothing was written", marker(9, 0, true, part("t", 2)), []error{nil}},
		{"46 then older is fenced", marker(8, 0, true, part("t", 2)), []error{producerstate.ErrInvalidProducerEpoch}},
	} {
		answers := b.c.WriteMarkers(ctx, []MarkerRequest{c.request})
		for i, want := range c.want {
			b.want(answers[0][i], want, c.name)
		}
	}
	b.wantStable()
	for tp, want := range map[topic.Partition]int64{part("t", 0): 3, part("t", 1): 2, part("t", 2): 1} {
		if end := b.logs[tp].Frontiers().LogEnd; end != want {
			t.Errorf("%s ends at %d, want %d", tp, end, want)
		}
	}
	if found, err := b.logs[part("t", 0)].Aborted(0, 10); err != nil || len(found) != 1 {
		t.Errorf("aborted in t-0: %+v, %v", found, err)
	}
}

// 50: the marker that a commit writes, byte for byte as Kafka's (but for offset and
// leader epoch).
func TestMarkerBytes(t *testing.T) {
	const want = "00000000000000000000004200000000029511fa900030000000000000018bcfe568000000018bcfe568000000000000000fa00001ffffffff000000012000000008000000010c00000000000700"
	b := newBed(t, Options{})
	if err := b.logs[stateLog].BeginEpoch(7); err != nil { // the coordinator epoch
		t.Fatal(err)
	}
	p := b.init("x")
	if err := b.c.Enlist(ctx, "x", p, []topic.Partition{part("t", 0)}); err != nil {
		t.Fatal(err)
	}
	b.mustEnd("x", p, true)
	f, err := b.logs[part("t", 0)].Read(0, log.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := f.Bytes(); string(got) != string(unhex(t, want)) {
		t.Errorf("%x, want %s", got, want)
	}
}

// An end at level fsync makes its flush itself: it takes no time, and all is safe.
func TestEndFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLiveAt(t, Options{}, log.DurabilityFsync)
		p := b.init("x")
		start := time.Now()
		for i := range int32(3) {
			if err := b.c.Enlist(ctx, "x", p, []topic.Partition{part("t", i)}); err != nil {
				t.Fatal(err)
			}
		}
		b.mustEnd("x", p, true)
		if d := time.Since(start); d > 0 {
			t.Errorf("it took %v", d)
		}
		for _, tp := range []topic.Partition{stateLog, part("t", 0), part("t", 1), part("t", 2)} {
			if f := b.logs[tp].Frontiers(); f.Durable != f.LogEnd || f.HighWatermark != f.LogEnd || f.LogEnd == 0 {
				t.Errorf("%s: %+v", tp, f)
			}
		}
	})
}

// A context that ends does not end a transaction: the answer is that it is not
// known, and the end is carried through.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLive(t, Options{})
		p := b.init("x")
		b.mustSend("x", p, part("t", 0), 0, 1)
		b.serve(part("t", 0), context.DeadlineExceeded)
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_, err := b.c.End(short, "x", p, EndOptions{Commit: true, TV2: true})
		b.want(err, ErrOutcomeUnknown, "end")
		if ClassOf(err) != ClassUnknown {
			t.Errorf("its class is %s", ClassOf(err))
		}
		b.serve(part("t", 0), nil)
		if next := b.mustEndAgain("x", p); next != producer(4000, 1) {
			t.Errorf("asked again: %+v", next)
		}
		b.wantVisible(part("t", 0), "0")
	})
}

// mustEndAgain asks until it is answered.
func (b *bed) mustEndAgain(id string, p batch.Producer) batch.Producer {
	b.t.Helper()
	if err := b.c.Settle(ctx, id); err != nil {
		b.t.Fatal(err)
	}
	return b.mustEnd(id, p, true)
}
