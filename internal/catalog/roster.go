package catalog

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/oncelog/oncelog/internal/topic"
)

// roster finds the partition of an append or a read. It is looked at without a
// lock, which all processors would write to; changes copy what they change, and
// are made under Catalog.mu.
type roster struct {
	topics atomic.Pointer[map[string][]*partition] // of each topic by index
}

// find is the partition of that name, nil if there is none.
func (r *roster) find(tp topic.Partition) *partition {
	list := (*r.topics.Load())[tp.Topic]
	// Most topics have all partitions from 0 on.
	if i := int(tp.Index); i >= 0 && i < len(list) && list[i].Index == tp.Index {
		return list[i]
	}
	i, found := slices.BinarySearchFunc(list, tp.Index, compareIndex)
	if !found {
		return nil
	}
	return list[i]
}

func compareIndex(p *partition, index int32) int { return cmp.Compare(p.Index, index) }

// place enters partitions, in the place of those of the same name.
func (r *roster) place(list ...*partition) {
	next := map[string][]*partition{}
	if now := r.topics.Load(); now != nil {
		next = maps.Clone(*now)
	}
	own := map[string]bool{} // lists that are not shared any more
	for _, p := range list {
		of := next[p.Topic]
		if !own[p.Topic] {
			of, own[p.Topic] = slices.Clone(of), true
		}
		if i, found := slices.BinarySearchFunc(of, p.Index, compareIndex); found {
			of[i] = p
		} else {
			of = slices.Insert(of, i, p)
		}
		next[p.Topic] = of
	}
	r.topics.Store(&next)
}

// remove takes a topic out.
func (r *roster) remove(name string) {
	next := maps.Clone(*r.topics.Load())
	delete(next, name)
	r.topics.Store(&next)
}

// of are the partitions of a topic by index; not to be modified.
func (r *roster) of(name string) []*partition { return (*r.topics.Load())[name] }
