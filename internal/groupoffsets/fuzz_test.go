package groupoffsets

import (
	"bytes"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

func FuzzReadKey(f *testing.F) {
	for _, h := range []string{"000100016700017400000000", "0000 0001 67 0001 74 00000007", "0002 0002 6767", "0005 0001 67 0001 6d", "0010 0001 67", "0001ffff"} {
		f.Add(unhex(h))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, known, err := readKey(b)
		if err != nil && known {
			t.Fatal("known, and an error")
		}
		if known && k.version == keyOffset {
			if again := appendOffsetKey(nil, string(k.group), string(k.topic), k.partition); !bytes.Equal(again, b) {
				t.Fatalf("%x written again is %x", b, again)
			}
		}
	})
}

func FuzzReadValue(f *testing.F) {
	for _, h := range []string{"0003000000000000002affffffff00000000018bcfe56800", "0004 0000000000000001 00000000 01 0000018bcfe56800 00",
		"0001 000000000000002a 0000 0000018bcfe56800 0000018bcfe56801", "0004 0000000000000001 00000000 01 0000018bcfe56800 01 00 02 0011"} {
		f.Add(unhex(h))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := readValue(b)
		if err != nil || v.expireMs == 0 || v.expireMs < -1 {
			return
		}
		c := Commit{Offset: v.offset, LeaderEpoch: v.leaderEpoch, Metadata: string(v.metadata), ExpireMs: max(v.expireMs, 0)}
		if len(c.Metadata) > 1<<15-1 {
			return
		}
		again, err := readValue(appendValue(nil, &c, v.commitMs))
		if err != nil || again.offset != v.offset || again.leaderEpoch != v.leaderEpoch || !bytes.Equal(again.metadata, v.metadata) ||
			again.commitMs != v.commitMs || again.expireMs != v.expireMs {
			t.Fatalf("%+v written again is %+v, %v", v, again, err)
		}
	})
}

func FuzzReadClassic(f *testing.F) {
	for _, h := range []string{"0003 0008 636f6e73756d6572 00000002 ffff ffff 0000018bcfe56800 00000000", "0004 09 636f6e73756d6572 00000002 00 00 0000018bcfe56800 01 00"} {
		f.Add(unhex(h))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := readClassic(b); err == nil && (c.members < 0 || c.members > len(b)) {
			t.Fatalf("%+v of %d bytes", c, len(b))
		}
	})
}

// FuzzFold folds records and markers of any content: nothing panics, and counts
// and links stay right.
func FuzzFold(f *testing.F) {
	f.Add(unhex("000100016700017400000000"), unhex("0003000000000000002affffffff00000000018bcfe56800"), []byte{0, 1, 2, 3, 4, 5})
	f.Add(unhex("0002 0001 67"), unhex("0003 0000 00000002 ffff ffff 0000018bcfe56800 00000000"), []byte{3, 1, 0, 5, 2})
	f.Add(unhex("0005 0001 67 0001 6d"), unhex("0000"), []byte{0, 2, 1, 5})
	f.Fuzz(func(t *testing.T, k, v, script []byte) {
		var fold fold
		fold.reset()
		for i, c := range script[:min(len(script), 64)] {
			id := int64(c>>4) % 3
			b := batch.Batch(batch.AppendMarker(nil, batch.Marker{Producer: producer(id), Commit: c%2 == 0}))
			if c%6 < 4 {
				o := batch.Plain
				if c%6 > 1 {
					o.Producer, o.Transactional = producer(id), true
				}
				var w batch.Builder
				w.Reset(nil, o)
				value := v
				if c%2 == 1 {
					value = nil
				}
				w.Add(at0, k, value)
				b = must(w.Finish())
			}
			b.Stamp(int64(i), 0)
			// An error is one for good: what is half in does not break anything.
			if err := fold.batch(b, 0); err != nil && fold.batch(b, 0) == nil {
				t.Fatal("an error, and none the second time")
			}
		}
		fold.check(t)
		fold.text()
	})
}
