package batch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var compressing = []Codec{CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// payloads are data of all kinds, with sizes around those of blocks.
func payloads() map[string][]byte {
	random := make([]byte, 100_000)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	return map[string][]byte{
		"one byte":     {7},
		"text":         []byte(strings.Repeat("the quick brown fox ", 50)),
		"zeros":        make([]byte, 1<<18),
		"random":       random,
		"32 KiB":       random[:32<<10],
		"32 KiB and 1": random[:32<<10+1],
		"64 KiB":       random[:64<<10],
		"64 KiB and 1": random[:64<<10+1],
		"mixed":        append(make([]byte, 70_000), random...),
	}
}

func TestCompressRoundTrip(t *testing.T) {
	for name, want := range payloads() {
		for _, c := range append(compressing, CodecNone) {
			for _, level := range []int{0, -5, 1, 9, 99} {
				packed, err := Compress([]byte("a"), want, c, level)
				if err != nil || packed[0] != 'a' {
					t.Fatalf("%v, %s: %v", c, name, err)
				}
				got, err := Decompress([]byte("b"), packed[1:], c, len(want))
				if err != nil || got[0] != 'b' || !bytes.Equal(got[1:], want) {
					t.Errorf("%v level %d, %s: %d bytes, %v; want %d", c, level, name, len(got)-1, err, len(want))
				}
				if got, err := Decompress([]byte("b"), packed[1:], c, len(want)-1); len(want) > 1 && (!errors.Is(err, ErrDecompressedTooLarge) || string(got) != "b") {
					t.Errorf("%v level %d, %s: one byte too many: %d bytes, %v; want ErrDecompressedTooLarge", c, level, name, len(got)-1, err)
				}
			}
		}
	}
}

// TestTruncated cuts compressed data everywhere, and damages each byte.
func TestTruncated(t *testing.T) {
	want := []byte(strings.Repeat("some text, and more text; ", 20))
	for _, c := range compressing {
		packed, err := Compress(nil, want, c, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range packed {
			got, err := Decompress(nil, packed[:i], c, 0)
			// The header of a xerial stream alone is an empty stream.
			if !errors.Is(err, ErrCorrupt) && !(c == CodecSnappy && i == xerialHeaderSize && len(got) == 0) {
				t.Errorf("%v: %d of %d bytes: %d bytes, %v; want ErrCorrupt", c, i, len(packed), len(got), err)
			}
			damaged := clone(packed)
			damaged[i] ^= 0x55
			if _, err := Decompress(nil, damaged, c, 10_000); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrDecompressedTooLarge) {
				t.Errorf("%v: byte %d: %v", c, i, err)
			}
		}
	}
	if _, err := Decompress(nil, nil, 5, 0); !errors.Is(err, ErrUnsupportedCodec) {
		t.Errorf("codec 5: %v", err)
	}
	if _, err := Compress(nil, nil, 5, 0); !errors.Is(err, ErrUnsupportedCodec) {
		t.Errorf("codec 5: %v", err)
	}
}

type bomb struct {
	codec Codec
	data  []byte
}

// claims are data that say they were far larger.
func claims(t testing.TB) map[string]bomb {
	return map[string]bomb{
		"snappy claim":      {CodecSnappy, binary.AppendUvarint(nil, 1<<30)},
		"zstd content size": {CodecZstd, unhex(t, "28b52ffd a0 00000040 010000")},
		"zstd window":       {CodecZstd, unhex(t, "28b52ffd 00 ff 010000")},
	}
}

// bombs are small data that decompress to 32 MiB, and claims.
func bombs(t testing.TB) map[string]bomb {
	zeros := make([]byte, 1<<20)
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	for range 32 {
		if _, err := g.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	var zs bytes.Buffer
	e, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	for range 32 {
		if _, err := e.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var l bytes.Buffer
	w := lz4.NewWriter(&l)
	for range 32 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	snappy := []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01")
	block := s2.EncodeSnappy(nil, zeros)
	for range 32 {
		snappy = binary.BigEndian.AppendUint32(snappy, uint32(len(block)))
		snappy = append(snappy, block...)
	}
	all := claims(t)
	all["gzip"] = bomb{CodecGzip, z.Bytes()}
	all["zstd"] = bomb{CodecZstd, zs.Bytes()}
	all["lz4"] = bomb{CodecLZ4, l.Bytes()}
	all["snappy"] = bomb{CodecSnappy, snappy}
	return all
}

// TestBombs: memory stays near the limit, whatever the data says.
func TestBombs(t *testing.T) {
	const limit = 2 << 20
	for name, bomb := range bombs(t) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Decompress(nil, bomb.data, bomb.codec, limit)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrDecompressedTooLarge) && !errors.Is(err, ErrCorrupt) || len(got) != 0 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if !strings.Contains(name, " ") && !errors.Is(err, ErrDecompressedTooLarge) {
			t.Errorf("%s: %v, want ErrDecompressedTooLarge", name, err)
		}
		// All that was allocated, steps of growing included: twice the limit, a
		// block, and the codec itself.
		if used := after.TotalAlloc - before.TotalAlloc; used > 2*limit+16<<20 {
			t.Errorf("%s: %d bytes allocated", name, used)
		}
		if cap(got) > limit+5<<20 {
			t.Errorf("%s: capacity %d", name, cap(got))
		}
	}
}

func TestGzipMembers(t *testing.T) {
	first, _ := Compress(nil, []byte("one "), CodecGzip, 0)
	both, _ := Compress(first, []byte("two"), CodecGzip, 9)
	if got, err := Decompress(nil, both, CodecGzip, 0); string(got) != "one two" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Decompress(nil, append(clone(both), "garbage"...), CodecGzip, 0); string(got) != "one two" || err != nil {
		t.Errorf("garbage behind: %q, %v", got, err)
	}
	both[len(both)-1] ^= 1 // the size at the end
	if _, err := Decompress(nil, both, CodecGzip, 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("wrong size: %v", err)
	}
}

func TestSnappyFraming(t *testing.T) {
	const header = xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"
	block := func(s string) string {
		b := s2.EncodeSnappy(nil, []byte(s))
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) + string(b)
	}
	for name, c := range map[string]struct {
		data string
		want string
		err  error
	}{
		"one block":        {header + block("abc"), "abc", nil},
		"two blocks":       {header + block("abc") + block("def"), "abcdef", nil},
		"header again":     {header + block("abc") + header + block("def"), "abcdef", nil},
		"no block":         {header, "", nil},
		"version 2":        {xerialMagic + "\x00\x00\x00\x02\x00\x00\x00\x01" + block("abc"), "abc", nil},
		"version 0":        {xerialMagic + "\x00\x00\x00\x00\x00\x00\x00\x01" + block("abc"), "", ErrCorrupt},
		"bare block":       {string(s2.EncodeSnappy(nil, []byte("abc"))), "abc", nil},
		"bare, longer":     {string(s2.EncodeSnappy(nil, []byte(strings.Repeat("abc", 99)))), strings.Repeat("abc", 99), nil},
		"length too large": {header + "\x00\x00\x00\xff" + block("abc")[4:], "", ErrCorrupt},
		"length negative":  {header + "\xff\xff\xff\xff" + block("abc")[4:], "", ErrCorrupt},
		"length cut off":   {header + "\x00\x00", "", ErrCorrupt},
		"official framing": {"\xff\x06\x00\x00sNaPpY\x01\x05\x00\x00\x00\x00\x00\x00", "", ErrCorrupt},
		"offset 0, one":    {"\x08\x00a\x05\x00\x00a", "", ErrCorrupt}, // s2 would repeat
		"offset 0, two":    {"\x05\x00a\x0e\x00\x00", "", ErrCorrupt},
		"offset 0, four":   {"\x05\x00a\x0f\x00\x00\x00\x00", "", ErrCorrupt},
	} {
		got, err := Decompress(nil, []byte(c.data), CodecSnappy, 0)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.want, c.err)
		}
	}
	packed, _ := Compress(nil, make([]byte, xerialBlockSize+1), CodecSnappy, 0)
	if string(packed[:16]) != header {
		t.Errorf("header %x", packed[:16])
	}
}

func TestLZ4Framing(t *testing.T) {
	packed, err := Compress(nil, []byte(strings.Repeat("abc", 30)), CodecLZ4, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := unhex(t, "04 22 4d 18 60 40 82"); !bytes.Equal(packed[:7], want) {
		t.Errorf("header %x, want %x", packed[:7], want)
	}
	const stored = "03000080 616263" // "abc"
	for name, c := range map[string]struct {
		data string
		err  error
	}{
		"Kafka's":                   {"04224d18 60 40 82" + stored + "00000000", nil},
		"bytes behind":              {"04224d18 60 40 82" + stored + "00000000 ff", nil},
		"no end mark":               {"04224d18 60 40 82" + stored, ErrCorrupt},
		"checksum of magic 0":       {"04224d18 60 40 1a" + stored + "00000000", ErrCorrupt},
		"dependent blocks":          {"04224d18 40 40 c0" + stored + "00000000", ErrCorrupt},
		"4 MiB, content checksum":   {"04224d18 64 70 b9" + stored + "00000000 00000000", nil}, // not verified
		"content checksum cut off":  {"04224d18 64 70 b9" + stored + "00000000 0000", ErrCorrupt},
		"version 0":                 {"04224d18 20 40 82" + stored + "00000000", ErrCorrupt},
		"reserved flag":             {"04224d18 62 40 82" + stored + "00000000", ErrCorrupt},
		"dictionary":                {"04224d18 61 40 82 00000000" + stored + "00000000", ErrCorrupt},
		"reserved descriptor":       {"04224d18 60 c0 82" + stored + "00000000", ErrCorrupt},
		"block size 3":              {"04224d18 60 30 82" + stored + "00000000", ErrCorrupt},
		"other magic":               {"04224d19 60 40 82" + stored + "00000000", ErrCorrupt},
		"block longer than allowed": {"04224d18 60 40 82 01000180" + strings.Repeat("00", 1<<16+1) + "00000000", ErrCorrupt},
		"head only":                 {"04224d18 60", ErrCorrupt},
	} {
		got, err := Decompress(nil, unhex(t, c.data), CodecLZ4, 0)
		if !errors.Is(err, c.err) || err == nil && string(got) != "abc" {
			t.Errorf("%s: %q, %v; want %v", name, got, err, c.err)
		}
	}
}

// TestLZ4Writers reads what another LZ4 writer makes with every option.
func TestLZ4Writers(t *testing.T) {
	want := bytes.Repeat([]byte("some text "), 20_000)
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for option := range 8 {
			var packed bytes.Buffer
			w := lz4.NewWriter(&packed)
			options := []lz4.Option{lz4.BlockSizeOption(size), lz4.ChecksumOption(option&1 != 0), lz4.BlockChecksumOption(option&2 != 0)}
			if option&4 != 0 {
				options = append(options, lz4.SizeOption(uint64(len(want))))
			}
			if err := w.Apply(options...); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(want); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := Decompress(nil, packed.Bytes(), CodecLZ4, 0)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v, options %03b: %d bytes, %v", size, option, len(got), err)
			}
			if option&2 != 0 {
				data := packed.Bytes()
				data[len(data)/2] ^= 1
				if _, err := Decompress(nil, data, CodecLZ4, 0); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%v, options %03b: flipped bit: %v", size, option, err)
				}
			}
		}
		// And the other way round.
		packed, _ := Compress(nil, want, CodecLZ4, 0)
		got := make([]byte, len(want)+1)
		if n, _ := lz4.NewReader(bytes.NewReader(packed)).Read(got); adler32.Checksum(got[:n]) != adler32.Checksum(want[:n]) || n == 0 {
			t.Errorf("%d bytes read by another reader differ", n)
		}
	}
}

// TestXXH32 has the reference's own values.
func TestXXH32(t *testing.T) {
	for text, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(text)); got != want {
			t.Errorf("%q: %08x, want %08x", text, got, want)
		}
	}
}

func TestZstdFrames(t *testing.T) {
	one, _ := Compress(nil, []byte("one "), CodecZstd, 0)
	skip := unhex(t, "5f 2a 4d 18 03 00 00 00 ff ff ff")
	all, _ := Compress(append(clone(one), skip...), []byte("two"), CodecZstd, 10)
	if got, err := Decompress(nil, all, CodecZstd, 0); string(got) != "one two" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for name, data := range map[string]string{
		"skippable cut off":          "5f 2a 4d 18 04 00 00 00 ff ff ff",
		"reserved block":             "28b52ffd 20 01 07 00 00",
		"block too large":            "28b52ffd 00 58 f9 ff ff",
		"content larger than blocks": "28b52ffd 20 05 09 00 00 61",
		"unknown dictionary":         "28b52ffd 21 07 01 09 00 00 61",
	} {
		if _, err := Decompress(nil, unhex(t, data), CodecZstd, 0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
	if got, err := Decompress(nil, unhex(t, "28b52ffd 20 01 09 00 00 61"), CodecZstd, 0); string(got) != "a" || err != nil {
		t.Errorf("one stored byte: %q, %v", got, err)
	}
}
