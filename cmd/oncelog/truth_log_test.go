package main

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// batchNames are Kafka's names of what is in the header of a batch, and ours.
var batchNames = map[string]string{
	"baseOffset": "base_offset", "lastOffset": "last_offset", "count": "records", "baseSequence": "base_sequence",
	"lastSequence": "last_sequence", "producerId": "producer_id", "producerEpoch": "epoch",
	"partitionLeaderEpoch": "leader_epoch", "isTransactional": "transactional", "isControl": "control",
	"deleteHorizonMs": "delete_horizon_ms", "position": "pos", "CreateTime": "max_ts", "LogAppendTime": "max_ts",
	"size": "bytes", "magic": "magic", "compresscodec": "codec", "crc": "crc", "isvalid": "crc_ok",
}

// recordNames are those of a record, up to its key.
var recordNames = map[string]string{
	"offset": "offset", "CreateTime": "ts", "LogAppendTime": "ts", "sequence": "sequence", "keySize": "", "valueSize": "",
}

// dumpedRecord splits Kafka's line about a record: fields, header names, rest.
var dumpedRecord = regexp.MustCompile(`(?s)^\| (offset: .*?) headerKeys: \[(.*?)\](.*)$`)

// dumpedLines splits the output about a segment into batches and records; a
// key or value may hold line ends.
func dumpedLines(text string) (lines []string) {
	inside := false
	for _, line := range strings.SplitAfter(text, "\n") {
		switch {
		case strings.HasPrefix(line, "baseOffset: "), strings.HasPrefix(line, "| offset: "):
			lines = append(lines, line)
			inside = true
		case strings.HasPrefix(line, "Non-consecutive offsets in "):
			inside = false
		case inside:
			lines[len(lines)-1] += line
		}
	}
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	return lines
}

// Every batch header and every record is what Kafka prints.
func TestLogsAsKafkaDumpsThem(t *testing.T) {
	batches, records := 0, 0
	for _, file := range truthFiles(t, ".log") {
		ours := dumpJSON(t, "--records", file.data)
		var b, r int
		for _, line := range dumpedLines(file.text) {
			if strings.HasPrefix(line, "baseOffset") {
				if b >= len(ours["batch"]) {
					t.Errorf("%s: batch missing: %s", file.name, line)
					break
				}
				sameBatch(t, file, line, ours["batch"][b])
				b++
				continue
			}
			if r >= len(ours["record"]) {
				t.Errorf("%s: record missing: %.80s", file.name, line)
				break
			}
			sameRecord(t, file, line, ours["record"][r])
			r++
		}
		if b != len(ours["batch"]) || r != len(ours["record"]) {
			t.Errorf("%s: %d batches and %d records, want %d and %d", file.name, len(ours["batch"]), len(ours["record"]), b, r)
		}
		batches += b
		records += r
	}
	t.Logf("%d batches, %d records compared", batches, records)
	if batches == 0 || records == 0 {
		t.Error("nothing compared")
	}
}

func sameBatch(t *testing.T, file truthFile, line string, ours object) {
	t.Helper()
	kafka := fields(line)
	kafka["deleteHorizonMs"] = optionalLong(kafka["deleteHorizonMs"], "null")
	where := file.name + " batch at " + kafka["position"]
	if len(kafka) != len(batchNames)-1 {
		t.Errorf("%s: %d facts, want %d", where, len(kafka), len(batchNames)-1)
	}
	if _, ok := kafka[ours.text("ts_type")]; !ok {
		t.Errorf("%s: ts_type is %s", where, ours["ts_type"])
	}
	sameFields(t, where, kafka, ours, batchNames)
}

func sameRecord(t *testing.T, file truthFile, line string, ours object) {
	t.Helper()
	parts := dumpedRecord.FindStringSubmatch(line)
	if parts == nil {
		t.Errorf("%s: cannot read %q", file.name, line)
		return
	}
	kafka := fields(parts[1])
	where := file.name + " offset " + kafka["offset"]
	if _, ok := kafka[ours.text("ts_type")]; !ok {
		t.Errorf("%s: ts_type is %s", where, ours["ts_type"])
	}
	sameFields(t, where, kafka, ours, recordNames)
	var names []string
	headers, _ := ours["headers"].([]any)
	for _, h := range headers {
		names = append(names, h.([]any)[0].(string))
	}
	if got := strings.Join(names, ","); got != parts[2] {
		t.Errorf("%s: headers are %s, want %s", where, got, parts[2])
	}
	for name, size := range map[string]string{"key": kafka["keySize"], "value": kafka["valueSize"]} {
		got := "-1"
		if s, ok := ours[name].(string); ok {
			got = fmt.Sprint(len(s) / 2)
		}
		if got != size {
			t.Errorf("%s: %s has %s bytes, want %s", where, name, got, size)
		}
	}
	rest := strings.TrimPrefix(parts[3], " ")
	switch {
	case strings.HasPrefix(rest, "endTxnMarker: "):
		sameMarker(t, where, fields(rest), ours)
	case strings.HasPrefix(file.partition, "__"):
		sameMeaning(t, where, rest, ours)
	case strings.HasPrefix(file.partition, "plain-big") && rest == "":
		// Kafka was asked not to print what is large.
	default:
		if want := printedByKafka(ours); readable(rest) != readable(want) {
			t.Errorf("%s: key and value are %q, want %q", where, want, rest)
		}
	}
}

func sameMarker(t *testing.T, where string, kafka map[string]string, ours object) {
	t.Helper()
	control, _ := ours["control"].(map[string]any)
	if object(control).text("type") != kafka["endTxnMarker"] || object(control).text("coordinator_epoch") != kafka["coordinatorEpoch"] {
		t.Errorf("%s: control is %v, want %v", where, control, kafka)
	}
}

// printedByKafka is how Kafka prints key and value of a line of ours.
func printedByKafka(ours object) string {
	var parts []string
	if key, ok := ours["key"].(string); ok {
		parts = append(parts, "key: "+unhex(key))
	}
	if value, ok := ours["value"].(string); ok {
		parts = append(parts, "payload: "+unhex(value))
	}
	return strings.Join(parts, " ")
}

func unhex(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		return "bad hex " + s
	}
	return string(b)
}

// readable replaces each run of bytes that are no text by one mark: Java and
// Go differ in how many marks they write.
func readable(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	return regexp.MustCompile(string(utf8.RuneError)+"+").ReplaceAllString(s, string(utf8.RuneError))
}
