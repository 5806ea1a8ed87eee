package groupoffsets

import (
	"fmt"
	"slices"
	"unique"

	"github.com/oncelog/oncelog/batch"
)

// fold is what the records of one partition amount to, up to an offset. Pure: it
// changes in batch alone, live and in replay.
type fold struct {
	groups  map[string]*groupState
	open    map[int64]*open // by producer id
	offsets int             // committed
	pending int

	records      batch.Records
	freePendings []*pending
	freeOpens    []*open
}

// freeMax bounds what is kept to be used again.
const freeMax = 1024

func (f *fold) reset() {
	records := f.records.Limit
	f.records.Close()
	*f = fold{groups: map[string]*groupState{}, open: map[int64]*open{}}
	f.records.Limit = records
}

// recordError is what is wrong with a record.
type recordError struct {
	offset int64
	err    error
}

func (e *recordError) Error() string { return fmt.Sprintf("offset %d: %v", e.offset, e.err) }
func (e *recordError) Unwrap() error { return e.err }

// batch takes one batch in, but nothing below from. After an error it may be half
// in; to begin with it again does no harm. The error is a *recordError.
func (f *fold) batch(b batch.Batch, from int64) error {
	if b.IsControl() {
		m, ok, err := batch.ReadMarker(b)
		if err != nil {
			return &recordError{b.BaseOffset(), err}
		}
		if ok && b.LastOffset() >= from {
			f.end(m.Producer.ID, m.Commit)
		}
		return nil
	}
	producer, next := b.ProducerID(), b.BaseOffset()
	for f.records.Reset(b); f.records.Next(); {
		r := f.records.Record()
		if next = r.Offset + 1; r.Offset < from {
			continue
		}
		if err := f.record(producer, r); err != nil {
			return &recordError{r.Offset, err}
		}
	}
	if err := f.records.Err(); err != nil {
		return &recordError{next, err}
	}
	return nil
}

func (f *fold) record(producer int64, r *batch.Record) error {
	k, known, err := readKey(r.Key)
	if err != nil || !known {
		return err
	}
	switch {
	case k.isOffset() && r.Value == nil:
		f.forget(&k)
	case k.isOffset():
		v, err := readValue(r.Value)
		if err != nil {
			return err
		}
		f.take(&k, producer, &v, r.Offset)
	default:
		f.about(&k, r.Value)
	}
	return nil
}

// take takes in an offset: committed, or pending if it is a producer's.
func (f *fold) take(k *key, producer int64, v *fields, record int64) {
	e := f.entry(k)
	if producer < 0 {
		f.commit(e).set(v, record)
		return
	}
	o := f.opened(producer)
	g := e.topic.group
	if _, there := o.groups[g]; !there {
		o.groups[g] = struct{}{}
		g.open++
	}
	p := e.pendingOf(o)
	if p == nil {
		p = f.newPending()
		p.entry, p.of, p.next, p.at = e, o, e.pending, len(o.list)
		p.metadata = e.committed.metadata // which set keeps if it is the same
		e.pending = p
		o.list = append(o.list, p)
		f.pending++
	}
	p.set(v, record)
}

// commit is the committed offset of an entry, to be changed.
func (f *fold) commit(e *entry) *value {
	if !e.isCommitted() {
		f.offsets++
	}
	return &e.committed
}

// forget takes away what is committed and pending of a partition, if anything is.
func (f *fold) forget(k *key) {
	g := f.groups[string(k.group)]
	if g == nil {
		return
	}
	t := g.topics[string(k.topic)]
	if t == nil {
		return
	}
	i, found := t.find(k.partition)
	if !found {
		return
	}
	e := t.entries[i]
	for e.pending != nil {
		f.unstage(e.pending)
	}
	if e.isCommitted() {
		e.committed = none
		f.offsets--
	}
	f.drop(e)
}

// end ends the transaction of a producer.
func (f *fold) end(producer int64, commit bool) {
	o := f.open[producer]
	if o == nil {
		return
	}
	for len(o.list) > 0 {
		p := o.list[len(o.list)-1]
		e := p.entry
		if commit && p.record > e.committed.record {
			*f.commit(e) = p.value
		}
		f.unstage(p)
		f.drop(e)
	}
	delete(f.open, producer)
	for g := range o.groups {
		g.open--
		f.dropGroup(g)
	}
	clear(o.groups)
	if len(f.freeOpens) < freeMax && cap(o.list) <= freeMax {
		f.freeOpens = append(f.freeOpens, o)
	}
}

// unstage takes a pending offset out of its entry and its transaction.
func (f *fold) unstage(p *pending) {
	at := &p.entry.pending
	for *at != p {
		at = &(*at).next
	}
	*at = p.next
	list := p.of.list
	last := list[len(list)-1]
	list[p.at], last.at = last, p.at
	list[len(list)-1] = nil
	p.of.list = list[:len(list)-1]
	f.pending--
	*p = pending{}
	if len(f.freePendings) < freeMax {
		f.freePendings = append(f.freePendings, p)
	}
}

// about takes in a record about a group as a whole or its members.
func (f *fold) about(k *key, v []byte) {
	g := f.groups[string(k.group)]
	if g == nil {
		if v == nil {
			return
		}
		g = f.newGroup(string(k.group))
	}
	switch k.version {
	case keyClassic:
		if g.classic = nil; v == nil {
			break
		}
		c, err := readClassic(v)
		if err != nil {
			// It says nothing about offsets, so it is no reason to answer none. Of a
			// group that may have members nothing expires.
			c = classicFields{stateMs: batch.None, members: membersUnknown}
		}
		g.classic = &c
	case keyConsumer:
		g.consumer = v != nil
	case keyMember:
		if v == nil {
			delete(g.members, string(k.member))
			break
		}
		if g.members == nil {
			g.members = map[string]struct{}{}
		}
		g.members[string(k.member)] = struct{}{}
	}
	f.dropGroup(g)
}

// entry finds or makes the entry of a key.
func (f *fold) entry(k *key) *entry {
	g := f.groups[string(k.group)]
	if g == nil {
		g = f.newGroup(string(k.group))
	}
	t := g.topics[string(k.topic)]
	if t == nil {
		// Groups read the same topics: one name for all.
		t = &topicEntries{group: g, name: unique.Make(string(k.topic)).Value()}
		g.topics[t.name] = t
	}
	i, found := t.find(k.partition)
	if found {
		return t.entries[i]
	}
	e := &entry{topic: t, partition: k.partition, committed: none}
	t.entries = slices.Insert(t.entries, i, e)
	return e
}

func (f *fold) newGroup(name string) *groupState {
	g := &groupState{name: name, topics: map[string]*topicEntries{}}
	f.groups[name] = g
	return g
}

// drop takes an entry out that nothing is known of any more, and what it leaves
// empty.
func (f *fold) drop(e *entry) {
	if e.isLive() {
		return
	}
	t := e.topic
	i, _ := t.find(e.partition)
	t.entries = slices.Delete(t.entries, i, i+1)
	if len(t.entries) == 0 {
		delete(t.group.topics, t.name)
		f.dropGroup(t.group)
	}
}

func (f *fold) dropGroup(g *groupState) {
	if !g.isKnown() {
		delete(f.groups, g.name)
	}
}

// opened is the open transaction of a producer.
func (f *fold) opened(producer int64) *open {
	o := f.open[producer]
	if o != nil {
		return o
	}
	if n := len(f.freeOpens); n > 0 {
		o = f.freeOpens[n-1]
		f.freeOpens = f.freeOpens[:n-1]
	} else {
		o = &open{groups: map[*groupState]struct{}{}}
	}
	o.producer = producer
	f.open[producer] = o
	return o
}

func (f *fold) newPending() *pending {
	if n := len(f.freePendings); n > 0 {
		p := f.freePendings[n-1]
		f.freePendings = f.freePendings[:n-1]
		return p
	}
	return new(pending)
}
