package batch

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

func TestVarint(t *testing.T) {
	for text, want := range map[string]int32{
		"00": 0, "01": -1, "02": 1, "03": -2, "7e": 63, "8001": 64, "7f": -64, "8101": -65,
		"feffffff0f": math.MaxInt32, "ffffffff0f": math.MinInt32,
		"8000":       0,             // longer than needed
		"feffffff7f": math.MaxInt32, // bits that do not fit are dropped
	} {
		b := unhex(t, text)
		if v, next := varint(b, 0); v != want || next != len(b) {
			t.Errorf("%s: %d, next %d; want %d, %d", text, v, next, want, len(b))
		}
		if got := appendVarlong(nil, int64(want)); len(got) != varlongSize(int64(want)) {
			t.Errorf("%d: %x, but size %d", want, got, varlongSize(int64(want)))
		}
	}
	for _, text := range []string{"", "80", "ffffffff", "ffffffffff", "ffffffffff00"} {
		if v, next := varint(unhex(t, text), 0); next != -1 {
			t.Errorf("%q: %d, next %d; want a refusal", text, v, next)
		}
	}
	for _, text := range []string{"", "80", "ffffffffffffffffff", "ffffffffffffffffffff", "ffffffffffffffffffff00"} {
		if v, next := varlong(unhex(t, text), 0); next != -1 {
			t.Errorf("%q: %d, next %d; want a refusal", text, v, next)
		}
	}
}

// TestVarlongStandard compares with encoding/binary, which maps alike.
func TestVarlongStandard(t *testing.T) {
	values := []int64{0, -1, 1, math.MaxInt64, math.MinInt64, math.MaxInt32, math.MinInt32}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		values = append(values, int64(random.Uint64())>>random.IntN(64))
	}
	for _, v := range values {
		want := binary.AppendVarint(nil, v)
		if got := appendVarlong(nil, v); string(got) != string(want) || varlongSize(v) != len(want) {
			t.Fatalf("%d: %x of size %d, want %x", v, got, varlongSize(v), want)
		}
		if got, next := varlong(want, 0); got != v || next != len(want) {
			t.Fatalf("%x: %d, next %d; want %d", want, got, next, v)
		}
		if v == int64(int32(v)) {
			if got, next := varint(want, 0); int64(got) != v || next != len(want) {
				t.Fatalf("%x: %d, next %d; want %d", want, got, next, v)
			}
		}
	}
}
