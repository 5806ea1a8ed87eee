package batch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// oddRecords makes records as nobody should write them.
func oddRecords(random *rand.Rand, n int) []plain {
	field := func() []byte {
		switch random.IntN(5) {
		case 0:
			return nil
		case 1:
			return []byte{}
		case 2: // does not compress
			b := make([]byte, random.IntN(300))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return b
		case 3:
			return make([]byte, random.IntN(40_000))
		default:
			return fmt.Appendf(nil, "some text %d, some text", random.IntN(1000))
		}
	}
	all := make([]plain, n)
	for i := range all {
		r := &all[i]
		r.offset = int64(i)
		r.timestamp = [...]int64{-1, 0, goldenTime, goldenTime - random.Int64N(1<<40), random.Int64()}[random.IntN(5)]
		r.key, r.value = field(), field()
		for range max(0, random.IntN(6)-3) {
			r.headers = append(r.headers, RecordHeader{[...]string{"", "k", "größe", "a\xff"}[random.IntN(4)], field()})
		}
	}
	return all
}

// TestBuildRead: what is built is good, and comes back as it was.
func TestBuildRead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var w Builder
	var it Records
	defer it.Close()
	for round := range 100 {
		records := oddRecords(random, 1+random.IntN(30))
		o := BuilderOptions{
			Codec: Codec(round % 5), Level: random.IntN(12) - 1,
			Producer: NoProducer, BaseSequence: None, LeaderEpoch: None,
		}
		if round%2 == 0 {
			o.Producer, o.BaseSequence, o.Transactional = Producer{5, 3}, int32(round), true
		}
		w.Reset([]byte("before"), o)
		for _, r := range records {
			w.Add(r.timestamp, r.key, r.value, r.headers...)
		}
		dst, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse(dst[len("before"):])
		if err != nil || string(dst[:6]) != "before" || len(b) != len(dst)-6 {
			t.Fatalf("%v, %v", b, err)
		}
		v, err := new(Rules).Validate(b)
		if err != nil || v.MaxTimestamp != b.MaxTimestamp() {
			t.Fatalf("%v: %v, largest timestamp %d", b, err, v.MaxTimestamp)
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		if b.Producer() != o.Producer || b.BaseSequence() != o.BaseSequence || b.IsTransactional() != o.Transactional || b.Codec() != o.Codec {
			t.Fatalf("%v: %+v, want %+v", b, b.Header(), o)
		}
		i, size := 0, 0
		for it.Reset(b); it.Next(); i++ {
			if got := it.Record().plain(); !got.equal(records[i]) {
				t.Fatalf("%v, record %d: %+v, want %+v", o.Codec, i, got, records[i])
			}
			size += it.Record().Size
		}
		if err := it.Err(); err != nil || i != len(records) {
			t.Fatalf("%d records, want %d: %v", i, len(records), err)
		}
		if o.Codec == CodecNone && size != len(b)-HeaderSize {
			t.Errorf("sizes of records sum to %d, want %d", size, len(b)-HeaderSize)
		}
	}
}

func TestBuilderRefuses(t *testing.T) {
	var w Builder
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		o := Plain
		o.Codec = codec
		w.Reset([]byte("before"), o)
		if b, err := w.Finish(); !errors.Is(err, ErrInvalidRecord) || string(b) != "before" {
			t.Errorf("%v: nothing added: %q, %v; want ErrInvalidRecord", codec, b, err)
		}
		w.Reset([]byte("before"), o)
		w.Add(-2, nil, nil)
		if b, err := w.Finish(); !errors.Is(err, ErrInvalidTimestamp) || string(b) != "before" {
			t.Errorf("%v: timestamp -2: %q, %v; want ErrInvalidTimestamp", codec, b, err)
		}
	}
	o := Plain
	o.Codec = 6
	w.Reset(nil, o)
	w.Add(0, nil, nil)
	if _, err := w.Finish(); !errors.Is(err, ErrUnsupportedCodec) {
		t.Errorf("codec 6: %v, want ErrUnsupportedCodec", err)
	}
}

func TestBuilderLen(t *testing.T) {
	var w Builder
	for _, codec := range []Codec{CodecNone, CodecZstd} {
		o := Plain
		o.Codec = codec
		w.Reset(make([]byte, 7), o)
		if w.Len() != HeaderSize || w.Count() != 0 {
			t.Errorf("%v: %d bytes, %d records at first", codec, w.Len(), w.Count())
		}
		w.Add(0, nil, nil)
		if w.Len() != HeaderSize+recordSizeMin || w.Count() != 1 {
			t.Errorf("%v: %d bytes, %d records after one", codec, w.Len(), w.Count())
		}
		if _, err := w.Finish(); err != nil || w.Len() != 0 {
			t.Errorf("%v: %d bytes after Finish, %v", codec, w.Len(), err)
		}
	}
}

// TestBuilderDropped: a Reset drops what was not finished.
func TestBuilderDropped(t *testing.T) {
	var w Builder
	o := Plain
	o.Codec = CodecLZ4
	w.Reset(nil, o)
	w.Add(-2, []byte("dropped"), nil)
	w.Reset(nil, o)
	w.Add(5, []byte("kept"), nil)
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if got := mustReadAll(t, b); len(got) != 1 || string(got[0].key) != "kept" {
		t.Errorf("%+v", got)
	}
}

// TestCodecsTakeTurns: one Records over batches of all kinds, none disturbs
// the next.
func TestCodecsTakeTurns(t *testing.T) {
	var it Records
	for range 3 {
		for codec := CodecNone; codec <= CodecZstd; codec++ {
			o := Plain
			o.Codec = codec
			b := build(t, o, plain{0, 1, []byte(codec.String()), nil, nil}, plain{1, 2, nil, []byte("x"), nil})
			n := 0
			for it.Reset(b); it.Next(); n++ {
				if n == 0 && string(it.Record().Key) != codec.String() {
					t.Errorf("%v: key %q", codec, it.Record().Key)
				}
			}
			if n != 2 || it.Err() != nil {
				t.Errorf("%v: %d records, %v", codec, n, it.Err())
			}
		}
		it.Close()
	}
}

// TestConcurrent uses the pools from many goroutines at once.
func TestConcurrent(t *testing.T) {
	var rules Rules
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 9))
			var w Builder
			var it Records
			defer it.Close()
			for round := range 20 {
				o := Plain
				o.Codec = Codec((g + round) % 5)
				records := oddRecords(random, 5)
				w.Reset(nil, o)
				for _, r := range records {
					w.Add(r.timestamp, r.key, r.value, r.headers...)
				}
				b, err := w.Finish()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := rules.Validate(b); err != nil {
					t.Error(err)
				}
				i := 0
				for it.Reset(b); it.Next(); i++ {
					if got := it.Record().plain(); !got.equal(records[i]) {
						t.Errorf("%v: record %d differs", o.Codec, i)
					}
				}
				if it.Err() != nil || i != len(records) {
					t.Errorf("%v: %d records, %v", o.Codec, i, it.Err())
				}
			}
		})
	}
	wait.Wait()
}
