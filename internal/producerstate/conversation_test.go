package producerstate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// object is a JSON object of a recorded conversation.
type object map[string]any

func (o object) list(key string) (objects []object) {
	values, _ := o[key].([]any)
	for _, v := range values {
		objects = append(objects, object(v.(map[string]any)))
	}
	return objects
}

func (o object) text(key string) string { s, _ := o[key].(string); return s }

// topic is the name of a topic, also where it is given by its id.
func (o object) topic() string {
	if name := o.text("Topic"); name != "" {
		return name
	}
	return strings.TrimSuffix(o.text("TopicID"), ".id")
}

func (o object) flag(key string) bool { b, _ := o[key].(bool); return b }

// conversation plays what was said to one broker against tables.
type conversation struct {
	t          *testing.T
	partitions map[string]*partition
	appendTime map[string]bool // topics that stamp records themselves
	clock      int64
	start      int64
	expiration int64
	firstEver  bool // play with the rule of later brokers (D7)
	stopped    bool // by that rule, where the recording goes on
	played     int
}

func (c *conversation) partition(topic string, number int64) *partition {
	key := topic + "-" + strconv.FormatInt(number, 10)
	if c.partitions[key] == nil {
		c.partitions[key] = newPartition()
	}
	return c.partitions[key]
}

// number resolves a number or a variable with an optional +n or -n.
func (c *conversation) number(o object, key string, absent int64) int64 {
	switch v := o[key].(type) {
	case float64:
		return int64(v)
	case string:
		name, rest := v, int64(0)
		if i := strings.LastIndexAny(v, "+-"); i > 0 {
			name = v[:i]
			rest, _ = strconv.ParseInt(v[i:], 10, 64)
		}
		switch {
		case name == "$now":
			return c.start + rest
		case name == "$clock":
			return c.clock + rest
		case strings.HasPrefix(name, "$pid"):
			n, err := strconv.ParseInt(name[4:], 10, 64)
			if err != nil {
				c.t.Fatalf("variable %q", v)
			}
			return 1000*n + rest
		}
		c.t.Fatalf("no number: %q", v)
	}
	return absent
}

// codes are Kafka's for what the table refuses. Others are not its matter.
func code(err error) int64 {
	for number, sentinel := range map[int64]error{
		45: ErrOutOfOrderSequence, 47: ErrInvalidProducerEpoch, 48: ErrInvalidTxnState, 52: ErrCoordinatorFenced,
	} {
		if errors.Is(err, sentinel) {
			return number
		}
	}
	return 0
}

func (c *conversation) play(steps []object) {
	for i, s := range steps {
		if c.stopped {
			return
		}
		c.clock++
		if c.expiration > 0 {
			for _, p := range c.partitions {
				p.table.Expire(c.clock, c.expiration)
			}
		}
		request, _ := s["request"].(map[string]any)
		switch {
		case s["sleep"] != nil:
			c.clock += c.number(s, "sleep", 0)
		case s["restart"] != nil:
			c.restart()
		case s.text("send") == "Produce":
			c.produce(i, s, request)
		case s.text("send") == "WriteTxnMarkers":
			c.writeMarkers(i, s, request)
		case s.text("send") == "DescribeProducers":
			c.describe(i, s)
		case s.text("send") == "ListOffsets":
			c.listOffsets(i, s, request)
		}
	}
}

// restart keeps what a snapshot keeps.
func (c *conversation) restart() {
	for _, p := range c.partitions {
		var err error
		if p.table, err = LoadSnapshot(Options{}, p.table.AppendSnapshot(nil), c.clock, 0); err != nil {
			c.t.Fatal(err)
		}
	}
}

// answers are the one recorded and those as good, for one partition.
func answers(s object, path ...string) (found []object) {
	candidates := s.list("or")
	if expect, ok := s["expect"].(map[string]any); ok {
		candidates = append([]object{expect}, candidates...)
	}
	for _, a := range candidates {
		for _, marker := range append(a.list("Markers"), a) {
			for _, topic := range marker.list("Topics") {
				if topic.topic() != path[0] {
					continue
				}
				for _, p := range topic.list("Partitions") {
					if number, _ := p["Partition"].(float64); strconv.Itoa(int(number)) == path[1] {
						found = append(found, p)
					}
				}
			}
		}
	}
	return found
}

func (c *conversation) produce(step int, s object, request object) {
	version := c.number(s, "version", 0)
	for _, topic := range request.list("Topics") {
		for _, p := range topic.list("Partitions") {
			number := c.number(p, "Partition", 0)
			expected := answers(s, topic.topic(), strconv.FormatInt(number, 10))
			batches := p.list("Records")
			if len(batches) != 1 {
				continue // refused before the table is asked
			}
			foreign := func(a object) bool { return !slices.Contains([]int64{0, 45, 47, 48}, c.number(a, "ErrorCode", 0)) }
			if len(expected) > 0 && foreign(expected[0]) || batches[0]["broken"] != nil {
				continue
			}
			c.played++
			c.append(step, topic.topic(), number, batches[0], version, expected)
		}
	}
}

func (c *conversation) append(step int, topic string, number int64, b object, version int64, expected []object) {
	p := c.partition(topic, number)
	producer := batch.Producer{ID: c.number(b, "producer", -1), Epoch: int16(c.number(b, "epoch", -1))}
	h := dataBatch(0, producer, int32(c.number(b, "sequence", -1)), int32(c.number(b, "records", 1)), b.flag("transactional"))
	h.MaxTimestamp = c.number(b, "time", c.start-100_000)
	if c.appendTime[topic] {
		h.MaxTimestamp = c.clock
	}
	request := Request{Header: h, FirstEver: c.firstEver && p.end == 0}
	if h.IsTransactional() {
		request.Guard, _ = p.table.Verify(producer, h.BaseSequence, version >= 12, c.clock)
	}
	v, err := p.table.Check(request)
	base := v.FirstOffset
	switch {
	case err != nil:
		base = -1
	case v.Kind == Accept:
		base, h.BaseOffset = p.end, p.end
		p.table.Apply(h, nil, c.clock)
		p.end = h.NextOffset()
	}
	if len(expected) == 0 {
		return // acks=0
	}
	matches := func(a object) bool {
		return c.number(a, "ErrorCode", 0) == code(err) && c.number(a, "BaseOffset", 0) == base &&
			(v.Kind != Duplicate || version < 2 || a.text("LogAppendTime") == "<time>" ||
				c.number(a, "LogAppendTime", -1) == v.Timestamp)
	}
	if slices.ContainsFunc(expected, matches) {
		return
	}
	if c.firstEver && code(err) == 45 {
		c.stopped = true
		return
	}
	c.t.Errorf("step %d: %v, base offset %d, %+v; want %v", step, err, base, v, expected)
}

func (c *conversation) writeMarkers(step int, s object, request object) {
	for _, marker := range request.list("Markers") {
		for _, topic := range marker.list("Topics") {
			numbers, _ := topic["Partitions"].([]any)
			for _, n := range numbers {
				p := c.partition(topic.topic(), int64(n.(float64)))
				producer := batch.Producer{ID: c.number(marker, "ProducerID", -1), Epoch: int16(c.number(marker, "ProducerEpoch", 0))}
				h, m := markerBatch(p.end, producer, marker.flag("Committed"), int32(c.number(marker, "CoordinatorEpoch", 0)))
				m.Timestamp = c.clock
				v, err := p.table.Check(Request{Header: h, Marker: m, Origin: OriginCoordinator,
					TV2: c.number(marker, "TransactionVersion", 0) >= 2})
				expected := answers(s, topic.topic(), strconv.Itoa(int(n.(float64))))
				if len(expected) > 0 && c.number(expected[0], "ErrorCode", 0) == 3 {
					continue // no such partition
				}
				if len(expected) == 0 || c.number(expected[0], "ErrorCode", 0) != code(err) {
					c.t.Errorf("step %d: %v, %v; want %v", step, v, err, expected)
				}
				if err == nil && v.Kind == Accept {
					p.table.Apply(h, m, c.clock)
				}
				if err == nil {
					p.end++ // Kafka appends the retry of a marker too: keep its offsets
				}
				c.played++
			}
		}
	}
}

func (c *conversation) describe(step int, s object) {
	expect, _ := s["expect"].(map[string]any)
	for _, topic := range object(expect).list("Topics") {
		for _, answer := range topic.list("Partitions") {
			p := c.partition(topic.topic(), c.number(answer, "Partition", 0))
			if active := answer.list("ActiveProducers"); len(active) != p.table.Len() {
				c.t.Errorf("step %d: %d producers, want %d", step, p.table.Len(), len(active))
			}
			for _, want := range answer.list("ActiveProducers") {
				got, ok := p.table.Info(c.number(want, "ProducerID", -1))
				time, coordinator := got.LastTimestamp, int64(got.CoordinatorEpoch)
				if want.text("LastTimestamp") != "<time>" {
					time = c.number(want, "LastTimestamp", 0)
				}
				if want.text("CoordinatorEpoch") != "<epoch>" {
					coordinator = c.number(want, "CoordinatorEpoch", 0)
				}
				if !ok || int64(got.Producer.Epoch) != c.number(want, "ProducerEpoch", 0) ||
					int64(got.LastSequence) != c.number(want, "LastSequence", 0) || got.LastTimestamp != time ||
					int64(got.CoordinatorEpoch) != coordinator || got.TxnFirst != c.number(want, "CurrentTxnStartOffset", 0) {
					c.t.Errorf("step %d: %+v, want %v", step, got, want)
				}
			}
		}
	}
}

func (c *conversation) listOffsets(step int, s object, request object) {
	for _, topic := range request.list("Topics") {
		for _, asked := range topic.list("Partitions") {
			number := c.number(asked, "Partition", 0)
			p := c.partition(topic.topic(), number)
			offset := p.end
			if first, ok := p.table.FirstUndecided(); ok && c.number(request, "IsolationLevel", 0) == 1 {
				offset = first
			}
			for _, a := range answers(s, topic.topic(), strconv.FormatInt(number, 10)) {
				if c.number(asked, "Timestamp", 0) == -1 && c.number(a, "Offset", 0) != offset {
					c.t.Errorf("step %d: latest offset %d, want %v", step, offset, a)
				}
			}
		}
	}
}

func playConversation(t *testing.T, path string, firstEver bool) *conversation {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var script object
	if err := json.Unmarshal(b, &script); err != nil {
		t.Fatal(err)
	}
	c := &conversation{
		t: t, partitions: make(map[string]*partition), appendTime: make(map[string]bool),
		clock: 1_800_000_000_000, start: 1_800_000_000_000, firstEver: firstEver,
	}
	if script.text("profile") == "short" {
		c.expiration = 2000
	}
	topics, _ := script["topics"].(map[string]any)
	for name, v := range topics {
		configs, _ := v.(map[string]any)["configs"].(map[string]any)
		c.appendTime[name] = configs["message.timestamp.type"] == "LogAppendTime"
	}
	c.play(script.list("steps"))
	return c
}

func TestConversations(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "conversations", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	played := 0
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			c := playConversation(t, path, false)
			if c.played == 0 {
				t.Error("nothing to play")
			}
			played += c.played
		})
	}
	t.Logf("%d appends in %d conversations answered as recorded", played, len(paths))
}

// TestConversationsUnderRuleD7: a partition that never held a record takes no
// first sequence but 0. Kafka 4.1 did; these recordings, and no others, begin
// so.
func TestConversationsUnderRuleD7(t *testing.T) {
	differ := []string{"new-id-any-epoch", "new-id-any-sequence", "wrap", "wrap-needs-zero"}
	paths, _ := filepath.Glob(filepath.Join("testdata", "conversations", "*.json"))
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			c := playConversation(t, path, true)
			if want := slices.Contains(differ, name); c.stopped != want {
				t.Errorf("an append was refused that Kafka 4.1 took: %v, want %v", c.stopped, want)
			}
		})
	}
}
