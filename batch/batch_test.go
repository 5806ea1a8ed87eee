package batch

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"testing"
)

// Vectors made and checked with a decoder that is not ours.
const (
	// Two records, no producer: (k, v1) and (null, null) 7 ms later with
	// headers h = null, x = "".
	goldenPlain = `00 00 00 00 00 00 00 00  00 00 00 48  ff ff ff ff  02  3b 14 6c 59  00 00  00 00 00 01
		00 00 01 8b cf e5 68 00  00 00 01 8b cf e5 68 07  ff ff ff ff ff ff ff ff  ff ff  ff ff ff ff  00 00 00 02
		12 00 00 00 02 6b 04 76 31 00 | 18 00 0e 02 01 01 04 02 68 01 02 78 00`
	// A COMMIT marker at offset 5, leader epoch 3.
	goldenCommit = `00 00 00 00 00 00 00 05  00 00 00 42  00 00 00 03  02  0a 1b a2 00  00 30  00 00 00 00
		00 00 01 8b cf e5 68 00  00 00 01 8b cf e5 68 00  00 00 00 00 00 00 23 28  00 07  ff ff ff ff  00 00 00 01
		20 00 00 00 08 00 00 00 01 0c 00 00 00 00 00 2a 00`
	// A header that compaction left of a transactional batch.
	goldenEmpty = `00 00 00 00 00 00 00 64  00 00 00 31  00 00 00 03  02  95 78 48 04  00 10  00 00 00 04
		ff ff ff ff ff ff ff ff  00 00 01 8b cf e5 68 00  00 00 00 00 00 00 23 28  00 07  7f ff ff fd  00 00 00 00`

	goldenTime = 1700000000000
)

func TestGoldenPlain(t *testing.T) {
	bytes := unhex(t, goldenPlain)
	b, err := Parse(append(bytes, 1, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	want := Header{
		Size: 84, LeaderEpoch: -1, CRC: 0x3b146c59, LastOffsetDelta: 1, BaseTimestamp: goldenTime,
		MaxTimestamp: goldenTime + 7, Producer: NoProducer, BaseSequence: None, RecordCount: 2,
	}
	if got := b.Header(); got != want {
		t.Errorf("header %+v, want %+v", got, want)
	}
	records := []plain{
		{0, goldenTime, []byte("k"), []byte("v1"), nil},
		{1, goldenTime + 7, nil, nil, []RecordHeader{{"h", nil}, {"x", []byte{}}}},
	}
	for i, got := range mustReadAll(t, b) {
		if !got.equal(records[i]) {
			t.Errorf("record %d: %+v, want %+v", i, got, records[i])
		}
	}
	if got := build(t, Plain, records...); string(got) != string(b) {
		t.Errorf("built\n%x, want\n%x", got, b)
	}
	v, err := new(Rules).Validate(b)
	if want := (Validated{MaxTimestamp: goldenTime + 7, OffsetOfMax: 1}); err != nil || v != want {
		t.Errorf("Validate: %+v, %v; want %+v", v, err, want)
	}
}

func TestGoldenEmpty(t *testing.T) {
	b, err := Parse(unhex(t, goldenEmpty))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if got := mustReadAll(t, b); len(got) != 0 {
		t.Errorf("records %v, want none", got)
	}
	if b.LastOffset() != 104 || b.NextOffset() != 105 || b.LastSequence() != 1 {
		t.Errorf("last offset %d, next %d, last sequence %d; want 104, 105, 1", b.LastOffset(), b.NextOffset(), b.LastSequence())
	}
	if _, err := new(Rules).Validate(b); !errors.Is(err, ErrInvalidRecord) {
		t.Errorf("Validate: %v, want ErrInvalidRecord", err)
	}
}

// TestCRC compares with values of another implementation.
func TestCRC(t *testing.T) {
	if got := crc32.Checksum([]byte("123456789"), castagnoli); got != 0xE3069283 {
		t.Errorf("check value %08x", got)
	}
	text, err := os.ReadFile("testdata/captured/kafkajs/crc32c_samples.json")
	if err != nil {
		t.Fatal(err)
	}
	var samples []struct{ Input, CRC32C string }
	if err := json.Unmarshal(text, &samples); err != nil {
		t.Fatal(err)
	}
	if len(samples) == 0 {
		t.Fatal("no samples")
	}
	for _, s := range samples {
		b := append(make(Batch, posAttributes), s.Input...)
		if got := fmt.Sprint(CRC(b)); got != s.CRC32C {
			t.Errorf("CRC %s, want %s", got, s.CRC32C)
		}
	}
}

func TestParse(t *testing.T) {
	golden := unhex(t, goldenPlain)
	with := func(pos int, bytes ...byte) []byte {
		b := clone(golden)
		copy(b[pos:], bytes)
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":            {nil, ErrShort},
		"one byte short":     {golden[:len(golden)-1], ErrShort},
		"16 bytes":           {golden[:MagicEnd-1], ErrShort},
		"17 bytes":           {golden[:MagicEnd], ErrShort},
		"length 13":          {with(posLength, 0, 0, 0, 13), ErrCorrupt},
		"length 0":           {make([]byte, 100), ErrCorrupt},
		"length negative":    {with(posLength, 0xff), ErrCorrupt},
		"length 48":          {with(posLength, 0, 0, 0, 48), ErrCorrupt},
		"length 2^31-1":      {with(posLength, 0x7f, 0xff, 0xff, 0xff), ErrShort},
		"magic -1":           {with(posMagic, 0xff), ErrCorrupt},
		"magic 3":            {with(posMagic, 3), ErrCorrupt},
		"magic 0":            {with(posMagic, 0), ErrLegacyMagic},
		"magic 1":            {with(posMagic, 1), ErrLegacyMagic},
		"magic 1, length 13": {with(posLength, 0, 0, 0, 13, 0, 0, 0, 0, 1), ErrCorrupt},
		"good":               {golden, nil},
	} {
		if _, err := Parse(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	var format *FormatError
	if _, err := Parse(with(posMagic, 3)); !errors.As(err, &format) || format.Pos != posMagic {
		t.Errorf("magic 3: %+v, want a FormatError at %d", err, posMagic)
	}
	var legacy *MagicError
	if size, err := Frame(with(posMagic, 1)); size != 84 || !errors.As(err, &legacy) || legacy.Magic != 1 {
		t.Errorf("magic 1: size %d, %v; want 84 and a MagicError", size, err)
	}
}

func TestCheck(t *testing.T) {
	golden := unhex(t, goldenPlain)
	with := func(pos int, value uint64, size int) Batch {
		b := Batch(clone(golden))
		var v [8]byte
		binary.BigEndian.PutUint64(v[:], value)
		copy(b[pos:pos+size], v[8-size:])
		return reseal(b)
	}
	for name, c := range map[string]struct {
		b    Batch
		want error
	}{
		"good":                     {golden, nil},
		"nothing":                  {nil, ErrShort},
		"a byte behind":            {append(clone(golden), 0), ErrCorrupt},
		"base offset -1":           {with(posBaseOffset, math.MaxUint64, 8), ErrCorrupt},
		"base offset at the end":   {with(posBaseOffset, math.MaxInt64-1, 8), ErrCorrupt},
		"base offset just fits":    {with(posBaseOffset, math.MaxInt64-2, 8), nil},
		"last offset delta -1":     {with(posLastOffsetDelta, math.MaxUint32, 4), ErrCorrupt},
		"record count -1":          {with(posRecordCount, math.MaxUint32, 4), ErrCorrupt},
		"fewer records than delta": {with(posLastOffsetDelta, 9, 4), nil},
		"codec 7":                  {with(posAttributes, 7, 2), nil},
		"CRC":                      {append(clone(golden[:len(golden)-1]), 1), ErrCorrupt},
	} {
		if err := c.b.Check(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestFlippedByte changes each byte of good batches. Both doors find all of
// them, but for fields outside of the checksum: the leader epoch, which the
// leader sets itself, and, for Check, the base offset.
func TestFlippedByte(t *testing.T) {
	for _, codec := range []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd} {
		o := Plain
		o.Codec = codec
		good := build(t, o, mustReadAll(t, unhex(t, goldenPlain))...)
		for i := range good {
			for bit := range 8 {
				b := Batch(clone(good))
				b[i] ^= 1 << bit
				if _, err := new(Rules).Validate(b); (err == nil) != (i >= posLeaderEpoch && i < posMagic) {
					t.Errorf("%v: byte %d, bit %d: Validate: %v", codec, i, bit, err)
				} else if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrInvalidRecord) && !errors.Is(err, ErrLegacyMagic) && !errors.Is(err, ErrTooLarge) {
					t.Errorf("%v: byte %d, bit %d: Validate: %v, want ErrCorrupt or ErrInvalidRecord", codec, i, bit, err)
				}
				outside := i < posLength && (i > 0 || bit < 7) || i >= posLeaderEpoch && i < posMagic
				if err := b.Check(); (err == nil) != outside {
					t.Errorf("%v: byte %d, bit %d: Check: %v", codec, i, bit, err)
				}
			}
		}
	}
}

func TestStampKeepsCRC(t *testing.T) {
	b := Batch(unhex(t, goldenPlain))
	b.Stamp(1<<40, 77)
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if b.BaseOffset() != 1<<40 || b.LeaderEpoch() != 77 || b.CRC() != 0x3b146c59 {
		t.Errorf("%v, epoch %d", b, b.LeaderEpoch())
	}
}

func TestSetMaxTimestamp(t *testing.T) {
	b := Batch(unhex(t, goldenPlain))
	b.SetMaxTimestamp(CreateTime, goldenTime+7)
	if b.CRC() != 0x3b146c59 {
		t.Error("nothing to change, but the checksum is another")
	}
	b.SetMaxTimestamp(LogAppendTime, 5)
	if b.CRC() == 0x3b146c59 || b.Check() != nil || b.Timestamps() != LogAppendTime || b.MaxTimestamp() != 5 {
		t.Errorf("%v: %v %d, CRC %08x, %v", b, b.Timestamps(), b.MaxTimestamp(), b.CRC(), b.Check())
	}
	for _, r := range mustReadAll(t, b) {
		if r.timestamp != 5 {
			t.Errorf("record %d has timestamp %d, want that of the append", r.offset, r.timestamp)
		}
	}
	b.SetMaxTimestamp(CreateTime, goldenTime+7)
	if string(b) != string(unhex(t, goldenPlain)) {
		t.Error("changed back, but not the same")
	}
}
