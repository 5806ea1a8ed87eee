package batch

import (
	"errors"
	"math"
	"testing"
)

// change gives a batch that is right but for what f did to it.
func change(t *testing.T, f func(h *Header)) Batch {
	b := Batch(unhex(t, goldenPlain))
	h := b.Header()
	f(&h)
	return raw(h, b[HeaderSize:])
}

func TestValidateHeader(t *testing.T) {
	for name, c := range map[string]struct {
		f           func(h *Header)
		client      error
		coordinator error
	}{
		"good":                           {func(h *Header) {}, nil, nil},
		"base offset 1":                  {func(h *Header) { h.BaseOffset = 1 }, ErrInvalidRecord, nil},
		"base offset -1":                 {func(h *Header) { h.BaseOffset = -1 }, ErrInvalidRecord, nil},
		"last offset delta -1":           {func(h *Header) { h.LastOffsetDelta = -1 }, ErrInvalidRecord, ErrInvalidRecord},
		"last offset delta 2^31-1":       {func(h *Header) { h.LastOffsetDelta = math.MaxInt32; h.RecordCount = math.MinInt32 }, ErrInvalidRecord, ErrInvalidRecord},
		"last offset delta 2 of 2":       {func(h *Header) { h.LastOffsetDelta = 2 }, ErrInvalidRecord, nil},
		"last offset delta 0 of 2":       {func(h *Header) { h.LastOffsetDelta = 0 }, ErrInvalidRecord, ErrInvalidRecord},
		"count 0":                        {func(h *Header) { h.RecordCount = 0 }, ErrInvalidRecord, ErrInvalidRecord},
		"count -1":                       {func(h *Header) { h.RecordCount = -1 }, ErrInvalidRecord, ErrInvalidRecord},
		"count 1 of 2":                   {func(h *Header) { h.RecordCount, h.LastOffsetDelta = 1, 0 }, ErrInvalidRecord, ErrInvalidRecord},
		"count 3 of 2":                   {func(h *Header) { h.RecordCount, h.LastOffsetDelta = 3, 2 }, ErrInvalidRecord, ErrInvalidRecord},
		"count 2^31-2":                   {func(h *Header) { h.RecordCount, h.LastOffsetDelta = math.MaxInt32, math.MaxInt32-1 }, ErrInvalidRecord, ErrInvalidRecord},
		"control":                        {func(h *Header) { h.Attributes |= attrControl }, ErrInvalidRecord, nil},
		"producer without sequence":      {func(h *Header) { h.Producer = Producer{9, 0} }, ErrInvalidRecord, nil},
		"producer with sequence -2":      {func(h *Header) { h.Producer, h.BaseSequence = Producer{9, 0}, -2 }, ErrInvalidRecord, nil},
		"producer":                       {func(h *Header) { h.Producer, h.BaseSequence = Producer{9, 0}, 0 }, nil, nil},
		"producer without epoch":         {func(h *Header) { h.Producer, h.BaseSequence = Producer{9, -1}, 0 }, ErrInvalidRecord, ErrInvalidRecord},
		"transactional":                  {func(h *Header) { h.Producer, h.BaseSequence, h.Attributes = Producer{9, 0}, 0, attrTransactional }, nil, nil},
		"transactional without producer": {func(h *Header) { h.Attributes = attrTransactional }, ErrInvalidRecord, ErrInvalidRecord},
		"codec 5":                        {func(h *Header) { h.Attributes = 5 }, ErrUnsupportedCodec, ErrUnsupportedCodec},
		"codec 7":                        {func(h *Header) { h.Attributes = 7 }, ErrUnsupportedCodec, ErrUnsupportedCodec},
		"codec of other data":            {func(h *Header) { h.Attributes = int16(CodecLZ4) }, ErrCorrupt, ErrCorrupt},
		"unused attributes":              {func(h *Header) { h.Attributes = 0x7f80 }, nil, nil},
		"delete horizon":                 {func(h *Header) { h.Attributes = attrDeleteHorizon }, nil, nil},
		"leader epoch":                   {func(h *Header) { h.LeaderEpoch = 7 }, nil, nil},
		"wrong maximum":                  {func(h *Header) { h.MaxTimestamp = 3 }, nil, nil},
		"append time":                    {func(h *Header) { h.Attributes = attrAppendTime }, nil, nil},
		"append time without a time":     {func(h *Header) { h.Attributes, h.MaxTimestamp = attrAppendTime, -1 }, ErrInvalidTimestamp, ErrInvalidTimestamp},
	} {
		b := change(t, c.f)
		for _, coordinator := range []bool{false, true} {
			want := c.client
			if coordinator {
				want = c.coordinator
			}
			rules := Rules{Coordinator: coordinator}
			v, err := rules.Validate(b)
			if !errors.Is(err, want) {
				t.Errorf("%s, coordinator %v: %v, want %v", name, coordinator, err, want)
			} else if err == nil && v.MaxTimestamp != goldenTime+7 {
				t.Errorf("%s, coordinator %v: largest timestamp %d, want that of the records", name, coordinator, v.MaxTimestamp)
			}
		}
	}
	marker := AppendMarker(nil, Marker{Producer: Producer{9, 0}, Timestamp: 5})
	if _, err := (&Rules{Coordinator: true}).Validate(marker); err != nil {
		t.Errorf("marker of a coordinator: %v", err)
	}
}

func TestValidateFrame(t *testing.T) {
	golden := unhex(t, goldenPlain)
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":      {nil, ErrInvalidRecord},
		"cut off":      {golden[:80], ErrInvalidRecord},
		"two batches":  {append(clone(golden), golden...), ErrInvalidRecord},
		"magic 1":      {append(append(clone(golden[:posMagic]), 1), golden[posCRC:]...), ErrLegacyMagic},
		"CRC":          {append(clone(golden[:83]), 1), ErrCorrupt},
		"no batch yet": {golden[:10], ErrInvalidRecord},
	} {
		if _, err := new(Rules).Validate(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := (&Rules{SizeMax: 83}).Validate(golden); !errors.Is(err, ErrTooLarge) {
		t.Errorf("84 of 83: %v, want ErrTooLarge", err)
	}
	if _, err := (&Rules{SizeMax: 84}).Validate(golden); err != nil {
		t.Errorf("84 of 84: %v", err)
	}
}

// TestValidateRecords: the same damage is found in plain and in compressed
// batches.
func TestValidateRecords(t *testing.T) {
	for name, c := range map[string]struct {
		records string
		want    error
	}{
		"smallest":                 {"0c 00 00 00 01 01 00", nil},
		"attributes set":           {"0c ff 00 00 01 01 00", nil},
		"null of another length":   {"0c 00 00 00 03 05 00", nil},
		"length 0":                 {"00 00 00 00 01 01 00", ErrInvalidRecord},
		"length negative":          {"01 00 00 00 01 01 00", ErrInvalidRecord},
		"length one too large":     {"0e 00 00 00 01 01 00", ErrInvalidRecord},
		"length one too small":     {"0a 00 00 00 01 01 00", ErrInvalidRecord},
		"length endless":           {"ff ff ff ff ff 01 00", ErrInvalidRecord},
		"bytes behind the headers": {"0e 00 00 00 01 01 00 00", ErrInvalidRecord},
		"key past the end":         {"0c 00 00 00 08 01 00", ErrInvalidRecord},
		"key of 2^31-1":            {"14 00 00 00 fe ff ff ff 0f 01 00", ErrInvalidRecord},
		"value past the end":       {"0c 00 00 00 01 08 00", ErrInvalidRecord},
		"header count negative":    {"0c 00 00 00 01 01 01", ErrInvalidRecord},
		"header count too large":   {"0c 00 00 00 01 01 02", ErrInvalidRecord},
		"header count 2^31-1":      {"14 00 00 00 01 01 fe ff ff ff 0f", ErrInvalidRecord},
		"header key null":          {"10 00 00 00 01 01 02 01 01", ErrInvalidRecord},
		"header key past the end":  {"10 00 00 00 01 01 02 06 01", ErrInvalidRecord},
		"header value past end":    {"10 00 00 00 01 01 02 00 02", ErrInvalidRecord},
		"header empty, null":       {"10 00 00 00 01 01 02 00 01", nil},
		"bytes behind the record":  {"0c 00 00 00 01 01 00 00", ErrInvalidRecord},
		"second record":            {"0c 00 00 00 01 01 00 0c 00 00 02 01 01 00", ErrInvalidRecord},
		"offset delta 1":           {"0c 00 00 02 01 01 00", ErrInvalidRecord},
		"offset delta -1":          {"0c 00 00 01 01 01 00", ErrInvalidRecord},
		"nothing":                  {"", ErrInvalidRecord},
	} {
		for codec := CodecNone; codec <= CodecZstd; codec++ {
			h := Header{Attributes: int16(codec), Producer: NoProducer, BaseSequence: None, RecordCount: 1, BaseTimestamp: 5}
			data, err := Compress(nil, unhex(t, c.records), codec, 0)
			if err != nil {
				t.Fatal(err)
			}
			b := raw(h, data)
			if _, err := new(Rules).Validate(b); !errors.Is(err, c.want) {
				t.Errorf("%v, %s: %v, want %v", codec, name, err, c.want)
			}
			// Reading is as strict, but for the offsets.
			want := c.want
			if name == "offset delta 1" || name == "offset delta -1" {
				want = nil
			}
			if _, err := readAll(b); !errors.Is(err, want) {
				t.Errorf("%v, %s: read: %v, want %v", codec, name, err, want)
			}
		}
	}
}

func TestValidateTimestamps(t *testing.T) {
	const now = goldenTime
	times := func(ts ...int64) []plain {
		var all []plain
		for i, v := range ts {
			all = append(all, plain{int64(i), v, []byte("k"), nil, nil})
		}
		return all
	}
	for name, c := range map[string]struct {
		rules   Rules
		records []plain
		want    Validated
		err     error
	}{
		"none":              {Rules{}, times(-1, -1), Validated{None, None}, nil},
		"out of order":      {Rules{}, times(10, 30, 20), Validated{30, 1}, nil},
		"twice the largest": {Rules{}, times(10, 30, 30), Validated{30, 1}, nil},
		"some have none":    {Rules{}, times(-1, 0, -1), Validated{0, 1}, nil},
		"just in time": {
			Rules{Now: now, BeforeMax: 100, AfterMax: 50}, times(now-100, now+50, -1), Validated{now + 50, 1}, nil},
		"too old":    {Rules{Now: now, BeforeMax: 100, AfterMax: 50}, times(now, now-101), Validated{}, ErrInvalidTimestamp},
		"too new":    {Rules{Now: now, BeforeMax: 100, AfterMax: 50}, times(now, now+51), Validated{}, ErrInvalidTimestamp},
		"no bound":   {Rules{Now: now}, times(0, math.MaxInt64), Validated{math.MaxInt64, 1}, nil},
		"huge bound": {Rules{Now: now, BeforeMax: math.MaxInt64, AfterMax: math.MaxInt64}, times(0, math.MaxInt64), Validated{math.MaxInt64, 1}, nil},
		"append time": {
			Rules{Now: now, BeforeMax: 100, AfterMax: 50, Timestamps: LogAppendTime}, times(now-101, now+51), Validated{now + 51, 1}, nil},
	} {
		for codec := CodecNone; codec <= CodecZstd; codec++ {
			o := Plain
			o.Codec = codec
			v, err := c.rules.Validate(build(t, o, c.records...))
			if v != c.want || !errors.Is(err, c.err) {
				t.Errorf("%v, %s: %+v, %v; want %+v, %v", codec, name, v, err, c.want, c.err)
			}
		}
	}
	// Timestamps that only bytes, and no Builder, can hold.
	for name, c := range map[string]struct{ base, delta int64 }{
		"below -1":            {0, -2},
		"base below -1":       {-5, 0},
		"overflow":            {math.MaxInt64, 1},
		"overflow downwards":  {-1, math.MinInt64},
		"overflow to a value": {math.MinInt64, math.MinInt64},
	} {
		record := appendVarlong([]byte{0}, c.delta)
		record = append(record, 0, 1, 1, 0)
		record = append(appendVarlong(nil, int64(len(record))), record...)
		b := raw(Header{BaseTimestamp: c.base, Producer: NoProducer, BaseSequence: None, RecordCount: 1}, record)
		if _, err := new(Rules).Validate(b); !errors.Is(err, ErrInvalidTimestamp) {
			t.Errorf("%s: %v, want ErrInvalidTimestamp", name, err)
		}
		if _, err := (&Rules{Timestamps: LogAppendTime}).Validate(b); err != nil {
			t.Errorf("%s: %v, want nil, as the time will be another", name, err)
		}
	}
}

// TestValidateOrder: which of several errors is told.
func TestValidateOrder(t *testing.T) {
	rules := Rules{Now: goldenTime, AfterMax: 10, KeysRequired: true}
	b := build(t, Plain, plain{timestamp: goldenTime}, plain{timestamp: goldenTime + 11, key: []byte("k")})
	var record *RecordError
	if _, err := rules.Validate(b); !errors.Is(err, ErrInvalidTimestamp) || !errors.As(err, &record) || record.Index != 1 {
		t.Errorf("null key, then late: %v, want ErrInvalidTimestamp of record 1", err)
	}
	b = build(t, Plain, plain{timestamp: goldenTime}, plain{key: []byte("k")})
	if _, err := rules.Validate(b); !errors.Is(err, ErrInvalidRecord) || !errors.As(err, &record) || record.Index != 0 {
		t.Errorf("null key: %v, want ErrInvalidRecord of record 0", err)
	}
	b = build(t, Plain, plain{timestamp: goldenTime + 11}, plain{key: []byte("k")})
	b[len(b)-1] = 1
	if _, err := rules.Validate(reseal(b)); !errors.Is(err, ErrInvalidRecord) || !errors.As(err, &record) || record.Index != 1 {
		t.Errorf("late, then damage: %v, want ErrInvalidRecord of record 1", err)
	}
}
