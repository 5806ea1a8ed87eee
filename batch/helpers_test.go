package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// unhex decodes hex with blanks and bars in it.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "", "|", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readHex(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return unhex(t, string(b))
}

// plain is a record that owns its bytes, to be compared.
type plain struct {
	offset, timestamp int64
	key, value        []byte
	headers           []RecordHeader
}

func equalBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func (p plain) equal(o plain) bool {
	if p.offset != o.offset || p.timestamp != o.timestamp || len(p.headers) != len(o.headers) ||
		!equalBytes(p.key, o.key) || !equalBytes(p.value, o.value) {
		return false
	}
	for i, h := range p.headers {
		if h.Key != o.headers[i].Key || !equalBytes(h.Value, o.headers[i].Value) {
			return false
		}
	}
	return true
}

// clone copies and keeps the difference of null and empty.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func (r *Record) plain() plain {
	return plain{r.Offset, r.Timestamp, clone(r.Key), clone(r.Value), r.Headers.Append(nil)}
}

// readAll reads the records of b.
func readAll(b Batch) ([]plain, error) {
	var records Records
	defer records.Close()
	var all []plain
	records.Reset(b)
	for records.Next() {
		all = append(all, records.Record().plain())
	}
	return all, records.Err()
}

func mustReadAll(t testing.TB, b Batch) []plain {
	t.Helper()
	all, err := readAll(b)
	if err != nil {
		t.Fatalf("%v: %v", b, err)
	}
	return all
}

// build makes a batch or fails.
func build(t testing.TB, o BuilderOptions, records ...plain) Batch {
	t.Helper()
	var w Builder
	w.Reset(nil, o)
	for _, r := range records {
		w.Add(r.timestamp, r.key, r.value, r.headers...)
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reseal gives b a right length and checksum after a test changed it.
func reseal(b Batch) Batch {
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-OverheadSize))
	binary.BigEndian.PutUint32(b[posCRC:], CRC(b))
	return b
}

// raw makes a batch of header fields and record bytes as they come.
func raw(h Header, records []byte) Batch {
	b := append(make(Batch, HeaderSize), records...)
	putHeader(b, &h)
	return b
}
