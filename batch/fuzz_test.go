package batch

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// known tells whether an error is one that callers can handle.
func known(err error) bool {
	for _, e := range []error{
		ErrShort, ErrCorrupt, ErrLegacyMagic, ErrInvalidRecord, ErrInvalidTimestamp, ErrTooLarge, ErrUnsupportedCodec,
		ErrDecompressedTooLarge,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return err == nil
}

// seeds are batches of all kinds.
func seeds(f *testing.F, add func(b []byte)) {
	for _, s := range []string{goldenPlain, goldenCommit, goldenEmpty} {
		add(unhex(f, s))
	}
	files, _ := filepath.Glob("testdata/captured/*/record*.hex")
	more, _ := filepath.Glob("testdata/captured/rskafka/*.hex")
	for _, file := range append(files, more...) {
		add(readHex(f, file))
	}
	add(AppendMarker(nil, Marker{}))
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		o := Plain
		o.Codec = codec
		add(build(f, o, plain{0, 5, []byte("k"), []byte(strings.Repeat("value", 20)), []RecordHeader{{"h", nil}}}, plain{}))
	}
}

func FuzzParse(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Parse(data)
		if !known(err) {
			t.Fatal(err)
		}
		checked := Batch(data).Check()
		if !known(checked) {
			t.Fatal(checked)
		}
		if err != nil {
			if checked == nil {
				t.Fatalf("Parse: %v, but Check takes it", err)
			}
			return
		}
		if size, err := Frame(data); err != nil || size != int64(len(b)) {
			t.Fatalf("Frame: %d, %v; want %d", size, err, len(b))
		}
		h := b.Header()
		if h.Size != len(b) || h.LastOffset() != b.LastOffset() || h.LastSequence() != b.LastSequence() {
			t.Fatalf("%+v, %v", h, b)
		}
		if checked == nil && b.NextOffset() < b.BaseOffset() {
			t.Fatalf("next offset %d before base offset %d", b.NextOffset(), b.BaseOffset())
		}
	})
}

func FuzzValidate(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b, false, uint8(0)) })
	f.Fuzz(func(t *testing.T, data []byte, seal bool, flags uint8) {
		b := Batch(data)
		if seal && len(b) >= HeaderSize { // or the checksum hides everything
			reseal(b)
		}
		rules := Rules{
			KeysRequired: flags&1 != 0, Timestamps: TimestampType(flags >> 1 & 1), Coordinator: flags&4 != 0,
			Now: goldenTime, BeforeMax: int64(flags >> 3 & 1), AfterMax: int64(flags >> 4 & 1), DecompressedMax: 1 << 20,
		}
		v, err := rules.Validate(b)
		if !known(err) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		// What the leader takes, recovery and readers take.
		if flags&4 == 0 {
			if err := b.Check(); err != nil {
				t.Fatalf("Check: %v", err)
			}
		}
		records, err := readAll(b)
		if err != nil || len(records) != int(b.RecordCount()) {
			t.Fatalf("%d records of %d: %v", len(records), b.RecordCount(), err)
		}
		if b.Timestamps() == LogAppendTime || rules.Timestamps == LogAppendTime {
			return
		}
		largest := Validated{None, None}
		for _, r := range records {
			if r.timestamp > largest.MaxTimestamp {
				largest = Validated{r.timestamp, r.offset - b.BaseOffset()}
			}
		}
		if v != largest {
			t.Fatalf("%+v, want %+v", v, largest)
		}
	})
}

func FuzzRecords(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Parse(data)
		if err != nil {
			return
		}
		records := Records{Limit: 1 << 20}
		defer records.Close()
		n, size := 0, 0
		for records.Reset(b); records.Next(); n++ {
			r := records.Record()
			size += r.Size
			headers := 0
			for range r.Headers.All() {
				headers++
			}
			if headers != r.Headers.Len() {
				t.Fatalf("%d headers, want %d", headers, r.Headers.Len())
			}
		}
		if err := records.Err(); !known(err) {
			t.Fatal(err)
		} else if err == nil && (n != int(b.RecordCount()) || size != len(records.b)) {
			t.Fatalf("%d records of %d, %d bytes of %d, and no error", n, b.RecordCount(), size, len(records.b))
		}
	})
}

func FuzzReadMarker(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Parse(data)
		if err != nil {
			return
		}
		m, ok, err := ReadMarker(b)
		if !known(err) || ok && err != nil {
			t.Fatal(ok, err)
		}
		if !ok {
			return
		}
		again, ok, err := ReadMarker(AppendMarker(nil, m))
		if again != m || !ok || err != nil {
			t.Fatalf("%+v, %v, %v; want %+v", again, ok, err, m)
		}
	})
}

// fuzzDecompress feeds a decompressor, and compresses what comes out again.
func fuzzDecompress(f *testing.F, c Codec) {
	for _, data := range [][]byte{nil, []byte("a"), []byte(strings.Repeat("some text ", 30)), make([]byte, 70_000)} {
		packed, err := Compress(nil, data, c, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	for _, claim := range claims(f) {
		if claim.codec == c {
			f.Add(claim.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 20
		out, err := Decompress([]byte("before"), data, c, limit)
		if !known(err) || string(out[:6]) != "before" || len(out) > 6+limit {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		if err != nil {
			if len(out) != 6 {
				t.Fatalf("%d bytes and %v", len(out), err)
			}
			return
		}
		packed, err := Compress(nil, out, c, 0)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decompress(nil, packed, c, 0); err != nil || string(again) != string(out) {
			t.Fatalf("%d bytes come back as %d: %v", len(out), len(again), err)
		}
	})
}

func FuzzGzip(f *testing.F)   { fuzzDecompress(f, CodecGzip) }
func FuzzSnappy(f *testing.F) { fuzzDecompress(f, CodecSnappy) }
func FuzzLZ4(f *testing.F)    { fuzzDecompress(f, CodecLZ4) }
func FuzzZstd(f *testing.F)   { fuzzDecompress(f, CodecZstd) }
