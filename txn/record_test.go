package txn

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	at0 = 1_700_000_000_000
	// What Kafka writes for transactional id my-txn, producer 4000, a minute of
	// timeout, and partitions 0 and 1 of topic t.
	keyHex          = "000000066d792d74786e"
	emptyV0Hex      = "00000000000000000fa000000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"
	ongoingV0Hex    = "00000000000000000fa000000000ea6001000000010001740000000200000000000000010000018bcfe568000000018bcfe56800"
	emptyHex        = "00010000000000000fa000000000ea6000000000018bcfe56800ffffffffffffffff0100080000000000000fa0"
	ongoingHex      = "00010000000000000fa000000000ea6001020274030000000000000001000000018bcfe568000000018bcfe568000200080000000000000fa002020002"
	prepareHex      = "00010000000000000fa000010000ea6002020274030000000000000001000000018bcfe568640000018bcfe568000200080000000000000fa002020002"
	completeHex     = "00010000000000000fa000010000ea6004010000018bcfe568c80000018bcfe568000200080000000000000fa002020002"
	unknownTagHex   = "00010000000000000fa000000000ea6000000000018bcfe56800ffffffffffffffff0200080000000000000fa0630201ff"
	newerVersionHex = "0002000000"
)

var both = []topic.Partition{{Topic: "t", Index: 0}, {Topic: "t", Index: 1}}

func kept(state State, epoch, last int16, version int16, partitions []topic.Partition, start, updated int64) Transaction {
	return Transaction{
		Producer: batch.Producer{ID: 4000, Epoch: epoch}, PrevID: 4000, NextID: -1, LastEpoch: last, NextEpoch: -1,
		TimeoutMs: 60_000, State: state, Partitions: partitions, StartMs: start, UpdatedMs: updated, ClientVersion: version,
	}
}

// Bytes as Kafka's brokers write them.
func TestRecords(t *testing.T) {
	if got := AppendKey(nil, "my-txn"); !bytes.Equal(got, unhex(t, keyHex)) {
		t.Errorf("key %x, want %s", got, keyHex)
	}
	if id, err := ReadKey(unhex(t, keyHex)); err != nil || id != "my-txn" {
		t.Errorf("key read as %q, %v", id, err)
	}
	for _, c := range []struct {
		name, hex string
		want      Transaction
		v0        bool
	}{
		{"empty", emptyHex, kept(Empty, 0, -1, 0, nil, -1, at0), false},
		{"ongoing", ongoingHex, kept(Ongoing, 0, -1, 2, both, at0, at0), false},
		{"prepare commit", prepareHex, kept(PrepareCommit, 1, 0, 2, both, at0, at0+100), false},
		{"complete commit", completeHex, kept(CompleteCommit, 1, 0, 2, nil, at0, at0+200), false},
		{"empty v0", emptyV0Hex, kept(Empty, 0, -1, 0, nil, -1, at0), true},
		{"ongoing v0", ongoingV0Hex, kept(Ongoing, 0, -1, 0, both, at0, at0), true},
		{"unknown tag", unknownTagHex, kept(Empty, 0, -1, 0, nil, -1, at0), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadValue(unhex(t, c.hex))
			if c.v0 && c.name != "unknown tag" {
				c.want.PrevID = -1 // version 0 does not say it
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("read as %+v, %v, want %+v", got, err, c.want)
			}
			if c.v0 {
				return
			}
			if b := AppendValue(nil, &c.want); !bytes.Equal(b, unhex(t, c.hex)) {
				t.Errorf("written as %x, want %s", b, c.hex)
			}
		})
	}
}

// What Kafka has no field for survives too: which epoch the client had before.
func TestRecordsLastEpoch(t *testing.T) {
	for _, want := range []Transaction{
		kept(Empty, 3, 2, 0, nil, -1, at0),
		kept(CompleteAbort, 0, 32766, 2, nil, at0, at0),
		kept(PrepareAbort, 5, -1, 0, both, at0, at0),
		kept(CompleteCommit, 5, -1, 2, nil, at0, at0),
	} {
		if got, err := ReadValue(AppendValue(nil, &want)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
}

func TestRecordsDamaged(t *testing.T) {
	if _, err := ReadValue(unhex(t, newerVersionHex)); !errors.Is(err, errVersion) {
		t.Errorf("version 2: %v, want that it is not known", err)
	}
	if _, err := ReadKey([]byte{0, 9, 0, 0}); !errors.Is(err, errVersion) {
		t.Errorf("key version 9: %v, want that it is not known", err)
	}
	for _, h := range []string{emptyHex, ongoingHex, ongoingV0Hex} {
		b := unhex(t, h)
		for n := range len(b) {
			if _, err := ReadValue(b[:n]); err == nil {
				t.Errorf("%s cut to %d bytes is read", h, n)
			}
		}
		if _, err := ReadValue(append(b, 0)); err == nil {
			t.Errorf("%s with a byte behind it is read", h)
		}
	}
}

func FuzzReadValue(f *testing.F) {
	for _, h := range []string{emptyHex, ongoingHex, prepareHex, completeHex, emptyV0Hex, ongoingV0Hex, unknownTagHex, newerVersionHex} {
		f.Add(unhex(f, h))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadValue(b)
		if err != nil {
			return
		}
		if got.State == Empty {
			got.Partitions = nil // it is written as null
		}
		again, err := ReadValue(AppendValue(nil, &got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%+v is written and read as %+v, %v", got, again, err)
		}
	})
}

func FuzzReadKey(f *testing.F) {
	f.Add(unhex(f, keyHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := ReadKey(b); err == nil && !bytes.Equal(AppendKey(nil, id), b) {
			t.Errorf("%x is the key of %q, which is written as %x", b, id, AppendKey(nil, id))
		}
	})
}

// Values of Java's String.hashCode, and the partitions of 50 that Kafka takes.
func TestPartitionOf(t *testing.T) {
	for _, c := range []struct {
		id   string
		hash int32
		want int
	}{
		{"", 0, 0}, {"a", 97, 47}, {"my-txn", -1061187895, 45}, {"transactional-id", 510590431, 31}, {"my-group", -1906497762, 12},
		{"grüße", 98768023, 23}, {"日本語", 25921943, 43}, {"𝄞clef", 463595828, 28}, {"polygenelubricants", -2147483648, 0},
	} {
		if got := PartitionOf(c.id, 50); javaHash(c.id) != c.hash || got != c.want {
			t.Errorf("%q has hash %d and partition %d, want %d and %d", c.id, javaHash(c.id), got, c.hash, c.want)
		}
	}
}
