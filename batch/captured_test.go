package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
)

// found is what a message holds, found without knowing its protocol: at each
// position where a batch with a right checksum begins.
func found(message []byte) string {
	var batches []string
	legacy := 0
	for pos := range message {
		b, err := Parse(message[pos:])
		switch {
		case err == nil && b.Check() == nil:
			batches = append(batches, fmt.Sprintf("%d:%d:%d", pos, b.Codec(), b.RecordCount()))
		case errors.Is(err, ErrLegacyMagic):
			size, _ := Frame(message[pos:])
			end := int64(pos) + size
			if end <= int64(len(message)) &&
				crc32.ChecksumIEEE(message[pos+posMagic:end]) == binary.BigEndian.Uint32(message[pos+posLeaderEpoch:]) {
				legacy++
			}
		}
	}
	if len(batches) == 0 {
		batches = []string{"none"}
	}
	return fmt.Sprintf("v2=%s legacy=%d", strings.Join(batches, ","), legacy)
}

// TestCaptured finds the batches in messages of many clients and brokers, as
// another decoder found them, and reads them.
func TestCaptured(t *testing.T) {
	list, err := os.ReadFile("testdata/captured/batches.txt")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for line := range strings.Lines(string(list)) {
		file, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		message := readHex(t, "testdata/captured/"+file)
		if got := found(message); got != want {
			t.Errorf("%s: found %s, want %s", file, got, want)
			continue
		}
		for pos := range message {
			b, err := Parse(message[pos:])
			if err != nil || b.Check() != nil {
				continue
			}
			records, err := readAll(b)
			if file == "kafkajs/recordBatch.v0_recordbatch_zstd.hex" { // names no codec, see PROVENANCE.md
				if !errors.Is(err, ErrInvalidRecord) {
					t.Errorf("%s: %v, want ErrInvalidRecord", file, err)
				}
				continue
			}
			if err != nil || len(records) != int(b.RecordCount()) {
				t.Errorf("%s at %d: %d records, want %d: %v", file, pos, len(records), b.RecordCount(), err)
			}
			read += len(records)
		}
	}
	if read == 0 {
		t.Error("no records read")
	}
	t.Logf("%d records", read)
}

// TestCapturedRecords compares records with what the projects that captured
// the batches expect of them.
func TestCapturedRecords(t *testing.T) {
	header := []RecordHeader{{"foo", []byte("bar")}}
	x100 := []byte(strings.Repeat("x", 100))
	sarama := plain{0, 1479847795000 + 5, []byte{1, 2, 3, 4}, []byte{5, 6, 7}, []RecordHeader{{"\x08\x09\x0a", []byte{0x0b, 0x0c}}}}
	for file, want := range map[string][]plain{
		"rskafka/nocompression":                       {{0, 1641388919, []byte{}, []byte("hello kafka"), header}},
		"rskafka/gzip":                                {{0, 1643105170535, x100, []byte("hello kafka"), header}},
		"sarama/recordbatch.uncompressed_record":      {sarama},
		"sarama/recordbatch.gzipped_record":           {sarama},
		"sarama/recordbatch.snappy_compressed_record": {sarama},
		"sarama/recordbatch.lz4_compressed_record":    {sarama},
	} {
		got := mustReadAll(t, readHex(t, "testdata/captured/"+file+".hex"))
		if len(got) != len(want) {
			t.Errorf("%s: %d records, want %d", file, len(got), len(want))
			continue
		}
		for i := range got {
			if !got[i].equal(want[i]) {
				t.Errorf("%s: record %d: %+v, want %+v", file, i, got[i], want[i])
			}
		}
	}
	for _, file := range []string{"lz4", "snappy", "zstd"} {
		for _, r := range mustReadAll(t, readHex(t, "testdata/captured/rskafka/"+file+".hex")) {
			if !equalBytes(r.key, x100) || string(r.value) != "hello kafka" || len(r.headers) != 1 || r.headers[0].Key != "foo" {
				t.Errorf("rskafka/%s: %+v", file, r)
			}
		}
	}
	for _, r := range mustReadAll(t, readHex(t, "testdata/captured/rskafka/null_key.hex")) {
		if r.key != nil {
			t.Errorf("rskafka/null_key: key %q, want null", r.key)
		}
	}
}
