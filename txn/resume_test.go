package txn

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// 51 to 55: killed after each record of a commit, the next one carries it on. The
// decision is that of the transaction log.
func TestResume(t *testing.T) {
	stop := errors.New("here the process ends")
	for _, commit := range []bool{true, false} {
		for stage := range 4 { // markers that are written before the end
			t.Run(fmt.Sprintf("commit=%t/markers=%d", commit, stage), func(t *testing.T) {
				b := newBed(t, Options{})
				p := b.init("x")
				for i := range int32(3) {
					b.mustSend("x", p, part("t", i), 0, 1)
				}
				for i := stage; i < 3; i++ {
					b.broken[part("t", int32(i))] = stop
				}
				cancelled, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				_, err := b.c.End(cancelled, "x", p, EndOptions{Commit: commit, TV2: true})
				if stage < 3 {
					b.want(err, ErrOutcomeUnknown, "end")
					b.want(err, log.ErrOutcomeUnknown, "end")
				}
				b.crash()
				want := CompleteAbort
				if commit {
					want = CompleteCommit
				}
				if got := b.state("x"); got != want {
					t.Errorf("resumed to %s, want %s", got, want)
				}
				for i := range int32(3) {
					if f := b.logs[part("t", i)].Frontiers(); f.LogEnd != 2 || f.LastStable != 2 {
						t.Errorf("t-%d has frontiers %+v, want one record and one marker", i, f)
					}
					if commit {
						b.wantVisible(part("t", i), "0")
					} else {
						b.wantVisible(part("t", i))
					}
				}
				next, err := b.end("x", p, commit)
				if b.want(err, nil, "asked again"); next.Epoch != p.Epoch+1 {
					t.Errorf("answered with %+v", next)
				}
			})
		}
	}
	// 51, 52: not decided; it times out.
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.crash()
	if b.state("x") != Ongoing {
		t.Fatalf("an undecided transaction is %s after a restart", b.state("x"))
	}
	b.sleep(61 * time.Second)
	if b.state("x") != CompleteAbort {
		t.Errorf("after its timeout it is %s", b.state("x"))
	}
	b.wantStable()
}

// 48, 49: a partition that does not take its marker now gets it later, and holds
// nobody else up.
func TestMarkerLater(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.mustSend("x", p, part("t", 1), 0, 1)
	b.broken[part("t", 0)] = errors.New("not now")
	_, err := b.c.End(ctx, "x", p, EndOptions{Commit: true, TV2: true, Async: true})
	b.want(err, nil, "the decision")
	b.wantVisible(part("t", 1), "0")
	d, err := b.c.Describe(ctx, "x")
	if err != nil || d.State != PrepareCommit || !reflect.DeepEqual(d.Partitions, []topic.Partition{part("t", 0)}) {
		t.Errorf("meanwhile it is %+v, %v", d, err)
	}
	_, err = b.end("x", p, true)
	b.want(err, ErrConcurrent, "another end meanwhile")
	_, err = b.c.InitProducerID(ctx, "x", InitOptions{})
	b.want(err, ErrConcurrent, "init meanwhile")
	b.want(b.c.Enlist(ctx, "x", p, []topic.Partition{part("t", 2)}), ErrConcurrent, "add meanwhile")
	delete(b.broken, part("t", 0))
	b.sleep(0)
	b.wantVisible(part("t", 0), "0")
	if b.state("x") != CompleteCommit {
		t.Errorf("then it is %s", b.state("x"))
	}
	b.wantStable()
	if f := b.logs[part("t", 1)].Frontiers(); f.LogEnd != 2 {
		t.Errorf("t-1 ends at %d: it has a second marker", f.LogEnd)
	}
}

// 47: a topic that was deleted meanwhile is done with.
func TestPartitionGone(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.mustSend("x", p, part("t", 0), 0, 1)
	b.mustSend("x", p, part("t", 1), 0, 1)
	b.gone[part("t", 0)] = true
	b.mustEnd("x", p, true)
	b.wantVisible(part("t", 1), "0")
}
