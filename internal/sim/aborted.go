package sim

import (
	"github.com/oncelog/oncelog/index"
)

// sameAborted compares aborted transactions of [from, upper) with those of the
// fold. Of what began below the log start an index that was made again from
// what is left cannot know where: then it may name the first batch that is left
// of it, or leave a transaction out of which nothing is left.
func (p *partition) sameAborted(found []index.AbortedTxn, from, upper, start int64) bool {
	for _, want := range p.state.aborted(from, upper) {
		left, any := p.firstLeft(want.ProducerID, want.First, want.Last, start)
		if len(found) == 0 || found[0].Last != want.Last || found[0].ProducerID != want.ProducerID {
			if any && left < upper {
				return false
			}
			continue
		}
		got := found[0]
		found = found[1:]
		if got.First < want.First || got.First > want.First && (want.First >= start || any && got.First > left) {
			return false
		}
		if got.LastStable == want.LastStable {
			continue
		}
		if want.LastStable >= start || got.LastStable < want.LastStable || got.LastStable > p.stableLeft(want, start) {
			return false
		}
	}
	return len(found) == 0
}

// firstLeft is the first batch of a transaction that is not below the log
// start.
func (p *partition) firstLeft(producer, first, marker, start int64) (int64, bool) {
	for i := p.index(max(first, start)); i < len(p.log) && p.log[i].header.BaseOffset < marker; i++ {
		if p.log[i].header.Producer.ID == producer {
			return p.log[i].header.BaseOffset, true
		}
	}
	return 0, false
}

// stableLeft is the least that is left of what was open when a transaction
// ended.
func (p *partition) stableLeft(ended index.AbortedTxn, start int64) int64 {
	least := ended.Last + 1
	for _, o := range p.state.transactions {
		if o.first >= ended.Last || o.first == ended.First || o.marker >= 0 && o.marker < ended.Last {
			continue
		}
		if left, any := p.firstLeft(o.producer, o.first, ended.Last, start); any {
			least = min(least, left)
		}
	}
	return least
}
