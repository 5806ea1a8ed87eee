package log

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// timed is a batch of n records, the last of the given time and the others a
// little older.
func timed(n int, ms int64) batch.Batch {
	var w batch.Builder
	w.Reset(nil, batch.Plain)
	for i := range n {
		w.Add(ms-int64(n-1-i), []byte("k"), []byte(strings.Repeat("v", 200)))
	}
	b, err := w.Finish()
	if err != nil {
		panic(err)
	}
	return b
}

// TestFlippedIndexHidesNothing flips every bit of the offset and the time index
// of a sealed segment, one at a time: every record is still found, by offset
// and by time.
func TestFlippedIndexHidesNothing(t *testing.T) {
	const spacing = 10 // ms from batch to batch
	b := newBed(t, Config{SegmentBytes: 6000, IndexIntervalBytes: 300})
	var batches []batch.Batch
	for i := range 24 {
		v := timed(i%3+1, epoch2023+int64(i)*spacing)
		a := b.append(v)
		v.Stamp(a.BaseOffset, 0)
		batches = append(batches, v)
	}
	var err error
	if b.o.Points, err = b.l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.o.Clean = true
	if n := len(bases(b.l)); n != 2 {
		t.Fatalf("%d segments", n)
	}
	for _, name := range []string{"d/00000000000000000000.index", "d/00000000000000000000.timeindex"} {
		good, err := vfs.ReadFile(b.fs, name, 1<<20)
		if err != nil || len(good) < 6*8 {
			t.Fatalf("%s: %d bytes, %v", name, len(good), err)
		}
		for bit := range 8 * len(good) {
			bad := []byte(string(good))
			bad[bit/8] ^= 1 << (bit % 8)
			if err := vfs.Replace(b.fs, name, bad); err != nil {
				t.Fatal(err)
			}
			b.o.OwnOnly = bit%2 == 0
			what := fmt.Sprintf("%s, bit %d of byte %d", name, bit%8, bit/8)
			// Each from an index that nobody has found wrong yet.
			for i, want := range batches[:20] {
				b.open()
				if i%2 == bit%2 {
					found(t, what, b.l, want.LastOffset(), want.BaseOffset())
				}
				timeFound(t, what, b.l, epoch2023+int64(i)*spacing, want.LastOffset())
				found(t, what, b.l, want.LastOffset(), want.BaseOffset())
				_ = b.l.Abandon()
			}
			if t.Failed() {
				return
			}
		}
		if err := vfs.Replace(b.fs, name, good); err != nil {
			t.Fatal(err)
		}
	}
}

// found reads at an offset and expects the batch that holds it first.
func found(t *testing.T, what string, l *Log, offset, base int64) {
	t.Helper()
	f, err := l.Read(offset, ReadOptions{BytesMax: 1})
	if err != nil {
		t.Errorf("%s: read %d: %v", what, offset, err)
		return
	}
	defer f.Close()
	for v := range f.Batches() {
		if v.BaseOffset() == base {
			return
		}
		break
	}
	t.Errorf("%s: read %d answered %d bytes, next is %d, want the batch from %d", what, offset, len(f.Bytes()), f.NextOffset(), base)
}

func timeFound(t *testing.T, what string, l *Log, ms, offset int64) {
	t.Helper()
	want := TimeOffset{Timestamp: ms, Offset: offset}
	if got, err := l.OffsetForTime(ms, ReadUncommitted); err != nil || got != want {
		t.Errorf("%s: %+v of time %d, want %+v, %v", what, got, ms, want, err)
	}
}

// TestReadBytesMax: any number of bytes may be asked for.
func TestReadBytesMax(t *testing.T) {
	b := newBed(t, Config{})
	b.append(plain(3, "x"))
	b.append(plain(3, "y"))
	one := len(plain(3, "x"))
	for asked, want := range map[int]int{
		math.MaxInt: 2 * one, math.MaxInt - readSlack: 2 * one, math.MaxInt32: 2 * one, 2 * one: 2 * one, 0: 2 * one,
		2*one - 1: one, 1: one, -1: one, math.MinInt: one,
	} {
		f, err := b.l.Read(0, ReadOptions{BytesMax: asked})
		if err != nil {
			t.Errorf("%d bytes: %v", asked, err)
			continue
		}
		if len(f.Bytes()) != want {
			t.Errorf("%d bytes asked for: %d answered, want %d", asked, len(f.Bytes()), want)
		}
		f.Close()
	}
	f, err := b.l.Read(0, ReadOptions{BytesMax: -1, NoOversize: true})
	if err != nil || len(f.Bytes()) != 0 {
		t.Errorf("no byte allowed: %d answered, %v", len(f.Bytes()), err)
	}
	f.Close()
}

// TestReadOutOfRange: the error tells what the log holds.
func TestReadOutOfRange(t *testing.T) {
	b := newBed(t, Config{Delete: true})
	for range 5 {
		b.append(plain(2, "x"))
	}
	if _, err := b.l.DeleteRecords(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{-1, 0, 2, 11, math.MaxInt64} {
		_, err := b.l.Read(offset, ReadOptions{})
		if got, ok := errors.AsType[*OffsetError](err); !ok || *got != (OffsetError{Requested: offset, LogStart: 3, LogEnd: 10}) {
			t.Errorf("read %d: %v", offset, err)
		}
	}
}
