package log

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// A log that appends, rolls, ends transactions, makes checkpoints and deletes
// is sound whenever one looks, from inside and from outside.
func TestVerifyLiveLog(t *testing.T) {
	b := newDirectBed(t, Config{SegmentBytes: 1500, IndexIntervalBytes: 200, Delete: true})
	var points atomic.Pointer[Points]
	points.Store(&Points{})
	done := make(chan error, 1)
	go func() {
		defer close(done)
		r := rand.New(rand.NewPCG(15, 15))
		sequences := [4]int32{}
		for i := range 3000 {
			id := int64(r.IntN(len(sequences)))
			p := batch.Producer{ID: id}
			switch n := r.IntN(5) + 1; {
			case i%50 == 49:
				p, err := b.l.Checkpoint(context.Background())
				if err != nil {
					done <- err
					return
				}
				points.Store(&p)
			case i%120 == 119:
				if _, err := b.l.DeleteRecords(context.Background(), b.l.Frontiers().HighWatermark*2/3); err != nil {
					done <- err
					return
				}
			case r.IntN(3) == 0:
				b.mark(p, r.IntN(2) == 0)
			default:
				b.append(transactional(p, sequences[id], n))
				sequences[id] += int32(n)
			}
		}
	}()
	looks := 0
	for live := true; live; looks++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			live = false
		default:
		}
		o := b.o
		o.Points = *points.Load()
		r, err := Verify(t.Context(), o, VerifyOptions{})
		if err != nil || r.Damage > 0 {
			t.Fatalf("look %d from outside: %v%s", looks, err, tell(r))
		}
		if err := b.l.Check(t.Context()); err != nil {
			t.Fatalf("look %d from inside: %v", looks, err)
		}
	}
	t.Logf("%d looks, %d batches at the end", looks, b.l.Frontiers().LogEnd)
	if _, err := b.l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
