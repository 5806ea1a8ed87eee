package sim

import (
	"fmt"
	"slices"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// changeTopics makes, changes or deletes a topic.
func (h *history) changeTopics() {
	h.alone(func() {
		switch k := h.rng.IntN(4); {
		case len(h.topic) > 0 && k == 0:
			h.deleteTopic(h.topic[h.rng.IntN(len(h.topic))])
		case len(h.topic) > 0 && k == 1:
			h.alterTopic(h.topic[h.rng.IntN(len(h.topic))])
		case len(h.topic) < 3:
			h.createTopic()
		}
	})
}

// renew deletes a topic of level OS and makes another, which gets the slots that
// are free now. Sometimes the power goes before much of it is on the disk.
func (h *history) renew() {
	i := slices.IndexFunc(h.topic, func(s *subject) bool {
		return s.config.Durability == log.DurabilityOS && !s.maybe && s.other == nil
	})
	if i < 0 || h.bare {
		return
	}
	old := h.topic[i]
	h.writeBack()
	h.alone(func() {
		if h.deleteTopic(old); h.dead() || slices.Contains(h.topic, old) {
			return
		}
		s := &subject{name: old.name, config: old.config, maybe: true}
		for _, p := range old.parts {
			s.parts = append(s.parts, newPartition(p.tp, p.config, p.replicated))
		}
		h.create(s)
		for _, p := range s.parts {
			if l, err := h.sys.partition(p.tp); err == nil && !s.maybe && !h.dead() {
				h.append(p, l, h.plainBatch(p), log.AppendOptions{})
			}
		}
	})
	if h.dead() {
		return
	}
	h.tell("background")
	h.sys.work()
	if !h.last && !h.dead() && h.chance(0.5) {
		h.disk.crashIn(0, false)
	}
}

func (h *history) createTopic() {
	name := fmt.Sprintf("t%d", h.rng.IntN(4))
	if h.find(name) != nil {
		return
	}
	s := &subject{name: name, config: h.topicConfig(), maybe: true}
	for i := range s.config.Partitions {
		tp := topic.Partition{Topic: name, Index: int32(i)}
		s.parts = append(s.parts, newPartition(tp, h.logConfig(s.config), h.scene.replicated))
	}
	h.create(s)
}

func (h *history) create(s *subject) {
	name := s.name
	h.topic = append(h.topic, s)
	err := h.sys.create(name, s.config)
	h.tell("create topic %s %+v: %v", name, s.config, err)
	if h.dead() {
		return
	}
	if err != nil && !h.expected(err) {
		h.fail("topic %s is not created: %v", name, err)
	}
	there := slices.Contains(h.sys.topics(), name)
	if err == nil {
		if !there {
			h.fail("topic %s is created and not there", name)
		}
		s.maybe = false
	}
	// With an error it stays in doubt until the store is opened again.
}

func (h *history) deleteTopic(s *subject) {
	if s.maybe {
		return
	}
	s.maybe = true
	err := h.sys.remove(s.name)
	h.tell("delete topic %s: %v", s.name, err)
	if h.dead() {
		return
	}
	there := slices.Contains(h.sys.topics(), s.name)
	switch {
	case err == nil && there:
		h.fail("topic %s is deleted and there", s.name)
	case err == nil:
		h.topic = slices.DeleteFunc(h.topic, func(o *subject) bool { return o == s })
	case !h.expected(err):
		h.fail("topic %s is not deleted: %v", s.name, err)
	case there:
		s.maybe = false
	default:
		h.fail("topic %s is not deleted (%v), and not there", s.name, err)
	}
}

func (h *history) alterTopic(s *subject) {
	if s.maybe || s.other != nil {
		return
	}
	for _, p := range s.parts {
		if l, err := h.sys.partition(p.tp); err != nil || l.Failed() != nil {
			return
		}
	}
	next := s.config
	next.Partitions = 0
	next.Durability = log.DurabilityOS + log.DurabilityFsync - s.config.Durability
	s.other = &catalog.TopicConfig{}
	*s.other = s.config
	s.other.Durability = next.Durability
	err := h.sys.alter(s.name, next)
	h.tell("alter topic %s to %s: %v", s.name, next.Durability, err)
	if h.dead() {
		return
	}
	if err != nil && !h.expected(err) {
		h.fail("topic %s is not altered: %v", s.name, err)
	}
	for _, p := range s.parts {
		l, e := h.sys.partition(p.tp)
		if e != nil {
			continue
		}
		p.config.Durability = l.Config().Durability
		if err == nil && p.config.Durability != next.Durability {
			h.fail("%s has durability %s after the change to %s", p.tp, p.config.Durability, next.Durability)
		}
	}
	if err == nil {
		s.config.Durability, s.other = next.Durability, nil
	}
	h.observeAll()
}
