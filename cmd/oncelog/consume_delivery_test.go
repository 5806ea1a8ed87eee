package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// built is a batch of records with these values, at an offset, and changed
// before its checksum is made.
func built(t testing.TB, base int64, change func(b []byte) []byte, values ...string) []byte {
	t.Helper()
	o := batch.Plain
	o.BaseOffset = base
	var w batch.Builder
	w.Reset(nil, o)
	for _, v := range values {
		w.Add(1_700_000_000_000, nil, []byte(v))
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		b = change(b)
		const sizePos, checksumPos, behindSize = 8, 17, 12
		binary.BigEndian.PutUint32(b[sizePos:], uint32(len(b)-behindSize))
		binary.BigEndian.PutUint32(b[checksumPos:], batch.CRC(b))
	}
	return b
}

// logDirectoryOf is a log directory with one partition, t-0, of these batches.
func logDirectoryOf(t testing.TB, batches ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "t-0"), 0o755); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, b := range batches {
		all = append(all, b...)
	}
	if err := os.WriteFile(filepath.Join(dir, "t-0", "00000000000000000000.log"), all, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Batches whose checksums hold, and whose records do not: the Java consumer
// delivers those before the bad one. Bytes behind the last record it finds
// before it hands that one out.
func TestConsumeBadRecords(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   string // values that are delivered, x and y from the batch before
		text   string
	}{
		{name: "bytes behind the last record", change: func(b []byte) []byte { return append(b, 0) }, want: "x y a b", text: "left over"},
		{name: "last record cut", change: func(b []byte) []byte { return b[:len(b)-1] }, want: "x y a b", text: "record 2"},
		{name: "second record too long", change: func(b []byte) []byte {
			size := (len(b) - batch.HeaderSize) / 3
			b[batch.HeaderSize+size] = 0x7e
			return b
		}, want: "x y a", text: "record 1"},
		{name: "unknown codec", change: func(b []byte) []byte { b[22] |= 6; return b }, want: "x y", text: "codec"},
		{name: "bytes are none of the codec", change: func(b []byte) []byte { b[22] |= 1; return b }, want: "x y", text: "none can be decompressed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := logDirectoryOf(t, built(t, 0, nil, "x", "y"), built(t, 2, c.change, "a", "b", "c"), built(t, 5, nil, "z"))
			kinds, stderr, code := runJSON(t, "consume", dir, "--topic", "t")
			var values []string
			for _, r := range kinds["record"] {
				values = append(values, r.text("value"))
			}
			want := strings.NewReplacer("x", "78", "y", "79", "a", "61", "b", "62").Replace(c.want)
			if got := strings.Join(values, " "); got != want {
				t.Errorf("values %s, want %s", got, want)
			}
			place := filepath.Join(dir, "t-0", "00000000000000000000.log") + " is damaged in the batch at offset 2: "
			if code != exitDamaged || !strings.Contains(stderr, place) || !strings.Contains(stderr, c.text) {
				t.Errorf("exit code %d: %s, want %q and %q", code, stderr, place, c.text)
			}
			kinds, stderr, code = runJSON(t, "consume", dir, "--topic", "t", "--from", "5")
			if code != exitSound || len(kinds["record"]) != 1 {
				t.Errorf("behind it: %v, exit code %d: %s", kinds, code, stderr)
			}
		})
	}
}

func TestParseStartingPoint(t *testing.T) {
	at := func(s string) int64 {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixMilli()
	}
	for _, c := range []struct {
		text string
		want startingPoint
	}{
		{"earliest", startingPoint{kind: startEarliest}},
		{"latest", startingPoint{kind: startLatest}},
		{"0", startingPoint{kind: startOffset}},
		{"2026", startingPoint{kind: startOffset, at: 2026}},
		{"9223372036854775807", startingPoint{kind: startOffset, at: 1<<63 - 1}},
		{"@0", startingPoint{kind: startTime}},
		{"@1700000000000", startingPoint{kind: startTime, at: 1_700_000_000_000}},
		{"2023-11-14T22:13:20Z", startingPoint{kind: startTime, at: 1_700_000_000_000}},
		{"2023-11-14T23:13:20+01:00", startingPoint{kind: startTime, at: 1_700_000_000_000}},
		{"2023-11-14T22:13:20.007Z", startingPoint{kind: startTime, at: 1_700_000_000_007}},
		{"2023-11-14T22:13:20.0070001Z", startingPoint{kind: startTime, at: 1_700_000_000_008}},
		{"1969-12-31T23:59:59.9995Z", startingPoint{kind: startTime, at: at("1970-01-01T00:00:00Z")}},
	} {
		got, err := parseStartingPoint(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "now", "Latest", "-1", "+1", "1.5", "1e3", " 1", "@", "@-1", "@1s", "9223372036854775808",
		"2026-01-02", "2026-01-02T15:04:05", "2026-01-02 15:04:05Z", "2026-13-02T15:04:05Z", "15:04:05Z"} {
		if got, err := parseStartingPoint(text); err == nil || !strings.Contains(err.Error(), "--from") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// cancelingWriter ends a context with the first write.
type cancelingWriter struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (w *cancelingWriter) Write(b []byte) (int, error) {
	w.cancel()
	return w.Buffer.Write(b)
}

// A run that is told to stop ends after what it has read, and says where to go
// on.
func TestConsumeStopped(t *testing.T) {
	const records = 600 // in a batch: more than half of what is read at once
	values := slices.Repeat([]string{strings.Repeat("v", 1000)}, records)
	dir := logDirectoryOf(t, built(t, 0, nil, values...), built(t, records, nil, values...))
	ctx, cancel := context.WithCancel(t.Context())
	w := &cancelingWriter{cancel: cancel}
	out, err := newOutput(w, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	c := &consumer{source: source{fs: vfs.Machine(), dir: dir, tp: topic.Partition{Topic: "t"}}, out: out, stderr: io.Discard, progress: &progress{}}
	err = c.run(ctx)
	if err == nil || exitCode(err) != exitBlind || err.Error() != "stopped: --from 600 goes on" {
		t.Errorf("got %v", err)
	}
	if got := len(objectsByKind(t, w.Bytes())["record"]); got != records {
		t.Errorf("%d records, want %d", got, records)
	}
	if err := c.run(ctx); exitCode(err) != exitBlind || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("stopped before it began: %v", err)
	}
}
