package log

import (
	"bytes"
	"errors"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/overlay"
)

// abandoned is the options of a log that ended without a close, after appends of
// these batches.
func abandoned(t *testing.T, batches ...batch.Batch) Options {
	t.Helper()
	b := newDirectBed(t, Config{})
	for _, v := range batches {
		b.append(v)
	}
	if err := b.l.Abandon(); err != nil {
		t.Fatal(err)
	}
	o := b.o
	o.Clean, o.Points = false, Points{}
	return o
}

// stamped is a batch as it stands in a log.
func stamped(v batch.Batch, offset int64) batch.Batch {
	s := batch.Batch(bytes.Clone(v))
	s.Stamp(offset, 0)
	return s
}

func pieceOf(pos, first int64, batches ...batch.Batch) overlay.Piece {
	var all []byte
	next := first
	for _, v := range batches {
		all = append(all, v...)
		next = v.NextOffset()
	}
	return overlay.Piece{Pos: pos, Length: int64(len(all)), First: first, Next: next, Source: bytes.NewReader(all), Certain: true}
}

// What the journal vouches for and does not have itself must be in the
// segments: a log that ends before it is damaged, not shorter.
func TestJournalVouchesForMore(t *testing.T) {
	o := abandoned(t, plain(3, "x"), plain(2, "y"))
	o.Journaled, o.JournalEnd = true, 7
	_, err := Load(o)
	c, ok := errors.AsType[*CorruptionError](err)
	if !ok || c.Offset != 5 {
		t.Fatalf("got %v, want damage at offset 5", err)
	}
	o.JournalEnd = 5
	l, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if end := l.Frontiers().LogEnd; end != 5 {
		t.Errorf("the log ends at %d, want 5", end)
	}
	if err := l.Abandon(); err != nil {
		t.Error(err)
	}
}

// What lies above the end of the journal was never acknowledged: it is no part
// of the log though it checks out, and is kept beside it.
func TestJournalDecidesTheEnd(t *testing.T) {
	o := abandoned(t, plain(3, "x"), plain(2, "y"))
	o.Journaled, o.JournalEnd = true, 3
	l, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if end := l.Frontiers().LogEnd; end != 3 || len(r.CutFiles) != 1 || !r.ValidAfter {
		t.Errorf("the log ends at %d, recovery %+v", end, r)
	}
	if err := l.Abandon(); err != nil {
		t.Error(err)
	}
}

// A batch of another program where ours belongs refuses the log, with nothing
// changed; the same batch, a torn one and none at all do not.
func TestForeignWriter(t *testing.T) {
	first := plain(3, "x")
	second, other := plain(2, "y"), plain(2, "of another program")
	o := abandoned(t, first)
	size := int64(len(first))
	for _, c := range []struct {
		name    string
		there   batch.Batch // in the file, where the second belongs
		foreign bool
	}{
		{"nothing", nil, false},
		{"the same", stamped(second, 3), false},
		{"torn", stamped(other, 3)[:len(other)-1], false},
		{"another", stamped(other, 3), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := o.FS.OpenFile(o.Dir+"/00000000000000000000.log", 2, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(size); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(c.there, size); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			o := o
			o.Pieces = []overlay.Piece{pieceOf(size, 3, stamped(second, 3))}
			o.Journaled, o.JournalEnd = true, 5
			l, err := Load(o)
			e, foreign := errors.AsType[*ForeignWriterError](err)
			if foreign != c.foreign || foreign && (e.Offset != 3 || e.Pos != size) || !foreign && err != nil {
				t.Fatalf("got %v", err)
			}
			if foreign {
				return
			}
			if end := l.Frontiers().LogEnd; end != 5 {
				t.Errorf("the log ends at %d, want 5", end)
			}
			if err := l.Abandon(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The journal refers to a large batch by its place and checksum: a good batch that
// is another one there refuses the log; one that is torn or gone is told of where
// the log ends before what the journal vouches for.
func TestReference(t *testing.T) {
	large, other := plain(3, "x"), plain(3, "y")
	for _, c := range []struct {
		name    string
		there   []batch.Batch
		foreign bool
		corrupt bool
	}{
		{"the same", []batch.Batch{large}, false, false},
		{"another", []batch.Batch{other}, true, false},
		{"nothing", nil, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := abandoned(t, c.there...)
			o.Journaled, o.JournalEnd = true, 3
			o.References = []Reference{{CRC: large.CRC()}}
			l, err := Load(o)
			_, foreign := errors.AsType[*ForeignWriterError](err)
			if foreign != c.foreign || errors.Is(err, ErrCorrupt) != c.corrupt || (err == nil) != (!c.foreign && !c.corrupt) {
				t.Errorf("loads with %v", err)
			}
			if l != nil && err == nil {
				l.Abandon()
			}
		})
	}
}
