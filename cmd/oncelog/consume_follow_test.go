package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// following is a consume --follow under way.
type following struct {
	lines  *bufio.Scanner
	out    *io.PipeReader
	stderr bytes.Buffer
	code   chan int
}

func follow(t testing.TB, args ...string) *following {
	t.Helper()
	r, w := io.Pipe()
	f := &following{lines: bufio.NewScanner(r), out: r, code: make(chan int, 1)}
	go func() {
		f.code <- run(append([]string{"consume", "--follow", "-o", "json"}, args...), w, &f.stderr)
		w.Close()
	}()
	return f
}

// want waits for records with these values.
func (f *following) want(t testing.TB, values ...string) {
	t.Helper()
	for _, want := range values {
		if !f.lines.Scan() {
			t.Fatalf("the output ended before %q: %v, %s", want, f.lines.Err(), f.stderr.String())
		}
		var r struct{ Value string }
		if err := json.Unmarshal(f.lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if got, err := hex.DecodeString(r.Value); err != nil || string(got) != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
}

// wantEnd waits for the end, without further records.
func (f *following) wantEnd(t testing.TB, code int) {
	t.Helper()
	for f.lines.Scan() {
		t.Errorf("one more record: %s", f.lines.Bytes())
	}
	if got := <-f.code; got != code {
		t.Errorf("exit code %d, want %d: %s", got, code, f.stderr.String())
	}
}

// written appends a record to t-0 of a store.
func written(t testing.TB, s *oncelog.Store, value string) {
	t.Helper()
	if _, err := s.Append(t.Context(), oncelog.TopicPartition{Topic: "t"}, built(t, 0, nil, value), oncelog.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
}

func openedStore(t testing.TB, dir string, d oncelog.Durability) *oncelog.Store {
	t.Helper()
	s, err := oncelog.Open(dir, oncelog.Options{SegmentBytes: 1 << 10, Durability: d})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What another opener of the directory appends is delivered, over new segments,
// a close and an open, until the program is told to stop.
func TestConsumeFollows(t *testing.T) {
	for _, d := range []oncelog.Durability{oncelog.DurabilityFsync, oncelog.DurabilityOS} {
		t.Run(d.String(), func(t *testing.T) { consumeFollows(t, d) })
	}
}

func consumeFollows(t *testing.T, d oncelog.Durability) {
	dir := t.TempDir()
	s := openedStore(t, dir, d)
	if err := s.CreateTopic(t.Context(), "t", oncelog.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	written(t, s, "before")
	f := follow(t, dir, "--topic", "t")
	f.want(t, "before")
	for i := range 3 {
		var values []string
		for j := range 20 {
			values = append(values, fmt.Sprintf("%d.%d", i, j))
			written(t, s, values[j])
		}
		f.want(t, values...)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s = openedStore(t, dir, d)
	}
	written(t, s, "after")
	f.want(t, "after")
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	f.wantEnd(t, exitSound)
	if f.stderr.Len() > 0 {
		t.Errorf("told: %s", f.stderr.String())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A transaction is delivered when it ends, if it is committed.
func TestConsumeFollowsTransactions(t *testing.T) {
	dir := t.TempDir()
	s := openedStore(t, dir, oncelog.DurabilityFsync)
	if err := s.CreateTopic(t.Context(), "t", oncelog.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	l, err := s.Partition(oncelog.TopicPartition{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	transaction := func(p batch.Producer, value string, between func(), commit bool) {
		guard, _, err := l.Guard(p, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		var w batch.Builder
		w.Reset(nil, batch.BuilderOptions{Producer: p, Transactional: true, LeaderEpoch: batch.None})
		w.Add(1_700_000_000_000, nil, []byte(value))
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), b, log.AppendOptions{Guard: guard}); err != nil {
			t.Fatal(err)
		}
		between()
		if _, err := l.AppendMarker(t.Context(), batch.Marker{Producer: p, Commit: commit, Timestamp: 1_700_000_000_000}, log.MarkerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	written(t, s, "before")
	committed := follow(t, dir, "--topic", "t", "--isolation", "read_committed", "--max", "4")
	all := follow(t, dir, "--topic", "t", "--max", "6")
	committed.want(t, "before")
	transaction(batch.Producer{ID: 7}, "aborted", func() {
		all.want(t, "before", "aborted")
		written(t, s, "one")
	}, false)
	committed.want(t, "one")
	transaction(batch.Producer{ID: 8}, "committed", func() {
		written(t, s, "two")
		all.want(t, "one", "committed", "two")
	}, true)
	committed.want(t, "committed", "two")
	committed.wantEnd(t, exitSound)
	written(t, s, "last")
	all.want(t, "last")
	all.wantEnd(t, exitSound)
	if got := committed.stderr.String(); !strings.Contains(got, "left out: 1 control record, 1 record of aborted transactions\n") {
		t.Errorf("told: %s", got)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A log that another program appends to is followed by its files alone, also
// over a batch that is half written and into another segment.
func TestConsumeFollowsForeign(t *testing.T) {
	dir := logDirectoryOf(t, built(t, 0, nil, "a"))
	appended := func(name string, b []byte) {
		w, err := os.OpenFile(filepath.Join(dir, "t-0", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f := follow(t, dir, "--topic", "t", "--max", "6")
	f.want(t, "a")
	first, second, b := "00000000000000000000.log", "00000000000000000004.log", built(t, 1, nil, "b", "c")
	appended(first, b[:70])
	appended(first, b[70:])
	f.want(t, "b", "c")
	appended(first, append(built(t, 3, nil, "d"), b[:30]...))
	f.want(t, "d")
	if err := os.Truncate(filepath.Join(dir, "t-0", first), int64(2*len(built(t, 0, nil, "a"))+len(b))); err != nil {
		t.Fatal(err)
	}
	appended(second, built(t, 4, nil, "e"))
	f.want(t, "e")
	appended(second, built(t, 5, nil, "f"))
	f.want(t, "f")
	f.wantEnd(t, exitSound)
	if f.stderr.Len() > 0 {
		t.Errorf("told: %s", f.stderr.String())
	}
}
