package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// TestIndexes: what is appended, sealed, mapped again or made anew has the
// entries that Kafka's rule asks for.
func TestIndexes(t *testing.T) {
	for _, interval := range []int{0, 150, 1000, IndexIntervalBytes} {
		b := newBed(t)
		batches := history(100, 200)
		offsets, times := rule(batches, interval)
		s := b.sealed(100, interval, batches)
		for range 2 {
			h, err := s.Acquire()
			b.ok(err)
			if !slices.Equal(offsetsOf(h.Offsets), offsets) || !slices.Equal(timesOf(h.Times), times) {
				t.Errorf("interval %d: %d offsets and %d times, want %d and %d", interval, h.Offsets.Len(), h.Times.Len(), len(offsets), len(times))
			}
			best, err := s.Times()
			if last := times[len(times)-1]; err != nil || best.Max != last {
				t.Errorf("greatest timestamp %+v, %v, want %+v", best, err, last)
			}
			b.ok(h.Release())
			b.ok(s.Retire())
			s = b.opened(100)
		}
		if interval == IndexIntervalBytes {
			h, err := s.Acquire()
			b.ok(err)
			x, y, err := Rebuild(h.File, 100, s.Size(), IndexIntervalBytes)
			if err != nil || !slices.Equal(offsetsOf(x), offsets) || !slices.Equal(timesOf(y), times) {
				t.Errorf("made anew: %d offsets, %d times, %v", x.Len(), y.Len(), err)
			}
			b.ok(h.Release())
		}
		if b.told != nil {
			t.Errorf("made anew: %v", b.told)
		}
	}
}

// TestDamagedIndexes replaces index files; the segment makes its own, tells
// so, and Mend puts them right.
func TestDamagedIndexes(t *testing.T) {
	batches := history(100, 200)
	r := rand.New(rand.NewPCG(2, 2))
	random := make([]byte, 12*8*3)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	for _, k := range []Kind{KindOffsetIndex, KindTimeIndex} {
		for how, damage := range map[string]func(b *bed, whole []byte){
			"missing": func(b *bed, _ []byte) { b.ok(b.mem.Remove("/d/" + name(100, k))) },
			"empty": func(b *bed, _ []byte) {
				if k == KindTimeIndex {
					b.write(name(100, k), nil)
				} else {
					b.write(name(100, k), []byte{0})
				}
			},
			"zeros":      func(b *bed, whole []byte) { b.write(name(100, k), make([]byte, len(whole))) },
			"zeros more": func(b *bed, whole []byte) { b.write(name(100, k), append(bytes.Clone(whole), make([]byte, 96)...)) },
			"random":     func(b *bed, _ []byte) { b.write(name(100, k), random) },
			"torn":       func(b *bed, whole []byte) { b.write(name(100, k), whole[:len(whole)-3]) },
			"past the end": func(b *bed, whole []byte) {
				whole[len(whole)-4] = 0x70 // position, or relative offset
				b.write(name(100, k), whole)
			},
			"wrong timestamp": func(b *bed, whole []byte) {
				if k == KindTimeIndex {
					whole[len(whole)-5] ^= 1
				} else {
					whole[len(whole)-1] ^= 1
				}
				b.write(name(100, k), whole)
			},
		} {
			b := newBed(t)
			b.ok(b.sealed(100, 300, batches).Retire())
			damage(b, b.read(name(100, k)))
			s := b.opened(100)
			offsets, times := rule(batches, IndexIntervalBytes)
			if how == "past the end" && k == KindTimeIndex {
				continue // an offset past the end names no batch: as after compaction
			}
			h, err := s.Acquire()
			b.ok(err)
			if !slices.Equal(offsetsOf(h.Offsets), offsets) || !slices.Equal(timesOf(h.Times), times) || len(b.told) == 0 {
				t.Errorf("%s %s: %d offsets, %d times, told %v", how, extensions[k], h.Offsets.Len(), h.Times.Len(), b.told)
			}
			b.ok(h.Release())
			mended, err := s.Mend()
			if !mended || err != nil {
				t.Errorf("%s %s: mended %v, %v", how, extensions[k], mended, err)
			}
			b.ok(s.Retire())
			b.told = nil
			s = b.opened(100)
			h, err = s.Acquire()
			b.ok(err)
			if b.told != nil || !slices.Equal(offsetsOf(h.Offsets), offsets) {
				t.Errorf("%s %s: after mending told %v", how, extensions[k], b.told)
			}
			if mended, _ := s.Mend(); mended {
				t.Errorf("%s %s: mended again", how, extensions[k])
			}
			b.ok(h.Release())
		}
	}
}

// TestSeek: a wrong entry never leads behind the batch that is looked for.
func TestSeek(t *testing.T) {
	batches := history(100, 200)
	b := newBed(t)
	b.ok(b.sealed(100, 300, batches).Retire())
	whole := b.read(name(100, KindOffsetIndex))
	for at := 0; at < len(whole)-8; at += 1 + at%3 { // the last entry is looked at when it is mapped
		for _, bit := range []byte{1, 0x80} {
			damaged := bytes.Clone(whole)
			damaged[at] ^= bit
			b.write(name(100, KindOffsetIndex), damaged)
			s := b.opened(100)
			h, err := s.Acquire()
			b.ok(err)
			for i := 0; i < len(batches); i += 13 {
				offset := batches[i].LastOffset()
				scan := NewScanner(h.File, s.Seek(h, offset), s.Size(), true)
				if !scan.Next() || scan.Batch().BaseOffset() > offset {
					t.Fatalf("byte %d: offset %d is sought at %d: %v", at, offset, scan.Pos(), scan.Err())
				}
				scan.Close()
			}
			b.ok(h.Release())
			b.ok(s.Retire())
		}
	}
}

// TestTxnIndex: a damaged one is asked for anew, one that cannot be read is an
// error, none means that nothing was aborted unless the other indexes are gone
// too.
func TestTxnIndex(t *testing.T) {
	b := newBed(t)
	anew := index.NewTxn(100)
	b.ok(anew.Append(index.AbortedTxn{ProducerID: 7, First: 101, Last: 150, LastStable: 151}))
	asked := 0
	b.env.Txns = func(base, size int64) (*index.Txn, error) { asked++; return anew, nil }
	batches := history(100, 40)
	b.ok(b.sealed(100, 300, batches).Retire())
	good := anew.AppendTo(nil, 0)
	bent := bytes.Clone(good)
	bent[10] = 0x7f
	for _, c := range []struct {
		how     string
		content []byte
		asked   int
	}{
		{"none", nil, 0}, {"torn", good[:33], 1}, {"unsorted", append(bytes.Clone(good), good...), 1}, {"version", append([]byte{9}, good[1:]...), 1},
		{"first behind last", bent, 1}, {"no marker there", good, 1}, // the log holds no transaction at all
	} {
		if c.content != nil {
			b.write(name(100, KindTxnIndex), c.content)
		}
		asked = 0
		s := b.opened(100)
		least, err := s.AbortedMin()
		b.ok(err)
		if asked != c.asked || c.asked == 1 && least != 101 {
			t.Errorf("%s: asked %d times, least %d", c.how, asked, least)
		}
		b.ok(s.Retire())
	}
	fsys := faultfs.New(b.mem, faultfs.Plan{Faults: []faultfs.Fault{{Kinds: []faultfs.Kind{faultfs.Map}, Match: func(op faultfs.Op) bool {
		return op.Name == "/d/"+name(100, KindTxnIndex)
	}}}})
	b.env.FS = fsys
	b.write(name(100, KindTxnIndex), good)
	if _, err := b.opened(100).Acquire(); !errors.Is(err, syscall.EIO) {
		t.Errorf("not readable: %v", err)
	}
	b.env.FS = b.mem
	b.ok(b.mem.Remove("/d/" + name(100, KindOffsetIndex)))
	b.ok(b.mem.Remove("/d/" + name(100, KindTxnIndex)))
	asked = 0
	s := b.opened(100)
	if least, err := s.AbortedMin(); err != nil || least != 101 || asked != 1 {
		t.Errorf("without any index: least %d, %v, asked %d times", least, err, asked)
	}
	if mended, err := s.Mend(); !mended || err != nil || !bytes.Equal(b.read(name(100, KindTxnIndex)), good) {
		t.Errorf("mended %v, %v", mended, err)
	}
}

// TestDamagedLogAndIndex: with both damaged, what lies before the damage is
// still found, and no index is written that hides the rest.
func TestDamagedLogAndIndex(t *testing.T) {
	b := newBed(t)
	batches := history(100, 200)
	b.ok(b.sealed(100, 300, batches).Retire())
	at := positions(batches)[120]
	b.overwrite(name(100, KindLog), at+8, []byte{0xff, 0xff, 0xff, 0xff}) // its length
	b.ok(b.mem.Remove("/d/" + name(100, KindOffsetIndex)))
	s := b.opened(100)
	h, err := s.Acquire()
	b.ok(err)
	if last, ok := h.Offsets.Last(); !ok || last.Pos >= at {
		t.Errorf("last entry %+v, damage at %d", last, at)
	}
	b.ok(h.Release())
	if mended, err := s.Mend(); mended || err != nil {
		t.Errorf("mended %v, %v", mended, err)
	}
}

// TestFilesLimit opens many segments from many readers under a small limit.
func TestFilesLimit(t *testing.T) {
	b := newBed(t)
	b.env.Files = NewFiles(3)
	var segments []*Segment
	for i := range 12 {
		batches := history(int64(i*1000), 20)
		b.ok(b.sealed(int64(i*1000), 100, batches).Retire())
	}
	for i := range 12 {
		segments = append(segments, b.opened(int64(i*1000)))
	}
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for range 300 {
				s := segments[r.IntN(len(segments))]
				h, err := s.Acquire()
				if err != nil {
					t.Error(err)
					return
				}
				var head [61]byte
				if _, err := h.File.ReadAt(head[:], 0); err != nil || h.Offsets.Len() == 0 {
					t.Errorf("%d entries, %v", h.Offsets.Len(), err)
				}
				if err := h.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := b.env.Files.Open(); n > 3 {
		t.Errorf("%d open", n)
	}
	h, err := segments[5].Acquire()
	b.ok(err)
	b.ok(segments[5].Retire())
	b.ok(Remove(b.env, segments[5]))
	if _, err := segments[5].Acquire(); !errors.Is(err, ErrGone) {
		t.Errorf("acquire of a retired segment: %v", err)
	}
	var head [61]byte
	if _, err := h.File.ReadAt(head[:], 0); err != nil {
		t.Errorf("a held segment is gone: %v", err)
	}
	b.ok(h.Release())
	if _, ok := files(t, b.mem)[fmt.Sprintf("%020d.log", 5000)]; ok {
		t.Error("the file is still there")
	}
}
