package delivery

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// newLog is an empty log in memory.
func newLog(t *testing.T) *log.Log {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.Mkdir("t-0", 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := log.Load(log.Options{FS: fs, Dir: "t-0"})
	if err == nil {
		_, err = l.Recover(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Abandon() })
	return l
}

// send appends a transactional batch of a producer with these values.
func send(t *testing.T, l *log.Log, id int64, sequence int32, values ...string) {
	t.Helper()
	p := batch.Producer{ID: id}
	var w batch.Builder
	w.Reset(nil, batch.BuilderOptions{Producer: p, BaseSequence: sequence, Transactional: true})
	for _, v := range values {
		w.Add(1_700_000_000_000, nil, []byte(v))
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := l.Guard(p, sequence, false)
	if err == nil {
		_, err = l.Append(context.Background(), b, log.AppendOptions{Guard: g})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func end(t *testing.T, l *log.Log, id int64, commit bool) {
	t.Helper()
	m := batch.Marker{Producer: batch.Producer{ID: id}, Commit: commit, Timestamp: 1_700_000_000_000}
	if _, err := l.AppendMarker(context.Background(), m, log.MarkerOptions{}); err != nil {
		t.Fatal(err)
	}
}

// deliver reads on to the end, at most bytes an answer.
func deliver(t *testing.T, l *log.Log, d *Delivery, bytes int) (values []string) {
	t.Helper()
	for {
		f, err := l.Read(d.Position, log.ReadOptions{Isolation: d.Isolation, BytesMax: bytes})
		if err != nil {
			t.Fatal(err)
		}
		n := len(f.Bytes())
		for d.Take(f); d.Next(); {
			values = append(values, string(d.Record().Value))
		}
		f.Close()
		if err := d.Err(); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return values
		}
	}
}

// Two producers whose transactions overlap: the first commits, the second
// aborts and then commits another one; a third stays open.
func TestIsolation(t *testing.T) {
	l := newLog(t)
	send(t, l, 1, 0, "a0", "a1") // 0, 1
	send(t, l, 2, 0, "b0")       // 2
	end(t, l, 2, false)          // 3
	send(t, l, 2, 1, "b1", "b2") // 4, 5
	end(t, l, 1, true)           // 6
	end(t, l, 2, true)           // 7
	send(t, l, 3, 0, "c0")       // 8
	for _, c := range []struct {
		isolation log.Isolation
		from      int64
		want      []string
		position  int64
		left      LeftOut
	}{
		{log.ReadUncommitted, 0, []string{"a0", "a1", "b0", "b1", "b2", "c0"}, 9, LeftOut{Control: 3}},
		{log.ReadCommitted, 0, []string{"a0", "a1", "b1", "b2"}, 8, LeftOut{Control: 3, Aborted: 1}},
		{log.ReadCommitted, 1, []string{"a1", "b1", "b2"}, 8, LeftOut{Control: 3, Aborted: 1}},
		{log.ReadCommitted, 5, []string{"b2"}, 8, LeftOut{Control: 2}},
	} {
		for _, bytes := range []int{1, 200, 1 << 20} {
			t.Run(fmt.Sprintf("%s/from=%d/bytes=%d", c.isolation, c.from, bytes), func(t *testing.T) {
				d := Delivery{Isolation: c.isolation, Position: c.from}
				defer d.Close()
				if got := deliver(t, l, &d, bytes); !slices.Equal(got, c.want) {
					t.Errorf("delivers %q, want %q", got, c.want)
				}
				if d.Position != c.position || d.Left != c.left {
					t.Errorf("ends at %d having left out %+v, want %d and %+v", d.Position, d.Left, c.position, c.left)
				}
			})
		}
	}
}

// A position set back is delivered again.
func TestSeek(t *testing.T) {
	l := newLog(t)
	send(t, l, 1, 0, "a", "b", "c")
	end(t, l, 1, true)
	d := Delivery{Isolation: log.ReadCommitted}
	defer d.Close()
	deliver(t, l, &d, 1<<20)
	d.Position = 1
	if got := deliver(t, l, &d, 1<<20); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("delivers %q from 1, want b and c", got)
	}
}
