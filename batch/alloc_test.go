package batch

import (
	"testing"
)

// benchRecords makes n records with values of size bytes, text that shrinks to
// about a third.
func benchRecords(n, size int) []plain {
	words := []string{"append", "offset", "segment", "epoch", "marker", "commit", "abort", "fetch", "0123", "xyz"}
	all := make([]plain, n)
	state := uint32(1)
	for i := range all {
		var value []byte
		for len(value) < size {
			state = state*1664525 + 1013904223
			value = append(value, words[state>>16%uint32(len(words))]...)
			value = append(value, byte(state>>24))
		}
		all[i] = plain{int64(i), goldenTime + int64(i), []byte("key-0001"), value[:size], nil}
	}
	return all
}

// wantNoAllocs runs f often and fails if it allocates. The race detector makes
// pools forget on purpose, so there the test says nothing.
func wantNoAllocs(t *testing.T, name string, f func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("pools drop at random under the race detector")
	}
	if n := testing.AllocsPerRun(200, f); n != 0 {
		t.Errorf("%s: %v allocations", name, n)
	}
}

func TestNoAllocs(t *testing.T) {
	records := benchRecords(20, 100)
	headers := []RecordHeader{{"h", nil}, {"k", []byte("v")}}
	marker := Marker{Producer: Producer{1, 2}, Commit: true}
	dst := make([]byte, 0, 1<<16)
	markerBatch := AppendMarker(nil, marker)
	rules := Rules{KeysRequired: true, Now: goldenTime, BeforeMax: 1000, AfterMax: 1000}
	var it Records
	var w Builder
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		o := Plain
		o.Codec = codec
		b := build(t, o, records...)
		wantNoAllocs(t, "parse and check, "+codec.String(), func() {
			p, err := Parse(b)
			check(err)
			check(p.Check())
		})
		wantNoAllocs(t, "validate, "+codec.String(), func() {
			_, err := rules.Validate(b)
			check(err)
		})
		wantNoAllocs(t, "iterate, "+codec.String(), func() {
			size := 0
			for it.Reset(b); it.Next(); {
				for key, value := range it.Record().Headers.All() {
					size += len(key) + len(value)
				}
			}
			check(it.Err())
		})
		wantNoAllocs(t, "iterate and close, "+codec.String(), func() {
			for it.Reset(b); it.Next(); {
			}
			it.Close()
		})
		wantNoAllocs(t, "build, "+codec.String(), func() {
			w.Reset(dst, o)
			for i := range records {
				w.Add(records[i].timestamp, records[i].key, records[i].value, headers...)
			}
			_, err := w.Finish()
			check(err)
		})
	}
	wantNoAllocs(t, "marker", func() { AppendMarker(dst, marker) })
	wantNoAllocs(t, "read marker", func() {
		if _, ok, err := ReadMarker(markerBatch); !ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	plainBatch := build(t, Plain, records...)
	wantNoAllocs(t, "stamp", func() {
		plainBatch.Stamp(7, 8)
		plainBatch.SetMaxTimestamp(LogAppendTime, plainBatch.MaxTimestamp()+1)
	})
	wantNoAllocs(t, "torn", func() {
		if _, err := Parse(plainBatch[:100]); err != ErrShort {
			t.Fatal(err)
		}
	})
}
