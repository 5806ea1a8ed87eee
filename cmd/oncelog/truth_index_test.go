package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Entries of the three indexes are those that Kafka prints.
func TestIndexesAsKafkaDumpsThem(t *testing.T) {
	for _, c := range []struct {
		suffix, kind string
		names        map[string]string
	}{
		{".index", "offset_index", map[string]string{"offset": "offset", "position": "pos"}},
		{".timeindex", "time_index", map[string]string{"timestamp": "ts", "offset": "offset"}},
		{".txnindex", "aborted_txn", map[string]string{"version": "", "producerId": "producer_id",
			"firstOffset": "first_offset", "lastOffset": "last_offset", "lastStableOffset": "lso"}},
	} {
		compared := 0
		for _, file := range truthFiles(t, c.suffix) {
			ours := dumpJSON(t, file.data)[c.kind]
			var lines []string
			for _, line := range strings.Split(strings.TrimSpace(file.text), "\n")[1:] {
				// Kafka's dump reads an empty file as one entry of zeros.
				if f := fields(line); len(f) == len(c.names) && !(len(ours) == 0 && f["offset"] == "0" && f["position"]+f["timestamp"] == "0") {
					lines = append(lines, line)
				}
			}
			if len(lines) != len(ours) {
				t.Errorf("%s: %d entries, want %d", file.name, len(ours), len(lines))
				continue
			}
			for i, line := range lines {
				sameFields(t, fmt.Sprintf("%s line %d", file.name, i+2), fields(line), ours[i], c.names)
				compared++
			}
		}
		t.Logf("%s: %d entries compared", c.suffix, compared)
		if compared == 0 {
			t.Errorf("%s: nothing compared", c.suffix)
		}
	}
}

// Producers in snapshots are those that Kafka prints.
func TestSnapshotsAsKafkaDumpsThem(t *testing.T) {
	names := map[string]string{
		"producerId": "producer_id", "producerEpoch": "epoch", "coordinatorEpoch": "coordinator_epoch",
		"currentTxnFirstOffset": "txn_start", "lastTimestamp": "last_timestamp", "firstSequence": "first_sequence",
		"lastSequence": "last_sequence", "lastOffset": "last_offset", "offsetDelta": "offset_delta",
		"timestamp": "last_timestamp",
	}
	compared := 0
	for _, file := range truthFiles(t, ".snapshot") {
		ours := dumpJSON(t, file.data)["producer"]
		lines := strings.Split(strings.TrimSpace(file.text), "\n")[1:]
		if len(lines) != len(ours) {
			t.Errorf("%s: %d producers, want %d", file.name, len(ours), len(lines))
			continue
		}
		// Kafka prints the file after it put it into a hash map.
		for _, line := range lines {
			kafka := fields(line)
			kafka["currentTxnFirstOffset"] = optionalLong(kafka["currentTxnFirstOffset"], "-1")
			if _, batch := kafka["lastOffset"]; !batch {
				kafka["lastOffset"] = "-1"
			}
			i := slices.IndexFunc(ours, func(o object) bool { return o.text("producer_id") == kafka["producerId"] })
			if i < 0 {
				t.Errorf("%s: no producer %s", file.name, kafka["producerId"])
				continue
			}
			sameFields(t, file.name, kafka, ours[i], names)
			compared++
		}
	}
	t.Logf("%d producers compared", compared)
	if compared == 0 {
		t.Error("nothing compared")
	}
}
