package catalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
)

// Ids of topics in these tests: "", "A", "B".
func idOf(text string) (id checkpoint.TopicID) {
	copy(id[:], text)
	return id
}

// A directory is written "name-0 A": with the id it says; "name-0 A empty"
// holds no segment.
func dirOf(text string) directory {
	fields := strings.Fields(text + " ")
	p, err := topic.ParseDir(fields[0])
	if err != nil {
		panic(err)
	}
	d := directory{partition: p, segments: !strings.HasSuffix(text, "empty")}
	if len(fields) > 1 && fields[1] != "empty" {
		d.id = idOf(fields[1])
	}
	return d
}

func TestResolve(t *testing.T) {
	config := &TopicConfig{SegmentBytes: 1}
	own := manifestTopic{name: "t", id: idOf("A"), partitions: 2, config: config}
	foreign := manifestTopic{name: "t", id: idOf("A"), partitions: 3, foreign: true, config: config}
	internal := manifestTopic{name: topic.TransactionState, id: idOf("A"), partitions: 5, foreign: true}
	for _, c := range []struct {
		name    string
		topics  []manifestTopic
		deleted []manifestDeletion
		dirs    []string
		want    string // topics with partitions, "own", "config"; members, with ! if they refuse, ? if missing
	}{
		{"nothing", nil, nil, nil, ""},
		{"Kafka's", nil, nil, []string{"b-0 B", "a-5 A", "a-2 A", "old-0"}, "a:6 b:1 old:1 | a-2 a-5 b-0 old-0"},
		{"unfinished creation", nil, nil, []string{"t-0 A empty", "t-1 A empty"}, "|"},
		{"ours", []manifestTopic{own}, nil, []string{"t-0 A", "t-1 A empty"}, "t:2+own+config | t-0 t-1"},
		{"ours, one is gone", []manifestTopic{own}, nil, []string{"t-1 A"}, "t:2+own+config | t-0!? t-1"},
		{"ours, the last is gone", []manifestTopic{own}, nil, []string{"t-0"}, "t:2+own+config | t-0 t-1!?"},
		{"ours, all are gone", []manifestTopic{own}, nil, nil, "t:2+own+config | t-0!? t-1!?"},
		{"ours, one is another's", []manifestTopic{own}, nil, []string{"t-0 B", "t-1 A"}, "t:2+own+config | t-0! t-1"},
		{"ours, unfinished growth", []manifestTopic{own}, nil, []string{"t-0 A", "t-1 A", "t-2 A empty"}, "t:2+own+config | t-0 t-1"},
		{"ours, more by hand", []manifestTopic{own}, nil, []string{"t-0 A", "t-1 A", "t-2 A"}, "t:3+own+config | t-0 t-1 t-2"},
		{"another of the name", []manifestTopic{own}, nil, []string{"t-0 B"}, "t:1 | t-0"},
		{"foreign", []manifestTopic{foreign}, nil, []string{"t-2 A"}, "t:3+config | t-2"},
		{"foreign, grown", []manifestTopic{foreign}, nil, []string{"t-0 A", "t-3 A", "t-4 A empty"}, "t:4+config | t-0 t-3"},
		{"foreign, gone", []manifestTopic{foreign}, nil, nil, "|"},
		{"foreign, made again", []manifestTopic{foreign}, nil, []string{"t-0 B"}, "t:1 | t-0"},
		{"internal", nil, nil, []string{"__transaction_state-2 A", "__transaction_state-4 A"}, "__transaction_state:5 | __transaction_state-2 __transaction_state-4"},
		{"internal, others come later", []manifestTopic{internal}, nil, []string{"__transaction_state-2 A", "__transaction_state-7 A"}, "__transaction_state:5 | __transaction_state-2 __transaction_state-7"},
		{"internal, another", []manifestTopic{internal}, nil, []string{"__transaction_state-7 B"}, "__transaction_state:8 | __transaction_state-7"},
		{"internal, gone", []manifestTopic{internal}, nil, nil, "|"},
		{"deleted", nil, []manifestDeletion{{"t", idOf("A"), 2}}, []string{"t-0 A", "t-1", "u-0 A"}, "u:1 | u-0"},
		{"deleted, made again by Kafka", nil, []manifestDeletion{{"t", idOf("A"), 2}}, []string{"t-0 B", "t-1 A"}, "t:1 | t-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &manifest{deletions: c.deleted}
			for _, topic := range c.topics {
				m = m.with(topic)
			}
			var dirs []directory
			for _, d := range c.dirs {
				dirs = append(dirs, dirOf(d))
			}
			next, members := resolve(m, dirs)
			var got []string
			for _, topic := range next.topics {
				s := fmt.Sprintf("%s:%d", topic.name, topic.partitions)
				if !topic.foreign {
					s += "+own"
				}
				if topic.config != nil {
					s += "+config"
				}
				got = append(got, s)
			}
			got = append(got, "|")
			for _, m := range members {
				s := m.partition.String()
				if m.err != nil {
					s += "!"
					if !errors.Is(m.err, ErrPartitionMissing) {
						t.Errorf("%s refuses with %v", s, m.err)
					}
				}
				if m.missing {
					s += "?"
				}
				if m.topic.name != m.partition.Topic {
					t.Errorf("%s is of topic %q", s, m.topic.name)
				}
				got = append(got, s)
			}
			if g := strings.Join(got, " "); g != c.want && g != c.want+"|" {
				t.Errorf("got  %s\nwant %s", g, c.want)
			}
		})
	}
}

func TestDeletedName(t *testing.T) {
	id := checkpoint.TopicID{0xde, 0xad, 15: 0x01}
	if got := deletedName(at("orders", 12), id); got != "orders-12.dead0000000000000000000000000001-delete" {
		t.Errorf("got %s", got)
	}
	long := deletedName(at(strings.Repeat("x", topic.NameBytesMax), 12), id)
	if len(long) != dirNameMax || !strings.HasSuffix(long, "x-12.dead0000000000000000000000000001-delete") {
		t.Errorf("got %s, %d bytes", long, len(long))
	}
	if _, err := topic.ParseDir(long); !errors.Is(err, topic.ErrNotPartition) {
		t.Errorf("got %v", err)
	}
}
