package groupoffsets

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

func unhex(s string) []byte { return must(hex.DecodeString(strings.ReplaceAll(s, " ", ""))) }

func TestReadKey(t *testing.T) {
	for _, c := range []struct {
		name, hex            string
		version              keyVersion
		group, topic, member string
		partition            int32
	}{
		{"offset", "0001 0001 67 0001 74 00000000", keyOffset, "g", "t", "", 0},
		{"old offset", "0000 0001 67 0001 74 00000007", keyOffsetOld, "g", "t", "", 7},
		{"group without a name", "0001 0000 0001 74 00000001", keyOffset, "", "t", "", 1},
		{"classic", "0002 0002 6767", keyClassic, "gg", "", "", 0},
		{"consumer", "0003 0001 67", keyConsumer, "g", "", "", 0},
		{"member", "0005 0001 67 0001 6d", keyMember, "g", "", "m", 0},
	} {
		k, known, err := readKey(unhex(c.hex))
		if err != nil || !known {
			t.Errorf("%s: %v, known %v", c.name, err, known)
			continue
		}
		if k.version != c.version || string(k.group) != c.group || string(k.topic) != c.topic || string(k.member) != c.member || k.partition != c.partition {
			t.Errorf("%s: got %+v", c.name, k)
		}
	}
}

// Whatever a newer Kafka keeps beside offsets is skipped.
func TestReadKeySkips(t *testing.T) {
	for _, h := range []string{"0004 0001 67", "0006 0001 67", "0007 0001 67 0001 6d", "0008 0001 67 0001 6d", "0009 01", "0010 0001 67", "0011", "0063 ff", "7fff", "ffff"} {
		if _, known, err := readKey(unhex(h)); known || err != nil {
			t.Errorf("%s: known %v, %v", h, known, err)
		}
	}
}

func TestReadKeyRefuses(t *testing.T) {
	for name, h := range map[string]string{
		"empty":           "",
		"half a version":  "00",
		"no group":        "0001",
		"group cut":       "0001 0002 67",
		"negative length": "0001 ffff 0001 74 00000000",
		"no partition":    "0001 0001 67 0001 74 000000",
		"left over":       "0001 0001 67 0001 74 00000000 00",
		"classic cut":     "0002 0003 67",
		"member cut":      "0005 0001 67",
	} {
		if k, known, err := readKey(unhex(h)); err == nil || known {
			t.Errorf("%s: read as %+v", name, k)
		}
	}
}

func TestReadValue(t *testing.T) {
	const ms = "0000018bcfe56800" // 1700000000000
	for _, c := range []struct {
		name, hex string
		want      fields
	}{
		{"version 0", "0000 000000000000002a 0001 6d" + ms, fields{42, -1, []byte("m"), at0, -1}},
		{"version 1", "0001 000000000000002a 0000" + ms + "0000018bcfe56801", fields{42, -1, nil, at0, at0 + 1}},
		{"version 1 without a time", "0001 000000000000002a 0000" + ms + "ffffffffffffffff", fields{42, -1, nil, at0, -1}},
		{"version 2", "0002 000000000000002a 0000" + ms, fields{42, -1, nil, at0, -1}},
		{"version 3", "0003000000000000002affffffff00000000018bcfe56800", fields{42, -1, nil, at0, -1}},
		{"version 4", "0004 0000000000000000 00000005 02 6d" + ms + "00", fields{0, 5, []byte("m"), at0, -1}},
		{"version 4 with the id of the topic", "0004 0000000000000001 00000000 01" + ms + "01 00 10 00112233445566778899aabbccddeeff", fields{1, 0, nil, at0, -1}},
		{"version 4 with tags of a newer Kafka", "0004 0000000000000001 00000000 01" + ms + "02 07 02 0102 b960 00", fields{1, 0, nil, at0, -1}},
	} {
		got, err := readValue(unhex(c.hex))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.offset != c.want.offset || got.leaderEpoch != c.want.leaderEpoch || !bytes.Equal(got.metadata, c.want.metadata) ||
			got.commitMs != c.want.commitMs || got.expireMs != c.want.expireMs {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReadValueRefuses(t *testing.T) {
	for name, h := range map[string]string{
		"empty":             "",
		"newer":             "0005 000000000000002a ffffffff 01 0000018bcfe56800 00",
		"negative":          "ffff 000000000000002a 0000 0000018bcfe56800",
		"offset cut":        "0003 0000",
		"null metadata":     "0003 000000000000002a ffffffff ffff 0000018bcfe56800",
		"no commit time":    "0003 000000000000002a ffffffff 0000",
		"left over":         "0003000000000000002affffffff00000000018bcfe5680000",
		"no tags":           "0004 000000000000002a ffffffff 01 0000018bcfe56800",
		"tag cut":           "0004 000000000000002a ffffffff 01 0000018bcfe56800 01 00 10 00",
		"length too large":  "0004 000000000000002a ffffffff ffffffffff7f",
		"length has no end": "0004 000000000000002a ffffffff ffffffffffffffffffffff",
	} {
		if v, err := readValue(unhex(h)); err == nil {
			t.Errorf("%s: read as %+v", name, v)
		}
	}
}

// What is written, byte for byte as Kafka 4.1 does.
func TestAppend(t *testing.T) {
	same := func(what string, got []byte, want string) {
		t.Helper()
		if !bytes.Equal(got, unhex(want)) {
			t.Errorf("%s: %x, want %s", what, got, want)
		}
	}
	same("key", appendOffsetKey(nil, "g", "t", 0), "000100016700017400000000")
	same("key of a group", appendGroupKey(nil, keyClassic, "g"), "0002 0001 67")
	c := Commit{Offset: 42, LeaderEpoch: batch.None}
	same("value", appendValue(nil, &c, at0), "0004 000000000000002a ffffffff 01 0000018bcfe56800 00")
	c.LeaderEpoch, c.Metadata = 3, "txn 1"
	same("value with everything", appendValue(nil, &c, at0), "0004 000000000000002a 00000003 06 74786e2031 0000018bcfe56800 00")
	c.ExpireMs = at0 + 1
	same("value with its own time", appendValue(nil, &c, at0), "0001 000000000000002a 0005 74786e2031 0000018bcfe56800 0000018bcfe56801")
}

func TestReadClassic(t *testing.T) {
	const member = "0001 6d 0001 63 0001 68 00000001 00000001 00000000 00000000"
	for _, c := range []struct {
		name, hex string
		want      classicFields
	}{
		{"version 0", "0000 0008 636f6e73756d6572 00000002 ffff ffff 00000000", classicFields{"consumer", 2, -1, 0}},
		{"version 1", "0001 0000 00000000 0001 70 0001 6c 00000001" + member, classicFields{"", 0, -1, 1}},
		{"version 2", "0002 0008 636f6e73756d6572 00000002 ffff ffff 0000018bcfe56800 00000000", classicFields{"consumer", 2, at0, 0}},
		{"version 3", "0003 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6c 0000018bcfe56800 00000002" + member + member, classicFields{"consumer", 2, at0, 2}},
		{"version 4", "0004 09 636f6e73756d6572 00000002 00 00 0000018bcfe56800 01 00", classicFields{"consumer", 2, at0, 0}},
	} {
		if got, err := readClassic(unhex(c.hex)); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for name, h := range map[string]string{
		"empty": "", "newer": "0005 09", "cut": "0003 0008 636f", "more members than bytes": "0000 0000 00000000 ffff ffff 7fffffff",
	} {
		if got, err := readClassic(unhex(h)); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}
