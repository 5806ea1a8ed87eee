package groupoffsets

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// groupOf is a group of a partition.
func (b *bed) groupOf(n int32, not string) string {
	for c := 'a'; ; c++ {
		if g := string(c); g != not && must(b.s.PartitionOf(g)).Index == n {
			return g
		}
	}
}

// A flipped bit in a batch: no group of its partition is answered, neither with
// what lies before nor with what lies after; those of others are.
func TestDamagedBatch(t *testing.T) {
	b := newBed(t, 2, log.Options{})
	hit, spared := b.groupOf(0, ""), b.groupOf(1, "")
	b.commit(hit, at(0, 1))
	b.commit(hit, at(0, 2))
	b.commit(hit, at(0, 3))
	b.commit(spared, at(0, 7))
	first := must(b.logs[0].Read(1, log.ReadOptions{BytesMax: -1}))
	size := len(first.Bytes())
	first.Close()
	f, err := b.fs.OpenFile("__consumer_offsets-0/00000000000000000000.log", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, int64(size+size-1)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b.s = b.store()
	for range 2 { // it stays so
		_, err := b.s.Fetch(ctx, nil, hit, []topic.Partition{part(0)}, FetchOptions{})
		bad, ok := errors.AsType[*DamageError](err)
		if !ok || bad.Offset != 1 || bad.Partition.Index != 0 || !errors.Is(err, ErrDamaged) || !errors.Is(err, log.ErrCorrupt) {
			t.Errorf("got %v, want a *DamageError at offset 1", err)
		}
	}
	for name, err := range map[string]error{
		"commit":   second(b.s.Commit(ctx, hit, []Commit{at(0, 4)}, log.AppendOptions{})),
		"describe": second(b.s.Describe(ctx, hit)),
		"delete":   b.s.DeleteGroup(ctx, hit),
		"topic":    second(b.s.DeleteTopic(ctx, "other")),
		"expire":   second(b.s.Expire(ctx, ExpireOptions{})),
		"catch up": b.s.CatchUp(ctx),
	} {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want ErrDamaged", name, err)
		}
	}
	if got := b.offset(spared, 0, true); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	all, err := b.s.Groups(ctx)
	if len(all) != 1 || all[0].Name != spared || !errors.Is(err, ErrDamaged) {
		t.Errorf("got %+v, %v, want the groups that can be told, and the damage", all, err)
	}
}

func second[T any](_ T, err error) error { return err }

// A record that cannot be read may be the newest offset of anything.
func TestUnreadableRecord(t *testing.T) {
	key := appendOffsetKey(nil, "g", "t", 0)
	for name, c := range map[string]struct{ key, value []byte }{
		"key cut":                    {key[:len(key)-1], unhex("0003000000000000002affffffff00000000018bcfe56800")},
		"key empty":                  {[]byte{}, []byte{}},
		"value empty":                {key, []byte{}},
		"value cut":                  {key, unhex("0003 0000")},
		"value of a version to come": {key, unhex("0005 000000000000002a ffffffff 01 0000018bcfe56800 00")},
	} {
		b := newBed(t, 1, log.Options{})
		b.commit("g", at(0, 1))
		b.records("g", c.key, c.value)
		_, err := b.s.Fetch(ctx, nil, "g", []topic.Partition{part(0)}, FetchOptions{})
		if bad, ok := errors.AsType[*DamageError](err); !ok || bad.Offset != 1 {
			t.Errorf("%s: got %v, want a *DamageError at offset 1", name, err)
		}
	}
}

// Trap 16: what takes away nothing does nothing, and keys of no concern are
// skipped.
func TestTombstonesOnly(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.records("g", appendOffsetKey(nil, "g", "t", 0), nil, appendGroupKey(nil, keyClassic, "g"), nil, appendGroupKey(nil, keyConsumer, "g"), nil,
		appendString(appendGroupKey(nil, keyMember, "g"), "m"), nil, unhex("0063 01"), []byte("newer"), unhex("0010 0001 67 0001 72"), unhex("0000"))
	b.end("g", 9, true)
	b.end("g", 9, false)
	b.want("g", 0, -1, -1)
	if all := must(b.s.Groups(ctx)); len(all) != 0 {
		t.Errorf("got %+v", all)
	}
}

// Another log in its place: the fold starts again.
func TestAnotherLog(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.commit("g", at(0, 1))
	b.stage("g", 1, at(0, 2))
	b.want("g", 0, 1, unstableNumber)
	b.logs[0].Abandon()
	if _, err := b.s.Commit(ctx, "g", []Commit{at(0, 1)}, log.AppendOptions{}); !errors.Is(err, log.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	other := newBed(t, 1, log.Options{})
	other.commit("g", at(1, 5))
	other.commit("h", at(1, 6), at(1, 7)) // so that it reaches farther than the first
	b.mu.Lock()
	b.logs[0] = other.logs[0]
	b.mu.Unlock()
	b.want("g", 0, -1, -1)
	b.want("g", 1, 5, 5)
}

// A log that is opened again between being asked for and being read is asked for
// again; one that stays closed is not.
func TestReopenedMeanwhile(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.commit("g", at(0, 1))
	b.commit("g", at(0, 2))
	b.stale = b.logs[0]
	b.reopen(0)
	b.s = b.store()
	b.want("g", 0, 2, 2)
	b.logs[0].Abandon()
	b.s = b.store()
	if _, err := b.s.Fetch(ctx, nil, "g", nil, FetchOptions{}); !errors.Is(err, log.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// Where the log does not serve, its error is told; a context that ended counts.
func TestUnavailable(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.commit("g", at(0, 1))
	b.broken = errors.New("it is broken")
	if _, err := b.s.Fetch(ctx, nil, "g", nil, FetchOptions{}); !errors.Is(err, b.broken) {
		t.Errorf("got %v", err)
	}
	b.broken = nil
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.s.Fetch(ended, nil, "g", nil, FetchOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	p := b.s.at(0)
	if err := p.take(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.take(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	p.give()
	b.want("g", 0, 1, 1)
}

// The head of the log is gone: what it said is, too, live as after opening.
func TestLogStartMoved(t *testing.T) {
	b := newBed(t, 1, log.Options{Config: log.Config{Delete: true}})
	b.commit("g", at(0, 1))
	b.stage("g", 1, at(2, 1))
	b.commit("g", at(1, 2), at(3, 3))
	b.want("g", 0, 1, 1)
	if _, err := b.logs[0].DeleteRecords(ctx, 3); err != nil {
		t.Fatal(err)
	}
	b.want("g", 0, -1, -1)
	b.want("g", 1, -1, -1) // its record lies below, in a batch that reaches over
	b.want("g", 2, -1, -1)
	b.want("g", 3, 3, 3)
	b.end("g", 1, true)
	b.want("g", 2, -1, -1)
	b.reopen(0)
	b.want("g", 3, 3, 3)
}

// A batch may be compressed, as Kafka's offsets.topic.compression.codec has it.
func TestCompressed(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	for i, codec := range []batch.Codec{batch.CodecGzip, batch.CodecSnappy, batch.CodecLZ4, batch.CodecZstd} {
		o := batch.Plain
		o.Codec = codec
		var w batch.Builder
		w.Reset(nil, o)
		c := at(int32(i), int64(i+10))
		w.Add(at0, appendOffsetKey(nil, "g", "t", int32(i)), appendValue(nil, &c, at0))
		if _, err := b.logs[0].Append(ctx, must(w.Finish()), log.AppendOptions{Origin: log.OriginCoordinator}); err != nil {
			t.Fatal(err)
		}
		b.want("g", int32(i), int64(i+10), int64(i+10))
	}
}
