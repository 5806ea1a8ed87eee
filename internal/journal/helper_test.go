package journal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// item is one thing published.
type item struct {
	frame Frame
	data  []byte // of KindBytes
}

// world is a store with several logs on one journal, driven by one goroutine,
// and what must be true of it: items in the order of publishing.
type world struct {
	t       testing.TB
	r       *rand.Rand
	o       Options
	journal *Journal
	logs    []*fakeLog
	items   []item
	acked   int // items below this are promised
	freed   int // items below this may be gone
	half    int // items below this are in the closed half or freed
	current int // Journal.current as last seen
	frees   bool
}

// fakeLog is a member with memory.
type fakeLog struct {
	w       *world
	handle  *Handle
	key     Key
	segment int64
	memory  map[int64][]byte // by segment; never moved while pieces are out
	next    int64
	durable int64
	failed  error
}

func newWorld(t testing.TB, r *rand.Rand, o Options) *world {
	return &world{t: t, r: r, o: o}
}

func (w *world) start(logs int) {
	w.t.Helper()
	j, err := Start(w.o)
	must(w.t, err)
	w.journal = j
	for i := range logs {
		l := &fakeLog{w: w, key: Key{Topic: [16]byte{1, byte(i)}, Partition: int32(i)}, memory: map[int64][]byte{}}
		l.handle = j.Join(l.key.Topic, l.key.Partition, l)
		w.logs = append(w.logs, l)
	}
}

func (l *fakeLog) Pieces(dst [][]byte, segment, from, to int64) [][]byte {
	b := l.memory[segment][from:to]
	// In pieces, as chunks give them.
	for len(b) > 0 {
		n := len(b)
		if l.w != nil && l.w.r != nil {
			n = 1 + l.w.r.IntN(n)
		}
		dst = append(dst, b[:n:n])
		b = b[n:]
	}
	return dst
}

func (l *fakeLog) Durable(_, _, next int64) {
	l.durable = next
	l.w.watch()
	for i := len(l.w.items) - 1; i >= 0; i-- {
		f := &l.w.items[i].frame
		if f.Key() == l.key && f.Kind != KindTruncation && f.Next <= next {
			l.w.acked = max(l.w.acked, i+1)
			break
		}
	}
}

func (l *fakeLog) Fail(err error) {
	if l.failed != nil {
		l.w.t.Errorf("told twice: %v, %v", l.failed, err)
	}
	l.failed = err
}

// frame begins the next item of the log.
func (l *fakeLog) frame(kind Kind, size, offsets int) Frame {
	return Frame{
		Topic: l.key.Topic, Partition: l.key.Partition, Kind: kind, Segment: l.segment,
		Pos: int64(len(l.memory[l.segment])), Length: int64(size), First: l.next, Next: l.next + int64(offsets),
	}
}

func (l *fakeLog) publish(size, offsets int) {
	f := l.frame(KindBytes, size, offsets)
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(l.w.r.Uint32())
	}
	l.memory[l.segment] = append(l.memory[l.segment], b...)
	l.next = f.Next
	l.w.items = append(l.w.items, item{f, b})
	l.handle.Publish(f.Segment, f.Pos, f.Pos+f.Length, f.First, f.Next)
}

func (l *fakeLog) publishLarge(size, offsets int) {
	f := l.frame(KindReference, size, offsets)
	f.CRC = l.w.r.Uint32()
	l.memory[l.segment] = append(l.memory[l.segment], make([]byte, size)...)
	l.next = f.Next
	l.w.items = append(l.w.items, item{frame: f})
	l.handle.PublishLarge(f.Segment, f.Pos, f.Length, f.First, f.Next, f.CRC)
}

// roll begins another segment.
func (l *fakeLog) roll() {
	if l.next > l.segment {
		l.segment = l.next
	}
}

// truncate goes back to where one of the log's items begins.
func (l *fakeLog) truncate() error {
	var starts []Frame
	for i := len(l.w.items) - 1; i >= 0 && len(starts) < 4; i-- {
		f := l.w.items[i].frame
		if f.Key() != l.key {
			continue
		}
		if f.Kind == KindTruncation {
			break
		}
		starts = append(starts, f)
	}
	if len(starts) == 0 {
		return nil
	}
	f := starts[l.w.r.IntN(len(starts))]
	l.forget(func(g *Frame) bool { return g.First >= f.First && g.Kind != KindTruncation })
	l.w.items = append(l.w.items, item{frame: Frame{
		Topic: l.key.Topic, Partition: l.key.Partition, Kind: KindTruncation,
		Segment: f.Segment, Pos: f.Pos, First: f.First, Next: f.First,
	}})
	ticket := len(l.w.items)
	l.segment, l.next = f.Segment, f.First
	maps.DeleteFunc(l.memory, func(segment int64, _ []byte) bool { return segment > f.Segment })
	l.memory[f.Segment] = append([]byte(nil), l.memory[f.Segment][:f.Pos]...)
	err := l.handle.Truncate(f.First, f.Segment, f.Pos)
	l.w.watch() // its run may be the first of a half
	if err == nil {
		l.w.acked = max(l.w.acked, ticket)
	}
	return err
}

// forget drops items of the log that no flush took.
func (l *fakeLog) forget(which func(*Frame) bool) {
	w := l.w
	kept := w.items[:w.acked:w.acked]
	for _, it := range w.items[w.acked:] {
		if it.frame.Key() != l.key || !which(&it.frame) {
			kept = append(kept, it)
		}
	}
	w.items = kept
}

// watch notices that runs go into another half than before.
func (w *world) watch() {
	if c := w.journal.current; c != w.current {
		w.current, w.half = c, w.acked
	}
}

// free does what a checkpoint does with the closed half.
func (w *world) free() {
	w.watch()
	if _, mark, ok := w.journal.Due(); ok {
		w.freed = w.half // before it is sure: from now on they may be gone
		_ = w.journal.Free(mark)
	}
}

// closeHalf is CloseHalf.
func (w *world) closeHalf() {
	w.journal.CloseHalf()
	w.watch()
}

// verify holds contents against the promise: a piece of the history that
// begins where nothing was freed yet, and ends at or behind what is promised.
func (w *world) verify(c *Contents) error {
	if len(c.Frames) == 0 {
		if w.freed < w.acked {
			return fmt.Errorf("nothing survives, %d to %d were promised", w.freed, w.acked)
		}
		return nil
	}
	err := fmt.Errorf("the first frame %+v is not an item at or before %d", c.Frames[0], w.freed)
	for from := range min(w.acked+1, len(w.items)) { // equal truncations may be in the way
		if _, matchErr := w.match(c, c.Frames[0], from); matchErr == nil {
			fromErr := w.verifyFrom(c, from)
			if fromErr == nil {
				return nil
			}
			err = errors.Join(err, fmt.Errorf("from item %d: %w", from, fromErr))
		}
	}
	return err
}

// verifyFrom is verify for contents that begin with this item.
func (w *world) verifyFrom(c *Contents, from int) error {
	for _, it := range w.items[min(w.freed, from):from] {
		if it.frame.Kind != KindTruncation { // of these alone nobody hears when they are durable
			return fmt.Errorf("survivors begin with item %d, only %d were freed", from, w.freed)
		}
	}
	at := from
	for i, f := range c.Frames {
		n, err := w.match(c, f, at)
		if err != nil {
			return fmt.Errorf("frame %d (%v of %v): %w", i, f.Kind, f.Key(), err)
		}
		at += n
	}
	if at < w.acked {
		return fmt.Errorf("%d items survive, %d were promised", at, w.acked)
	}
	return verifyFold(c, w.items[from:at])
}

// verifyFold holds Fold against the obvious: batch by batch.
func verifyFold(c *Contents, items []item) error {
	folded, err := c.Fold()
	if err != nil {
		return err
	}
	want := map[Key][]Frame{}
	low := map[Key]int64{}
	for _, it := range items {
		f, k := it.frame, it.frame.Key()
		if f.Kind != KindTruncation {
			want[k] = append(want[k], f)
			continue
		}
		want[k] = slices.DeleteFunc(want[k], func(g Frame) bool { return g.First >= f.First })
		if l, ok := low[k]; !ok || f.First < l {
			low[k] = f.First
		}
	}
	for k, p := range folded {
		truncated, ok := low[k]
		if !ok {
			truncated = -1
		}
		if p.TruncatedTo != truncated {
			return fmt.Errorf("%v truncated to %d, want %d", k, p.TruncatedTo, truncated)
		}
		rest := want[k]
		for _, f := range p.Frames {
			var length int64
			next := f.First
			for length < f.Length && len(rest) > 0 && rest[0].First == next && rest[0].Pos == f.Pos+length {
				length, next, rest = length+rest[0].Length, rest[0].Next, rest[1:]
			}
			if length != f.Length || next != f.Next {
				return fmt.Errorf("folded frame %+v is not of whole batches", f)
			}
		}
		if len(rest) > 0 {
			return fmt.Errorf("%v: %d batches are not in the folded frames", k, len(rest))
		}
	}
	return nil
}

// match tells how many items from at on the frame stands for.
func (w *world) match(c *Contents, f Frame, at int) (int, error) {
	if at >= len(w.items) {
		return 0, errors.New("more than was published")
	}
	data := make([]byte, f.carried())
	if n, err := c.ReadFrame(f, data, 0); n != len(data) {
		return 0, fmt.Errorf("%d of %d bytes: %w", n, len(data), err)
	}
	n := 0
	g := w.items[at].frame
	g.at = f.at
	var want []byte
	for {
		want = append(want, w.items[at+n].data...)
		n++
		if f.Kind != KindBytes || g.Next >= f.Next || at+n >= len(w.items) {
			break
		}
		more := w.items[at+n].frame
		if more.Key() != g.Key() || more.Kind != KindBytes {
			break
		}
		g.Next = more.Next
		g.Length += more.Length
	}
	if f != g {
		return 0, fmt.Errorf("is %+v, want %+v", f, g)
	}
	if !bytes.Equal(data, want) {
		return 0, errors.New("other bytes")
	}
	return n, nil
}

// read is Read, for contents that are there.
func read(t testing.TB, fsys vfs.FS) *Contents {
	t.Helper()
	c, err := Read(fsys, ".")
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
