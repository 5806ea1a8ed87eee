package batch

import (
	"fmt"
	"testing"
)

// benchShapes are batches of the sizes that matter.
var benchShapes = []struct{ records, size int }{{1, 100}, {1, 1 << 10}, {1, 16 << 10}, {100, 100}, {100, 1 << 10}}

func eachShape(b *testing.B, f func(b *testing.B, batch Batch)) {
	for _, s := range benchShapes {
		batch := build(b, Plain, benchRecords(s.records, s.size)...)
		b.Run(fmt.Sprintf("records=%d/size=%d", s.records, s.size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			f(b, batch)
		})
	}
}

func BenchmarkParse(b *testing.B) {
	batch := build(b, Plain, benchRecords(1, 1<<10)...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeader(b *testing.B) {
	batch := build(b, Plain, benchRecords(1, 1<<10)...)
	b.ReportAllocs()
	for b.Loop() {
		if h := batch.Header(); h.RecordCount != 1 {
			b.Fatal(h)
		}
	}
}

func BenchmarkStamp(b *testing.B) {
	batch := build(b, Plain, benchRecords(1, 1<<10)...)
	b.ReportAllocs()
	offset := int64(0)
	for b.Loop() {
		batch.Stamp(offset, 7)
		offset++
	}
}

func BenchmarkCRC(b *testing.B) {
	eachShape(b, func(b *testing.B, batch Batch) {
		for b.Loop() {
			CRC(batch)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	eachShape(b, func(b *testing.B, batch Batch) {
		for b.Loop() {
			if err := batch.Check(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	rules := Rules{Now: goldenTime, AfterMax: 3600_000}
	eachShape(b, func(b *testing.B, batch Batch) {
		for b.Loop() {
			if _, err := rules.Validate(batch); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkIterate(b *testing.B) {
	var records Records
	eachShape(b, func(b *testing.B, batch Batch) {
		for b.Loop() {
			for records.Reset(batch); records.Next(); {
			}
			if records.Err() != nil {
				b.Fatal(records.Err())
			}
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	var w Builder
	for _, s := range benchShapes {
		records := benchRecords(s.records, s.size)
		b.Run(fmt.Sprintf("records=%d/size=%d", s.records, s.size), func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]byte, 0, 1<<20)
			b.SetBytes(int64(s.records * s.size))
			for b.Loop() {
				w.Reset(dst, Plain)
				for i := range records {
					w.Add(records[i].timestamp, records[i].key, records[i].value)
				}
				if _, err := w.Finish(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadMarker(b *testing.B) {
	marker := AppendMarker(nil, Marker{Producer: Producer{1, 2}})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := ReadMarker(marker); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// eachCodec runs over codecs and sizes of data before compression.
func eachCodec(b *testing.B, f func(b *testing.B, c Codec, data []byte)) {
	for _, c := range compressing {
		for _, n := range []int{10, 100, 1000} {
			data := build(b, Plain, benchRecords(n, 100)...)[HeaderSize:]
			b.Run(fmt.Sprintf("codec=%v/records=%d", c, n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(data)))
				f(b, c, data)
			})
		}
	}
}

func BenchmarkCompress(b *testing.B) {
	eachCodec(b, func(b *testing.B, c Codec, data []byte) {
		dst := make([]byte, 0, 1<<20)
		size := 0
		for b.Loop() {
			packed, err := Compress(dst, data, c, 0)
			if err != nil {
				b.Fatal(err)
			}
			size = len(packed)
		}
		b.ReportMetric(float64(len(data))/float64(size), "ratio")
	})
}

func BenchmarkDecompress(b *testing.B) {
	eachCodec(b, func(b *testing.B, c Codec, data []byte) {
		dst := make([]byte, 0, 1<<20)
		packed, err := Compress(nil, data, c, 0)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := Decompress(dst, packed, c, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkValidateCompressed(b *testing.B) {
	var rules Rules
	for _, c := range compressing {
		o := Plain
		o.Codec = c
		batch := build(b, o, benchRecords(100, 100)...)
		b.Run("codec="+c.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				if _, err := rules.Validate(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
