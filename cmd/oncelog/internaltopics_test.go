package main

import (
	"encoding/hex"
	"encoding/json"
	"testing"
)

// Records that the directories of Kafka 4.1.2 do not have: other versions,
// other releases, unknown types, and bytes that are none.
func TestDecodeInternalRecords(t *testing.T) {
	const transactionKey = "000000066d792d74786e"
	const offsetKey = "000100016700017400000000"
	for _, c := range []struct {
		name       string
		decoder    recordDecoder
		key, value string // hex; "-" is null
		wantKey    string
		wantValue  string
	}{
		{"transaction, v0 ongoing", decodeTransactions, transactionKey,
			"00000000000000000fa000000000ea6001000000010001740000000200000000000000010000018bcfe568000000018bcfe56800",
			`{"type":0,"transactional_id":"my-txn"}`,
			`{"version":0,"producer_id":4000,"epoch":0,"timeout_ms":60000,"state":"Ongoing","partitions":["t-0","t-1"],"updated_ms":1700000000000,"start_ms":1700000000000}`},
		{"transaction, v1 empty with previous id", decodeTransactions, transactionKey,
			"00010000000000000fa000000000ea6000000000018bcfe56800ffffffffffffffff0100080000000000000fa0",
			`{"type":0,"transactional_id":"my-txn"}`,
			`{"version":1,"producer_id":4000,"epoch":0,"timeout_ms":60000,"state":"Empty","partitions":null,"updated_ms":1700000000000,"start_ms":-1,"previous_producer_id":4000,"next_producer_id":-1,"client_transaction_version":0,"next_epoch":-1}`},
		{"transaction, v1 complete", decodeTransactions, transactionKey,
			"00010000000000000fa000010000ea6004010000018bcfe568c80000018bcfe568000200080000000000000fa002020002",
			`{"type":0,"transactional_id":"my-txn"}`,
			`{"version":1,"producer_id":4000,"epoch":1,"timeout_ms":60000,"state":"CompleteCommit","partitions":[],"updated_ms":1700000000200,"start_ms":1700000000000,"previous_producer_id":4000,"next_producer_id":-1,"client_transaction_version":2,"next_epoch":-1}`},
		{"transaction gone", decodeTransactions, transactionKey, "-", `{"type":0,"transactional_id":"my-txn"}`, `null`},
		{"transaction of a newer version", decodeTransactions, transactionKey, "000200", `{"type":0,"transactional_id":"my-txn"}`,
			`{"version":2,"error":"version of the value is unknown to this program"}`},
		{"transaction cut off", decodeTransactions, "00000006", "00", `{"type":0,"error":"response did not contain enough data to be valid"}`,
			`{"error":"1 bytes are too few for a version"}`},
		{"offset, v3", decodeOffsets, offsetKey, "0003000000000000002affffffff00000000018bcfe56800",
			`{"type":1,"group":"g","topic":"t","partition":0}`,
			`{"version":3,"offset":42,"leader_epoch":-1,"metadata":"","commit_ms":1700000000000}`},
		{"offset, v1", decodeOffsets, "000000016700017400000000", "0001000000000000002a00000000018bcfe568000000018bcfe56801",
			`{"type":0,"group":"g","topic":"t","partition":0}`,
			`{"version":1,"offset":42,"metadata":"","commit_ms":1700000000000,"expire_ms":1700000000001}`},
		{"offset, v4 with topic id", decodeOffsets, offsetKey, "0004000000000000002affffffff010000018bcfe56800010010000102030405060708090a0b0c0d0e0f",
			`{"type":1,"group":"g","topic":"t","partition":0}`,
			`{"version":4,"offset":42,"leader_epoch":-1,"metadata":"","commit_ms":1700000000000,"topic_id":"AAECAwQFBgcICQoLDA0ODw"}`},
		{"partitions of a group", decodeOffsets, "0004000167",
			"000002" + "000102030405060708090a0b0c0d0e0f" + "0274" + "00000001" + "02" + "00000000" + "020261" + "00" + "00" + "00",
			`{"type":4,"group":"g"}`,
			`{"version":0,"topics":[{"topic_id":"AAECAwQFBgcICQoLDA0ODw","topic":"t","num_partitions":1,"partitions":[{"partition":0,"racks":["a"]}]}]}`},
		{"member of the old protocol", decodeOffsets, "0005000167" + "00016d",
			"0000" + "00" + "00" + "0263" + "0268" + "02" + "0274" + "00" + "000003e8" + "00" + "01" + "00" + "0c" + "01" + "000007d0" + "02" + "0272" + "02ff" + "00" + "00",
			`{"type":5,"group":"g","member_id":"m"}`,
			`{"version":0,"instance_id":null,"rack_id":null,"client_id":"c","client_host":"h","subscribed_topics":["t"],"subscribed_regular_expression":null,"rebalance_timeout_ms":1000,"server_assignor":null,"classic":{"session_timeout_ms":2000,"protocols":[{"name":"r","metadata":"ff"}]}}`},
		{"regular expression", decodeOffsets, "0010000167" + "0002742a", "0000" + "020274" + "0000000000000007" + "0000018bcfe56800" + "00",
			`{"type":16,"group":"g","regular_expression":"t*"}`,
			`{"version":0,"topics":["t"],"topics_version":7,"resolved_ms":1700000000000}`},
		{"unknown type", decodeOffsets, "0011000167", "0000", `{"type":17,"error":"record type is unknown to this program"}`, `null`},
		{"bytes left over", decodeOffsets, "000300016700", "0000000000010000", `{"type":3,"error":"bytes are left over behind the fields"}`,
			`{"version":0,"error":"bytes are left over behind the fields"}`},
		{"null name", decodeOffsets, "0003ffff", "-", `{"type":3,"error":"a field that cannot be null is null"}`, `null`},
		{"key of one byte", decodeOffsets, "00", "-", `{"error":"1 bytes are too few for a version"}`, `null`},
		{"null key", decodeOffsets, "-", "00", `null`, `null`},
		{"other topic", decodeNothing, offsetKey, "00", `null`, `null`},
	} {
		key, value := c.decoder.decode(bytesOf(t, c.key), bytesOf(t, c.value))
		if got := jsonOf(t, key); got != c.wantKey {
			t.Errorf("%s: key\n got %s\nwant %s", c.name, got, c.wantKey)
		}
		if got := jsonOf(t, value); got != c.wantValue {
			t.Errorf("%s: value\n got %s\nwant %s", c.name, got, c.wantValue)
		}
	}
}

// bytesOf reads hex, "-" as null.
func bytesOf(t *testing.T, s string) []byte {
	t.Helper()
	if s == "-" {
		return nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FuzzDecode takes any key and value of both topics: records of Kafka first.
func FuzzDecode(f *testing.F) {
	for _, dir := range []string{"groups/data/__consumer_offsets-0", "groups/data/__consumer_offsets-1", "txn/data/__transaction_state-0"} {
		for _, r := range dumpJSON(f, "--records", kafkaDir+"/"+dir)["record"] {
			key, value := unhex(r.text("key")), unhex(r.text("value"))
			f.Add([]byte(key), []byte(value))
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for _, d := range []recordDecoder{decodeTransactions, decodeOffsets} {
			k, v := d.decode(key, value)
			for _, meaning := range []any{k, v} {
				if _, err := json.Marshal(meaning); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
