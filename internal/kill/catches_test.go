package kill

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// TestJudgeCatches: a judge is worth what it catches. Of a look at which nothing
// is wrong, one thing is made wrong.
func TestJudgeCatches(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(k *known, l *look)
		want  string // in the complaint; "": none
	}{
		{"nothing", func(*known, *look) {}, ""},
		{"unanswered, lost", func(_ *known, l *look) { l.drop(0, 1) }, ""},
		{"on the direct path", func(_ *known, l *look) { l.drop(1, 1); l.ordered = false }, ""},
		{"an acknowledged batch is lost", func(_ *known, l *look) { l.drop(0, 2) }, "was acknowledged at offset"},
		{"what was seen is lost", func(_ *known, l *look) { l.drop(0, 4) }, "was seen here before"},
		{"what was seen is another", func(_ *known, l *look) { l.found[0].batches[0].sum++ }, "was seen here before"},
		{"another content", func(_ *known, l *look) { l.found[0].batches[3].sum++ }, "is not what was sent"},
		{"never sent", func(_ *known, l *look) { l.records = l.records[:0] }, "was not sent by the last child"},
		{"at another offset than answered", func(_ *known, l *look) {
			i := slices.IndexFunc(l.records, func(r record) bool { return r.kind == acked })
			l.records[i].base++
		}, "was answered with offset"},
		{"stored twice", func(_ *known, l *look) {
			c := &l.found[0]
			again := c.batches[3]
			again.base, again.next = c.end, c.end+again.next-again.base
			c.batches = append(c.batches, again)
			c.end, c.high, c.published = again.next, again.next, again.next
		}, "follows batch"},
		{"a hole in a producer's batches", func(_ *known, l *look) {
			c := &l.found[0]
			gone := c.batches[3]
			c.batches = slices.Delete(c.batches, 3, 4)
			c.batches[3].base, c.batches[3].next = gone.base, gone.next
			l.drop(0, 0)
		}, "follows batch"},
		{"a hole in the offsets", func(_ *known, l *look) { l.found[0].batches = slices.Delete(l.found[0].batches, 3, 4) }, "behind offset"},
		{"high watermark below the end", func(_ *known, l *look) { l.found[0].high-- }, "want all equal"},
		{"the start moved", func(_ *known, l *look) {
			l.found[0].start = l.found[0].batches[1].base
			l.found[0].batches = l.found[0].batches[1:]
		}, "nothing is deleted here"},
		{"the topic is gone", func(k *known, l *look) { k.created, l.found[0] = true, content{missing: true} }, "is gone"},
		{"published before, lost", func(_ *known, l *look) { l.drop(1, 1) }, "which is lost"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			k, l := soundLook(t)
			c.spoil(k, l)
			err := k.judge(*l)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// soundLook is a life with two writers: of place 0, where two batches were seen
// before, two came and were acknowledged, and one came that was not; and of place
// 1, where one was published before that.
func soundLook(t *testing.T) (*known, *look) {
	t.Helper()
	s := &scene{seed: 1, segmentBytes: 1 << 20, writers: []writer{{id: 0, route: []int{0}, records: 2}, {id: 1, route: []int{1}, records: 3, burst: 10}}}
	k := newKnown(s)
	first := &look{found: make([]content, len(places))}
	for n := range 2 {
		first.sent(t, s, n)
		first.answer(acked, 0, n, int64(2*n))
	}
	if err := k.judge(*first); err != nil {
		t.Fatal(err)
	}
	l := &look{found: slices.Clone(k.seen), ordered: true}
	for n := 2; n < 4; n++ {
		l.sent(t, s, n)
		l.answer(acked, 0, n, int64(2*n))
	}
	b := l.build(t, s, 1, 0)
	l.add(1, b)
	l.answer(sends, 1, 0, 0)
	l.answer(published, 1, 0, 0)
	l.sent(t, s, 4)
	return k, l
}

// sent has writer 0 send its n-th batch, which survives.
func (l *look) sent(t *testing.T, s *scene, n int) {
	t.Helper()
	l.answer(sends, 0, n, 0)
	l.add(0, l.build(t, s, 0, n))
}

func (l *look) answer(kind byte, writer, n int, base int64) {
	l.records = append(l.records, record{kind, writer, n, base})
}

func (l *look) build(t *testing.T, s *scene, writer, n int) held {
	t.Helper()
	b, err := s.build(new(batch.Builder), nil, &s.writers[writer], n)
	if err != nil {
		t.Fatal(err)
	}
	return held{writer: writer, n: n, next: int64(b.RecordCount()), sum: sumOf(b), size: len(b)}
}

// add puts a batch at the end of a place.
func (l *look) add(at int, h held) {
	c := &l.found[at]
	h.base, h.next = c.end, c.end+h.next
	c.batches = append(slices.Clone(c.batches), h)
	c.end, c.high, c.published = h.next, h.next, h.next
}

// drop takes the last batches of a place away.
func (l *look) drop(at, n int) {
	c := &l.found[at]
	c.batches = slices.Clone(c.batches[:len(c.batches)-n])
	c.end = c.start
	if k := len(c.batches); k > 0 {
		c.end = c.batches[k-1].next
	}
	c.high, c.published = c.end, c.end
}
