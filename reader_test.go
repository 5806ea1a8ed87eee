package oncelog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// memStore is a store in memory with topic t.
func memStore(t *testing.T, partitions int) *oncelog.Store {
	t.Helper()
	s, err := oncelog.Open("data", oncelog.Options{FS: oncelog.NewMemFS()})
	if err == nil {
		err = s.CreateTopic(t.Context(), "t", oncelog.TopicConfig{Partitions: partitions})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func appendValues(t *testing.T, s *oncelog.Store, index int32, values ...string) {
	t.Helper()
	tp := oncelog.TopicPartition{Topic: "t", Index: index}
	if _, err := s.Append(t.Context(), tp, recordsOf(batch.Plain, values...), oncelog.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
}

// transaction appends one batch in a transaction and ends it, unless end is "".
func transaction(t *testing.T, s *oncelog.Store, index int32, id int64, end string, values ...string) {
	t.Helper()
	l, err := s.Partition(oncelog.TopicPartition{Topic: "t", Index: index})
	if err != nil {
		t.Fatal(err)
	}
	p := batch.Producer{ID: id}
	g, _, err := l.Guard(p, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	b := recordsOf(batch.BuilderOptions{Producer: p, Transactional: true}, values...)
	if _, err := l.Append(t.Context(), b, log.AppendOptions{Guard: g}); err != nil {
		t.Fatal(err)
	}
	if end == "" {
		return
	}
	if _, err := l.AppendMarker(t.Context(), batch.Marker{Producer: p, Commit: end == "commit"}, log.MarkerOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newReader(t *testing.T, s *oncelog.Store, o oncelog.ReaderOptions) *oncelog.Reader {
	t.Helper()
	r, err := s.NewReader(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// readAll are the records there are now, as partition:offset=value.
func readAll(t *testing.T, r *oncelog.Reader) (all []string) {
	t.Helper()
	for record, err := range r.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d:%d=%s", record.Index, record.Offset, record.Value))
	}
	return all
}

func wantRecords(t *testing.T, r *oncelog.Reader, want ...string) {
	t.Helper()
	if got := readAll(t, r); !slices.Equal(got, want) {
		t.Errorf("reads %q, want %q", got, want)
	}
}

func wantLag(t *testing.T, r *oncelog.Reader, want int64) {
	t.Helper()
	lag, err := r.Lag()
	caught, e := r.CaughtUp()
	if err != nil || e != nil || lag != want || caught != (want == 0) {
		t.Errorf("lag %d (%v), caught up %t (%v), want %d", lag, err, caught, e, want)
	}
}

func TestReaderIsolation(t *testing.T) {
	s := memStore(t, 2)
	transaction(t, s, 0, 1, "abort", "a", "b") // 0, 1; marker 2
	transaction(t, s, 0, 2, "commit", "c")     // 3; marker 4
	transaction(t, s, 1, 3, "", "d")           // 0
	appendValues(t, s, 1, "e")                 // 1

	r := newReader(t, s, oncelog.ReaderOptions{Topic: "t", Isolation: oncelog.ReadCommitted})
	wantLag(t, r, 1)
	wantRecords(t, r, "0:3=c")
	wantLag(t, r, 0)
	if got := r.Positions()[oncelog.TopicPartition{Topic: "t"}]; got != 5 {
		t.Errorf("position %d behind the marker at 4, want 5", got)
	}
	r = newReader(t, s, oncelog.ReaderOptions{Topic: "t"})
	wantLag(t, r, 5)
	wantRecords(t, r, "0:0=a", "0:1=b", "0:3=c", "1:0=d", "1:1=e")
	wantLag(t, r, 0)
}

// A reader that has the last record is caught up although a marker follows that
// it has not come by.
func TestReaderCaughtUpBeforeMarker(t *testing.T) {
	s := memStore(t, 1)
	transaction(t, s, 0, 1, "commit", "a", "b")
	r := newReader(t, s, oncelog.ReaderOptions{Topic: "t", Isolation: oncelog.ReadCommitted})
	for _, want := range []struct {
		value string
		lag   int64
	}{{"a", 1}, {"b", 0}} {
		record, err := r.Next(t.Context())
		if err != nil || string(record.Value) != want.value {
			t.Fatalf("reads %+v, %v, want %s", record, err, want.value)
		}
		wantLag(t, r, want.lag)
	}
	if at, _ := r.Position(oncelog.TopicPartition{Topic: "t"}); at != 2 {
		t.Errorf("position %d, want 2", at)
	}
}

func TestReaderStart(t *testing.T) {
	s := memStore(t, 1)
	tp := oncelog.TopicPartition{Topic: "t"}
	for i := range 3 {
		var w batch.Builder
		w.Reset(nil, batch.Plain)
		w.Add(int64(1000*(i+1)), nil, fmt.Append(nil, i))
		b, err := w.Finish()
		if err == nil {
			_, err = s.Append(t.Context(), tp, b, oncelog.AppendOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		from oncelog.Start
		want []string
	}{
		{"earliest", oncelog.Earliest(), []string{"0:0=0", "0:1=1", "0:2=2"}},
		{"latest", oncelog.Latest(), nil},
		{"offset", oncelog.AtOffset(2), []string{"0:2=2"}},
		{"time of a record", oncelog.AtTime(time.UnixMilli(2000)), []string{"0:1=1", "0:2=2"}},
		{"time between records", oncelog.AtTime(time.UnixMilli(2001)), []string{"0:2=2"}},
		{"time behind all", oncelog.AtTime(time.UnixMilli(3001)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantRecords(t, newReader(t, s, oncelog.ReaderOptions{Partitions: []oncelog.TopicPartition{tp}, Start: c.from}), c.want...)
		})
	}
}

// What is out of range is an error with both ends; the reader goes on where it
// is told to.
func TestReaderOutOfRange(t *testing.T) {
	s := memStore(t, 1)
	tp := oncelog.TopicPartition{Topic: "t"}
	appendValues(t, s, 0, "a", "b")
	r := newReader(t, s, oncelog.ReaderOptions{Topic: "t", Start: oncelog.AtOffset(3)})
	_, err := r.Next(t.Context())
	if out, ok := errors.AsType[*oncelog.OffsetError](err); !ok || out.LogStart != 0 || out.LogEnd != 2 {
		t.Fatalf("reads at 3: %v, want an offset error of 0 to 2", err)
	}
	if err := r.Seek(tp, 1); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, r, "0:1=b")
	if err := r.Seek(oncelog.TopicPartition{Topic: "t", Index: 7}, 0); !errors.Is(err, oncelog.ErrUnknownPartition) {
		t.Errorf("seek in a partition that is not read: %v", err)
	}
	if _, err := s.NewReader(oncelog.ReaderOptions{Topic: "u"}); !errors.Is(err, oncelog.ErrUnknownPartition) {
		t.Errorf("reader of an unknown topic: %v", err)
	}
	if _, err := s.NewReader(oncelog.ReaderOptions{}); !errors.Is(err, oncelog.ErrInvalidOptions) {
		t.Errorf("reader of nothing: %v", err)
	}
	r.Close()
	if _, err := r.Next(t.Context()); !errors.Is(err, oncelog.ErrClosed) {
		t.Errorf("closed reader: %v", err)
	}
}

// Follow waits for what comes, and ends with its context.
func TestReaderFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := oncelog.Open("data", oncelog.Options{FS: oncelog.NewMemFS()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		ctx, cancel := context.WithCancel(context.Background())
		if err := s.CreateTopic(ctx, "t", oncelog.TopicConfig{Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		r, err := s.NewReader(oncelog.ReaderOptions{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for record, err := range r.Follow(ctx) {
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, fmt.Sprintf("%d=%s", record.Index, record.Clone().Value))
			}
		}()
		for i, v := range []string{"a", "b", "c"} {
			time.Sleep(time.Minute)
			tp := oncelog.TopicPartition{Topic: "t", Index: int32(i % 2)}
			if _, err := s.Append(ctx, tp, recordsOf(batch.Plain, v), oncelog.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		cancel()
		<-done
		if want := []string{"0=a", "1=b", "0=c"}; !slices.Equal(got, want) {
			t.Errorf("follows %q, want %q", got, want)
		}
	})
}

// TestReaderAllocates nothing for a record.
func TestReaderAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := memStore(t, 1)
	values := make([]string, 1000)
	for range 20 {
		appendValues(t, s, 0, values...)
	}
	r := newReader(t, s, oncelog.ReaderOptions{Topic: "t", BytesMax: 8 << 10})
	ctx := t.Context()
	read := func() {
		if _, err := r.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 5000 {
		read()
	}
	if n := testing.AllocsPerRun(10_000, read); n > 0 {
		t.Errorf("%.2f allocations a record", n)
	}
}
