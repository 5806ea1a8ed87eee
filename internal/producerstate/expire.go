package producerstate

import "math"

// Expire forgets the producers that were last seen olderThan ms ago or
// earlier, and verifications of that age, and returns how many producers it
// forgot. One with an open transaction is never forgotten. O(expired). now is
// the log's clock in ms.
//
// With very many to forget, ExpireSome in a loop lets the caller give up its
// lock in between.
func (t *Table) Expire(now, olderThan int64) int {
	return t.ExpireSome(now, olderThan, math.MaxInt)
}

// ExpireSome is Expire for at most n producers and n verifications: when n come
// back, there may be more.
func (t *Table) ExpireSome(now, olderThan int64, n int) int {
	t.guards.expire(now, olderThan, n)
	expired := t.expireList(&t.plain, now, olderThan, n)
	return expired + t.expireList(&t.transactional, now, olderThan, n-expired)
}

// expireList goes from the idlest on. The list is in the order of touches, so
// it is in the order of times unless the clock has gone back. An entry seen
// "in the future" then counts as seen now: it is not kept for the length of
// the jump, and does not hold up those behind it.
func (t *Table) expireList(l *list, now, olderThan int64, n int) int {
	expired := 0
	for looked := 0; l.head != 0 && looked < n; looked++ {
		e := t.entries.at(l.head)
		switch {
		case e.seen > now:
			e.seen = now
			t.touch(l.head)
		case now-e.seen >= olderThan:
			t.remove(l.head)
			expired++
		default:
			return expired
		}
	}
	return expired
}
