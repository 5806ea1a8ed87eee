package main

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// meaningNames are Kafka's names in the records of its internal topics, where
// ours differ by more than the way to write two words.
var meaningNames = map[string]string{
	"producerEpoch": "epoch", "transactionTimeoutMs": "timeout_ms", "transactionStatus": "state",
	"transactionPartitions": "partitions", "transactionLastUpdateTimestampMs": "updated_ms",
	"transactionStartTimestampMs": "start_ms", "nextProducerEpoch": "next_epoch",
	"commitTimestamp": "commit_ms", "expireTimestamp": "expire_ms", "currentStateTimestamp": "state_ms",
	"groupId": "group", "groupInstanceId": "instance_id", "rebalanceTimeout": "rebalance_timeout_ms",
	"sessionTimeout": "session_timeout_ms", "generationId": "generation", "assignedPartitions": "partitions",
	"subscribedTopicNames": "subscribed_topics", "subscribedTopicRegex": "subscribed_regular_expression",
	"classicMemberMetadata": "classic", "topicName": "topic", "topicPartitions": "partitions",
}

// sameMeaning compares the decoded key and value of a record with what Kafka's
// decoders print: {"type":…,"data":{…}} and {"version":…,"data":{…}}.
func sameMeaning(t *testing.T, where, kafka string, ours object) {
	t.Helper()
	key, value, ok := strings.Cut(strings.TrimPrefix(kafka, "key: "), " payload: ")
	if !ok {
		t.Errorf("%s: cannot read %q", where, kafka)
		return
	}
	sameJSON(t, where+" key", key, "type", ours["key_decoded"])
	if value == "<DELETE>" {
		if ours["value"] != nil || ours["value_decoded"] != nil {
			t.Errorf("%s: value is %v, want none", where, ours["value"])
		}
		return
	}
	sameJSON(t, where+" value", value, "version", ours["value_decoded"])
}

func sameJSON(t *testing.T, where, kafka, number string, ours any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(kafka))
	d.UseNumber()
	var wrapped map[string]any
	if err := d.Decode(&wrapped); err != nil {
		t.Errorf("%s: %v in %q", where, err, kafka)
		return
	}
	want, _ := renamed(wrapped["data"]).(map[string]any)
	want[number] = json.Number(wrapped[number].(string))
	got := withoutDefaults(ours, want)
	if !reflect.DeepEqual(got, map[string]any(want)) {
		t.Errorf("%s:\n got %v\nwant %v", where, got, want)
	}
}

// withoutDefaults leaves out what Kafka does not print because it has the
// value that is assumed when it is missing.
func withoutDefaults(ours any, kafka map[string]any) any {
	got, ok := ours.(map[string]any)
	if !ok {
		return ours
	}
	for name, missing := range map[string]string{
		"previous_producer_id": "-1", "next_producer_id": "-1", "client_transaction_version": "0", "next_epoch": "-1",
	} {
		if _, printed := kafka[name]; !printed && object(got).text(name) == missing {
			delete(got, name)
		}
	}
	return got
}

// renamed gives Kafka's fields our names and our form.
func renamed(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = renamed(v[i])
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, value := range v {
			our, ok := meaningNames[name]
			if !ok {
				our = snake(name)
			}
			switch name {
			case "transactionStatus":
				n, _ := strconv.Atoi(value.(json.Number).String())
				all[our] = kmsg.TransactionState(n).String()
			case "transactionPartitions":
				all[our] = flatPartitions(value)
			case "assignedPartitions":
				if _, current := v["memberEpoch"]; current {
					our = "assigned_partitions"
				}
				all[our] = renamed(value)
			default:
				all[our] = renamed(value)
			}
		}
		return all
	}
	return v
}

// flatPartitions makes topic-partition of topics with lists; null stays null.
func flatPartitions(topics any) any {
	list, ok := topics.([]any)
	if !ok {
		return nil
	}
	flat := []any{}
	for _, t := range list {
		entry := t.(map[string]any)
		for _, p := range entry["partitionIds"].([]any) {
			flat = append(flat, entry["topic"].(string)+"-"+p.(json.Number).String())
		}
	}
	return flat
}

// snake turns aName into a_name.
func snake(name string) string {
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
