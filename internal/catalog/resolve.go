package catalog

import (
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
)

// member is a partition that belongs to the store.
type member struct {
	partition topic.Partition
	topic     manifestTopic
	err       error // why it cannot be opened, nil if it can be tried
	missing   bool  // because there is nothing
}

// contradicts tells whether a directory cannot be of the topic with this id.
// One that says no id can be any topic's.
func (d *directory) contradicts(id checkpoint.TopicID) bool {
	return d.id != (checkpoint.TopicID{}) && d.id != id
}

func (d *directory) belongsElsewhere(id checkpoint.TopicID) error {
	return fmt.Errorf("%w: the directory %s belongs to a topic with id %s, not %s; move it away or put the right one back", ErrPartitionMissing, d.partition, d.id, id)
}

// resolve decides, from the manifest and the directories, which topics and
// partitions there are: pure. Members come in order.
//
//   - A directory of a topic whose deletion is noted is not there any more.
//   - A directory that the manifest does not know and that holds no segment is
//     what an unfinished creation left.
//   - One that it does not know and that cannot be looked into may be either: it
//     is left out.
//   - One that it does not know with segments is a topic of Kafka's, or a
//     partition of it that came later.
//   - A topic with another id than the manifest says is another topic: nothing
//     that is stored about its namesake holds for it.
//   - The number of partitions of an internal topic is what was found first:
//     others that come later are partitions, but do not change it.
//   - Of a topic that was made here every partition must be there; of a foreign
//     one those that are not were never here, or went away.
func resolve(m *manifest, dirs []directory) (*manifest, []member) {
	byTopic := map[string][]directory{}
	for _, d := range dirs {
		if !m.deleting(d) {
			byTopic[d.partition.Topic] = append(byTopic[d.partition.Topic], d)
		}
	}
	next := &manifest{memory: m.memory, deletions: m.deletions, ids: m.ids}
	var members []member
	enter := func(t manifestTopic, found []directory) {
		slices.SortFunc(found, func(a, b directory) int { return a.partition.Compare(b.partition) })
		t, of := resolveTopic(t, found)
		if len(of) == 0 && t.foreign {
			return
		}
		next.topics = append(next.topics, t)
		members = append(members, of...)
	}
	for _, t := range m.topics {
		found := byTopic[t.name]
		delete(byTopic, t.name)
		if len(found) > 0 && !slices.ContainsFunc(found, func(d directory) bool { return !d.contradicts(t.id) }) {
			t = manifestTopic{name: t.name, id: firstID(found), foreign: true}
		}
		enter(t, found)
	}
	for name, found := range byTopic {
		enter(manifestTopic{name: name, id: firstID(found), foreign: true}, found)
	}
	slices.SortFunc(next.topics, func(a, b manifestTopic) int { return compareNames(a.name, b.name) })
	slices.SortFunc(members, func(a, b member) int { return a.partition.Compare(b.partition) })
	for i := range members {
		t, _ := next.find(members[i].partition.Topic)
		members[i].topic = next.topics[t]
	}
	return next, members
}

// resolveTopic decides on one topic.
func resolveTopic(t manifestTopic, found []directory) (manifestTopic, []member) {
	var of []member
	known := t.partitions
	next := int32(0) // index that has not been looked at
	missing := func(until int32) {
		for ; !t.foreign && next < min(until, known); next++ {
			p := topic.Partition{Topic: t.name, Index: next}
			of = append(of, member{partition: p, missing: true, err: fmt.Errorf("%w: %s; put it back, or delete the topic", ErrPartitionMissing, p)})
		}
	}
	for _, d := range found {
		index := d.partition.Index
		if index >= known && (!d.segments || d.err != nil) {
			continue
		}
		missing(index)
		mine := member{partition: d.partition}
		switch {
		case d.err != nil:
			mine.err = unusable(d.partition, d.err)
		case d.contradicts(t.id):
			mine.err = d.belongsElsewhere(t.id)
		}
		of = append(of, mine)
		next = index + 1
		if known == 0 || !d.partition.Internal() {
			t.partitions = max(t.partitions, next)
		}
	}
	missing(known)
	return t, of
}

// firstID is the id that the first directory with one says, of those that hold
// anything.
func firstID(dirs []directory) checkpoint.TopicID {
	first := directory{}
	for _, d := range dirs {
		if d.segments && d.id != (checkpoint.TopicID{}) && (first.partition.Topic == "" || d.partition.Index < first.partition.Index) {
			first = d
		}
	}
	return first.id
}

// deleting tells whether a directory is one of a topic that is being deleted.
func (m *manifest) deleting(d directory) bool {
	return slices.ContainsFunc(m.deletions, func(e manifestDeletion) bool {
		return e.name == d.partition.Topic && !d.contradicts(e.id) && d.partition.Index < e.partitions
	})
}
