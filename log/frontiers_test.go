package log

import "testing"

// TestFlushBeforePublishing: an append is in the queue of the journal before it is
// published, so a flush may be over by then. The append finds that out itself:
// nobody will tell it.
func TestFlushBeforePublishing(t *testing.T) {
	b := newDirectBed(t, Config{})
	b.back()
	b.append(plain(1, "a")) // it finds the journal
	next := plain(1, "b")
	s := b.l.active
	member{b.l}.Durable(s.Base, s.Size()+int64(len(next)), 2)
	if d := b.l.Frontiers().Durable; d != 1 {
		t.Fatalf("durable is %d, and nothing more is published", d)
	}
	if _, err := b.l.Append(t.Context(), next, AppendOptions{NoWait: true}); err != nil {
		t.Fatal(err)
	}
	if f := b.l.Frontiers(); f.Durable != 2 || f.HighWatermark != 2 || f.LastStable != 2 {
		t.Errorf("frontiers are %+v, want all at 2", f)
	}
}
