package kill

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/batch"
)

// known is all that is known of a life so far, from outside: what was seen at
// the last look, which nothing may take back, and what was acknowledged.
type known struct {
	scene   *scene
	created bool      // the topics are there
	seen    []content // by place
	streams map[stream]stored
	tally   tally
}

// stream are the batches of one writer in one partition.
type stream struct{ writer, at int }

// stored is the last batch of a stream. Its offset is −1 if the records were
// deleted before anybody heard of it.
type stored struct {
	n    int
	base int64
}

// tally is what happened, to be shown, and to see that all of it did.
type tally struct {
	acked      int // appends that were acknowledged
	unanswered int // appends that were not, and survived
	lost       int // that did not
	unordered  int // published before the kill, and lost
	large      int // batches of more than 256 KiB that survived
	deleted    int64
	bytes      int64 // of the batches that survived
	journaled  int64 // of those, of level fsync, and small enough for any journal
}

// What is large for the largest journal, and what is small for the smallest.
const (
	largeBytes = 256 << 10
	smallBytes = 4 << 10
)

func newKnown(s *scene) *known {
	return &known{scene: s, seen: make([]content, len(places)), streams: map[stream]stored{}}
}

// look is one look at a directory.
type look struct {
	found   []content
	records []record // of the child that was killed before it
	// ordered says that the child worked with the journal: nothing at level fsync
	// may survive without what was published before it began.
	ordered bool
}

// judge holds a look against what is known, and adds it to that.
func (k *known) judge(l look) error {
	var errs []error
	r := newRound(l.records)
	for i := range places {
		j := &judgement{known: k, round: r, at: i, place: &places[i], before: &k.seen[i], found: &l.found[i]}
		j.partition()
		errs = append(errs, j.errs...)
	}
	if l.ordered {
		errs = append(errs, k.closure(r, l.found))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	k.learn(l.found, r)
	return nil
}

// name is a batch.
type name struct{ writer, n int }

// round is what the records of one child say.
type round struct {
	sent      map[name]int   // when it was sent: the place of its record
	published map[name]int   // when it was in the log, where the append does not wait
	base      map[name]int64 // of what was published or acknowledged
	acked     []record
	gone      map[name]bool
	deletions map[int]int64 // begun, the greatest offset by place
	starts    map[int]int64 // done
	survivors map[name]bool // of sent; the judgements fill it in
}

func newRound(records []record) *round {
	r := &round{
		sent: map[name]int{}, published: map[name]int{}, base: map[name]int64{}, gone: map[name]bool{},
		deletions: map[int]int64{}, starts: map[int]int64{}, survivors: map[name]bool{},
	}
	for i, rec := range records {
		who := name{rec.writer, rec.n}
		switch rec.kind {
		case sends:
			r.sent[who] = i
		case published:
			r.published[who], r.base[who] = i, rec.base
		case acked:
			r.acked, r.base[who] = append(r.acked, rec), rec.base
		case knownGone:
			r.gone[who] = true
		case deletes:
			r.deletions[rec.writer] = max(r.deletions[rec.writer], int64(rec.n))
		case deleted:
			r.starts[rec.writer] = max(r.starts[rec.writer], int64(rec.n))
		}
	}
	return r
}

// judgement is of one partition.
type judgement struct {
	*known
	*round
	at     int
	place  *place
	before *content
	found  *content
	errs   []error
}

func (j *judgement) fail(format string, args ...any) {
	j.errs = append(j.errs, fmt.Errorf("%v: "+format, append([]any{j.place.TopicPartition}, args...)...))
}

func (j *judgement) partition() {
	c := j.found
	if c.missing && j.created {
		j.fail("the partition is gone")
		return
	}
	if c.high != c.published || c.end != c.published {
		j.fail("read up to %d, high watermark %d, log end %d: want all equal after an opening", c.end, c.high, c.published)
	}
	j.offsets()
	j.newer(j.older())
	j.logStart()
	j.acknowledged()
}

// offsets: every offset is there once.
func (j *judgement) offsets() {
	c := j.found
	if len(c.batches) == 0 {
		if c.start != c.end {
			j.fail("no batch from %d to %d", c.start, c.end)
		}
		return
	}
	if first := c.batches[0]; first.base > c.start || first.next <= c.start {
		j.fail("the log start is %d, the first batch has %d to %d", c.start, first.base, first.next-1)
	}
	for i, h := range c.batches[1:] {
		if before := c.batches[i]; h.base != before.next {
			j.fail("behind offset %d follows %d", before.next-1, h.base)
		}
	}
}

// logStart moves where records are deleted, and only forward.
func (j *judgement) logStart() {
	start, least := j.found.start, max(j.before.start, j.starts[j.at])
	switch {
	case start < least:
		j.fail("the log start is %d, and was at %d", start, least)
	case start > j.found.end:
		j.fail("the log start %d is behind the end %d", start, j.found.end)
	case !j.place.topic.kept && start > 0:
		j.fail("the log start is %d, but nothing is deleted here", start)
	case start > max(least, j.deletions[j.at]):
		// Retention did that. It left so much, of which some may have been lost since.
		kept := int64(0)
		for _, h := range j.found.batches {
			kept += int64(h.size)
		}
		for who := range j.sent {
			if j.scene.writers[who.writer].at(who.n) == j.at && !j.survivors[who] {
				kept += j.size(who)
			}
		}
		if kept < keptSegments*j.scene.segmentBytes {
			j.fail("the log start is %d, nobody deleted up to there, and retention left only %d bytes", start, kept)
		}
	}
}

func (j *judgement) size(who name) int64 {
	b, err := j.scene.build(new(batch.Builder), nil, &j.scene.writers[who.writer], who.n)
	if err != nil {
		j.fail("%v", err)
	}
	return int64(len(b))
}

// older: what was seen before is there, and comes first. The rest is new.
func (j *judgement) older() (added []held) {
	before := j.before.batches
	for len(before) > 0 && before[0].next <= j.found.start {
		before = before[1:]
	}
	for i, h := range before {
		if i >= len(j.found.batches) || j.found.batches[i] != h {
			got := "nothing"
			if i < len(j.found.batches) {
				got = fmt.Sprintf("%+v", j.found.batches[i])
			}
			j.fail("%+v was seen here before, now there is %s", h, got)
			return nil
		}
	}
	return j.found.batches[len(before):]
}

// newer: what is new was sent, is as it was sent, and follows what its producer
// sent before.
func (j *judgement) newer(added []held) {
	var builder batch.Builder
	var buffer []byte
	last := map[int]int{} // by writer
	for _, h := range added {
		who, w := name{h.writer, h.n}, &j.scene.writers[h.writer]
		if _, ok := j.sent[who]; !ok {
			j.fail("%+v was not sent by the last child", h)
			continue
		}
		j.survivors[who] = true
		b, err := j.scene.build(&builder, buffer[:0], w, h.n)
		if err != nil {
			j.fail("%v", err)
			return
		}
		buffer = b
		if len(b) != h.size || sumOf(b) != h.sum || h.next-h.base != int64(w.records) {
			j.fail("%+v is not what was sent", h)
		}
		if base, ok := j.base[who]; ok && base != h.base {
			j.fail("%+v was answered with offset %d", h, base)
		}
		before, ok := last[h.writer]
		if !ok {
			before = j.lastBefore(h)
		}
		last[h.writer] = h.n
		if h.n != before+len(w.route) {
			j.fail("%+v follows batch %d of its producer", h, before)
		}
	}
}

// lastBefore is which batch of its stream comes before the first new one.
func (j *judgement) lastBefore(h held) int {
	w := &j.scene.writers[h.writer]
	before := name{h.writer, h.n - len(w.route)}
	if j.gone[before] || j.known.deleted(j.round, j.found, before) {
		return before.n
	}
	if s, ok := j.streams[stream{h.writer, j.at}]; ok {
		return s.n
	}
	return slices.Index(w.route, j.at) - len(w.route)
}

// acknowledged: what was answered is where the answer says.
func (j *judgement) acknowledged() {
	at := map[int64]held{}
	for _, h := range j.found.batches {
		at[h.base] = h
	}
	for _, a := range j.acked {
		w := &j.scene.writers[a.writer]
		if w.at(a.n) != j.at || j.known.deleted(j.round, j.found, name{a.writer, a.n}) {
			continue
		}
		if h, ok := at[a.base]; !ok || h.writer != a.writer || h.n != a.n {
			j.fail("batch %d of writer %d was acknowledged at offset %d, there is %+v (log end %d)", a.n, a.writer, a.base, h, j.found.end)
		}
	}
	for who := range j.gone {
		if j.scene.writers[who.writer].at(who.n) == j.at && !j.place.topic.kept {
			j.fail("batch %d of writer %d was refused as stored before, and never seen", who.n, who.writer)
		}
	}
}
