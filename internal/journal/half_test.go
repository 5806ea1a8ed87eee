package journal

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// TestStall: with both halves full nobody flushes and nobody turns in a
// circle; Free alone, without anybody waiting, makes the flusher go on.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Int64
		j := started(t, Options{Bytes: BytesMin, Delay: time.Millisecond, Full: func() { full.Add(1) }})
		l, other := join(t, j, 1, 1000), join(t, j, 2, 1000)
		other.publish(0, nil)
		for j.TryFlush() {
			l.publish(0, nil)
		}
		end := l.publish(0, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if s := j.Stats(); s.Stalls != 1 || full.Load() != 2 || s.Runs != 14 {
			t.Errorf("%+v, told %d times", s, full.Load())
		}
		for i, want := range [][]*Handle{{other.handle, l.handle}, {l.handle}} {
			handles, mark, ok := j.Due()
			if !ok || !slices.Equal(handles, want) {
				t.Fatalf("half %d holds %d logs, want %d", i, len(handles), len(want))
			}
			must(t, j.Free(mark))
			must(t, j.Free(mark)) // again, or of an older checkpoint
			if synctest.Wait(); l.isDurable() != end {
				t.Errorf("durable to %d of %d after Free", l.isDurable(), end)
			}
			if i == 0 {
				for range 7 { // fill the half that was freed
					end = l.publish(0, nil)
					j.TryFlush()
				}
			}
		}
		if s := j.Stats(); s.Freed != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// TestStuck: whoever waits for a journal that is full hears when it cannot be
// emptied, until it is.
func TestStuck(t *testing.T) {
	j := started(t, Options{Bytes: BytesMin, Manual: true})
	l := join(t, j, 1, 1000)
	stuck := func() bool {
		select {
		case <-j.Stuck():
			return true
		default:
			return false
		}
	}
	l.publish(0, nil)
	j.Block() // there is room: nobody has to know
	if stuck() || j.IsStuck() {
		t.Error("stuck with room left")
	}
	for j.TryFlush() {
		l.publish(0, nil)
	}
	if stuck() {
		t.Error("stuck before anybody said that it cannot be emptied")
	}
	j.Block()
	j.Block()
	if !stuck() || !j.IsStuck() {
		t.Error("full, cannot be emptied, and not stuck")
	}
	_, mark, _ := j.Due()
	must(t, j.Free(mark))
	if stuck() || j.IsStuck() || !j.TryFlush() {
		t.Error("stuck, or no flush, with a half that is free")
	}
}

// TestStallEndsBySmallerRun: what makes no room but needs less, does too.
func TestStallEndsBySmallerRun(t *testing.T) {
	mem := vfs.NewMem()
	w := newWorld(t, seeded(1), Options{FS: mem, Dir: ".", Bytes: 2 * BytesMin, Manual: true})
	w.start(2)
	runs, big, small := w.journal.runMax/blockBytes, w.logs[0], w.logs[1]
	for range 2 { // each half but for one block
		for end := int64(0); w.journal.pos+2*blockBytes <= end || end == 0; {
			_, end = w.journal.header.half(w.journal.current)
			small.publish(1, 1)
			w.journal.Run()
		}
		if w.journal.current == 0 {
			w.closeHalf()
		}
	}
	if runs < 2 {
		t.Fatal("runs are too short for this test")
	}
	big.publish(int(w.journal.BatchMax()), 1)
	small.publish(1, 1)
	if w.journal.TryFlush() || w.journal.Stats().Stalls != 1 {
		t.Fatalf("%+v", w.journal.Stats())
	}
	big.forget(func(*Frame) bool { return true })
	w.journal.Waiting(1)
	big.handle.Leave()
	select {
	case <-w.journal.kicked:
	default:
		t.Error("nobody is told that there is room enough")
	}
	if !w.journal.TryFlush() || small.durable != small.next {
		t.Errorf("durable to %d of %d", small.durable, small.next)
	}
	must(t, w.verify(read(t, mem)))
}

// TestCloseHalf: an idle store frees everything.
func TestCloseHalf(t *testing.T) {
	w, mem := written(t, 3)
	for range 3 {
		w.closeHalf()
		if w.journal.CloseHalf() {
			t.Error("an empty half is closed")
		}
		w.free()
		if c := read(t, mem); len(c.Frames) != 0 {
			t.Errorf("%d frames are left", len(c.Frames))
		}
		w.closeHalf()
		if _, _, ok := w.journal.Due(); ok {
			t.Error("due without a run")
		}
		w.logs[0].publish(100, 1)
		w.journal.Run()
		must(t, w.verify(read(t, mem)))
	}
}

// TestLeaveDuringFlush: the memory of a log is its own again when Leave
// returns, and what the flush under way has of it is whole.
func TestLeaveDuringFlush(t *testing.T) {
	mem := vfs.NewMem()
	fsys := faultfs.New(mem, faultfs.Plan{})
	j := started(t, Options{FS: fsys, Delay: never})
	l, stays := join(t, j, 1, 10), join(t, j, 2, 10)
	var wg sync.WaitGroup
	var synced, leaving atomic.Bool
	begin := make(chan struct{})
	wg.Go(func() {
		<-begin
		leaving.Store(true)
		l.handle.Leave()
		if !synced.Load() || l.isDurable() != 1 {
			t.Error("Leave does not wait for the flush")
		}
		clear(l.memory)
		l.publish(0, nil) // nobody takes it
	})
	fsys.SetPlan(faultfs.Plan{Hook: func(op faultfs.Op) error {
		switch {
		case op.Kind == faultfs.Write && !synced.Load():
			stays.publish(0, nil)
			close(begin)
		case op.Kind == faultfs.Sync:
			for i := 0; i < 100 || !leaving.Load(); i++ {
				runtime.Gosched() // Leave would return now, if it did not wait
			}
			synced.Store(true)
		}
		return nil
	}})
	end := l.publish(0, nil)
	must(t, l.wait(end))
	wg.Wait()
	must(t, j.Flush(t.Context()))
	_, ok := j.members[l.handle]
	if handles, _, _ := j.Due(); ok || len(handles) != 0 {
		t.Error("still a member")
	}
	j.CloseHalf()
	if handles, _, _ := j.Due(); !slices.Equal(handles, []*Handle{l.handle, stays.handle}) {
		t.Errorf("%d logs in the half, want the one that left too", len(handles))
	}
	found := map[int32]int{}
	batches(t, read(t, mem), func(id int32, _ int64, _ uint64) { found[id]++ })
	if found[1] != 1 || found[2] != 1 {
		t.Errorf("batches found: %v", found)
	}
}

// TestTruncateWaitsForRoom and the truncation's frame is what goes first.
func TestTruncateWaitsForRoom(t *testing.T) {
	mem := vfs.NewMem()
	j := started(t, Options{FS: mem, Bytes: BytesMin, Delay: never})
	l := join(t, j, 1, 1000)
	for j.TryFlush() || l.next == 0 {
		l.publish(0, nil)
	}
	cut := l.isDurable() - 1
	done := make(chan error)
	go func() { done <- l.handle.Truncate(cut, 0, cut*waitingBatch) }()
	_, mark, _ := j.Due()
	must(t, j.Free(mark))
	must(t, <-done)
	folded, err := read(t, mem).Fold()
	must(t, err)
	if p := folded[l.handle.Key()]; p.TruncatedTo != cut || p.Next != cut || p.Frames[len(p.Frames)-1].Next != cut {
		t.Errorf("truncated at %d: %+v", cut, p)
	}
}

// TestReadLive: a reader of a running store's journal sees whole states of it,
// while halves are overwritten under it.
func TestReadLive(t *testing.T) {
	const appends = 3000
	mem := vfs.NewMem()
	j := started(t, Options{FS: mem, Bytes: BytesMin, Manual: true})
	l := join(t, j, 1, appends)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer stop.Store(true)
		for range appends {
			l.publish(0, nil)
			j.Run()
			if _, mark, ok := j.Due(); ok {
				must(t, j.Free(mark))
			}
		}
	})
	reads, current := 0, 0
	for ; !stop.Load(); reads++ {
		before := l.isDurable()
		c, err := Read(mem, ".")
		if errors.Is(err, ErrBusy) {
			continue
		}
		must(t, err)
		next := int64(-1)
		for _, f := range c.Frames {
			if next >= 0 && f.First != next {
				t.Fatalf("frame at %d behind one that ends at %d", f.First, next)
			}
			next = f.Next
		}
		if len(c.Frames) == 0 || next < before {
			if len(c.Frames) > 0 || before > 0 && c.Runs > 0 {
				t.Fatalf("ends at %d, %d was durable before", next, before)
			}
		}
		bytes := make([]byte, waitingBatch)
		var wrong bool
		for _, f := range c.Frames {
			n, _ := c.ReadFrame(f, bytes, 0)
			wrong = wrong || n != waitingBatch || int64(bytes[8])|int64(bytes[9])<<8 != f.First
		}
		ok, err := c.Current()
		must(t, err)
		if ok {
			if current++; wrong {
				t.Fatal("other bytes, although nothing was overwritten")
			}
		}
		must(t, c.Close())
	}
	wg.Wait()
	if current == 0 {
		t.Logf("none of %d reads was undisturbed", reads)
	}
}
