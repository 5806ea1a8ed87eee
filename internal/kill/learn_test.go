package kill

import (
	"fmt"

	"github.com/oncelog/oncelog"
)

// deleted tells whether a batch that the last child sent was in the log and is
// below the log start now. What may be deleted was safe.
func (k *known) deleted(r *round, found *content, who name) bool {
	base, ok := r.base[who]
	w := &k.scene.writers[who.writer]
	return ok && places[w.at(who.n)].topic.kept && base+int64(w.records) <= found.start
}

// closure: at level fsync, with the journal, nothing survives without all that
// was published before it was sent, in any partition. What is recorded first
// happened first: a batch is recorded before it is sent, and after it was
// published.
func (k *known) closure(r *round, found []content) error {
	var lost name
	var lostAt int
	for who, at := range r.published {
		p := k.scene.writers[who.writer].at(who.n)
		if k.takesPart(who) && !r.survivors[who] && !k.deleted(r, &found[p], who) && (lostAt == 0 || at < lostAt) {
			lost, lostAt = who, at
		}
	}
	if lostAt == 0 { // the first record is never of a publication
		return nil
	}
	for who := range r.survivors {
		if k.takesPart(who) && r.sent[who] > lostAt {
			return fmt.Errorf("batch %d of writer %d survived in %v; it was sent after batch %d of writer %d was published in %v, which is lost",
				who.n, who.writer, k.placeOf(who), lost.n, lost.writer, k.placeOf(lost))
		}
	}
	return nil
}

func (k *known) placeOf(who name) *place { return &places[k.scene.writers[who.writer].at(who.n)] }

func (k *known) takesPart(who name) bool {
	return k.placeOf(who).topic.level == oncelog.DurabilityFsync
}

// learn adds a look that was found right, and counts what happened.
func (k *known) learn(found []content, r *round) {
	for i := range found {
		k.tally.deleted += max(found[i].start-k.seen[i].start, 0)
	}
	k.seen = found
	answered := map[name]bool{}
	for _, a := range r.acked {
		answered[name{a.writer, a.n}] = true
	}
	k.tally.acked += len(r.acked)
	for who := range r.sent {
		at := k.scene.writers[who.writer].at(who.n)
		switch _, known := r.published[who]; {
		case r.survivors[who] && !answered[who]:
			k.tally.unanswered++
		case r.survivors[who] || r.gone[who] || k.deleted(r, &found[at], who):
		case known:
			k.tally.unordered++
			k.tally.lost++
		default:
			k.tally.lost++
		}
		if base, ok := r.base[who]; ok && k.deleted(r, &found[at], who) {
			k.add(who, at, base)
		} else if r.gone[who] {
			k.add(who, at, -1)
		}
	}
	for at := range found {
		for _, h := range found[at].batches {
			who := name{h.writer, h.n}
			k.add(who, at, h.base)
			if r.survivors[who] {
				k.tally.bytes += int64(h.size)
				switch {
				case h.size > largeBytes:
					k.tally.large++
				case h.size <= smallBytes && places[at].topic.level == oncelog.DurabilityFsync:
					k.tally.journaled += int64(h.size)
				}
			}
		}
	}
}

// add notes the last batch of a stream.
func (k *known) add(who name, at int, base int64) {
	s, ok := k.streams[stream{who.writer, at}]
	if !ok || who.n > s.n {
		k.streams[stream{who.writer, at}] = stored{who.n, base}
	}
}
