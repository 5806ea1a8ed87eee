package groupoffsets

import (
	"cmp"
	"maps"
	"slices"

	"github.com/oncelog/oncelog/batch"
)

// value is an offset as a record says it.
type value struct {
	offset      int64
	commitMs    int64
	expireMs    int64 // batch.None: by the retention of groups
	record      int64 // log offset of the record
	metadata    string
	leaderEpoch int32 // batch.None: not known
}

// none is what was never committed.
var none = value{offset: batch.None, commitMs: batch.None, expireMs: batch.None, record: batch.None, leaderEpoch: batch.None}

// set takes over what a record says. A text that stays the same stays in memory.
func (v *value) set(f *fields, record int64) {
	v.offset, v.leaderEpoch, v.commitMs, v.expireMs, v.record = f.offset, f.leaderEpoch, f.commitMs, f.expireMs, record
	if v.metadata != string(f.metadata) {
		v.metadata = string(f.metadata)
	}
}

// entry is what is known of one partition for one group.
type entry struct {
	topic     *topicEntries
	partition int32
	// Invariant: an entry of the fold is committed or pending.
	committed value
	pending   *pending // those of all producers, linked
}

func (e *entry) isCommitted() bool { return e.committed.record >= 0 }
func (e *entry) isLive() bool      { return e.isCommitted() || e.pending != nil }

// pendingOf is what one producer has pending here, nil if nothing.
func (e *entry) pendingOf(o *open) *pending {
	for p := e.pending; p != nil; p = p.next {
		if p.of == o {
			return p
		}
	}
	return nil
}

// pending is an offset in an open transaction.
type pending struct {
	value
	entry *entry
	next  *pending // of the entry
	of    *open
	at    int // in the list of it
}

// open is an open transaction.
type open struct {
	producer int64
	list     []*pending
	groups   map[*groupState]struct{} // that it has written to, though nothing may be pending there any more
}

// topicEntries are the partitions of a topic that a group has offsets for.
type topicEntries struct {
	group   *groupState
	name    string
	entries []*entry // by partition
}

func (t *topicEntries) find(partition int32) (int, bool) {
	n := len(t.entries)
	if n > 0 && t.entries[n-1].partition < partition { // they mostly come in order
		return n, false
	}
	return slices.BinarySearchFunc(t.entries, partition, func(e *entry, p int32) int { return cmp.Compare(e.partition, p) })
}

// groupState is what is known of one group.
type groupState struct {
	name     string
	topics   map[string]*topicEntries
	open     int // transactions
	classic  *classicFields
	consumer bool                // a group of KIP-848
	members  map[string]struct{} // of such a group; nil: none
}

// membersUnknown stands for the members of a group whose record cannot be read.
const membersUnknown = -1

// membersRecorded is how many members records tell of, or membersUnknown.
func (g *groupState) membersRecorded() int {
	if g.classic != nil && g.classic.members == membersUnknown {
		return membersUnknown
	}
	n := len(g.members)
	if g.classic != nil {
		n += g.classic.members
	}
	return n
}

func (g *groupState) isKnown() bool {
	return len(g.topics) > 0 || g.open > 0 || g.classic != nil || g.consumer || len(g.members) > 0
}

// entry finds a partition; nil if there is none.
func (g *groupState) entry(topic string, partition int32) *entry {
	t := g.topics[topic]
	if t == nil {
		return nil
	}
	if i, found := t.find(partition); found {
		return t.entries[i]
	}
	return nil
}

// sorted are the topics, by name.
func (g *groupState) sorted() []*topicEntries {
	return slices.SortedFunc(maps.Values(g.topics), func(a, b *topicEntries) int { return cmp.Compare(a.name, b.name) })
}
