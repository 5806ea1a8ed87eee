package index

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTimeMaybeAppend(t *testing.T) {
	const base = 1000
	for _, c := range []struct {
		name  string
		have  []TimeEntry
		add   TimeEntry
		added bool
		want  error
	}{
		{"first", nil, TimeEntry{5, 1000}, true, nil},
		{"timestamp 0", nil, TimeEntry{0, 1000}, true, nil},
		{"no timestamp", nil, TimeEntry{-1, 1000}, false, nil},
		{"next", []TimeEntry{{5, 1001}}, TimeEntry{6, 1002}, true, nil},
		{"same offset", []TimeEntry{{5, 1001}}, TimeEntry{6, 1001}, true, nil},
		{"same timestamp", []TimeEntry{{5, 1001}}, TimeEntry{5, 1002}, false, nil},
		{"smaller timestamp", []TimeEntry{{5, 1001}}, TimeEntry{4, 1002}, false, nil},
		{"largest", nil, TimeEntry{math.MaxInt64, base + math.MaxInt32}, true, nil},
		{"smaller offset", []TimeEntry{{5, 1001}}, TimeEntry{6, 1000}, false, ErrUnordered},
		{"below base", nil, TimeEntry{5, 999}, false, ErrOverflow},
		{"offset too far", nil, TimeEntry{5, base + math.MaxInt32 + 1}, false, ErrOverflow},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := NewTime(base)
			for _, e := range c.have {
				if added, err := x.MaybeAppend(e); !added || err != nil {
					t.Fatal(added, err)
				}
			}
			if added, err := x.MaybeAppend(c.add); added != c.added || !errors.Is(err, c.want) {
				t.Fatalf("got %v, %v, want %v, %v", added, err, c.added, c.want)
			}
			want := c.have
			if c.added {
				want = append(want, c.add)
			}
			if got := collect(x.Len(), x.At); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestLoadTime(t *testing.T) {
	whole := []TimeEntry{{100, 10}, {200, 20}, {300, 20}}
	b := timeBytes(t, 5, whole)
	zeros := make([]byte, 1200)
	for _, c := range []struct {
		name      string
		base      int64
		bytes     []byte
		endOffset int64
		want      []TimeEntry
	}{
		{"whole", 5, b, 1000, whole},
		{"zero tail", 5, slices.Concat(b, zeros), 1000, whole},
		{"zeros alone", 5, zeros, 1000, nil},
		{"nothing", 5, nil, 1000, nil},
		{"timestamp 0 at the base, trimmed", 5, zeros[:12], 1000, []TimeEntry{{0, 5}}},
		{"timestamp 0 at the base, others", 5, slices.Concat(zeros[:12], b), 1000, append([]TimeEntry{{0, 5}}, whole...)},
		{"torn", 5, b[:len(b)-1], 1000, whole[:2]},
		{"end on an entry", 5, b, 20, whole[:1]},
		{"end behind it", 5, b, 21, whole},
		{"old bytes behind", 5, slices.Concat(b, b), 1000, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := LoadTime(c.base, c.bytes, c.endOffset)
			if got := collect(x.Len(), x.At); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if added, err := x.MaybeAppend(TimeEntry{400, 40}); !added || err != nil {
				t.Errorf("append after load: %v, %v", added, err)
			}
		})
	}
}

func timeBytes(t *testing.T, base int64, entries []TimeEntry) []byte {
	t.Helper()
	x := NewTime(base)
	for _, e := range entries {
		if added, err := x.MaybeAppend(e); !added || err != nil {
			t.Fatal(added, err)
		}
	}
	return x.AppendTo(nil, 0)
}

// TestTimeForms compares the three forms with a slice that is searched from
// the front.
func TestTimeForms(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{0, 1, 2, 16, 17, 100, 9000} {
		base := r.Int64N(1 << 40)
		var naive []TimeEntry
		e := TimeEntry{r.Int64N(2) - 1, base}
		for range n {
			e.Timestamp += 1 + r.Int64N(30)
			e.Offset += r.Int64N(9)
			naive = append(naive, e)
		}
		b := timeBytes(t, base, naive)
		view, err := ViewTime(base, b)
		if err != nil {
			t.Fatal(err)
		}
		forms := map[string]*Time{"view": view, "loaded": LoadTime(base, slices.Concat(b, make([]byte, 120)), math.MaxInt64)}
		for name, x := range forms {
			t.Run(fmt.Sprintf("n=%d/%s", n, name), func(t *testing.T) {
				checkTime(t, r, x, base, e, naive)
			})
		}
	}
}

func checkTime(t *testing.T, r *rand.Rand, x *Time, base int64, last TimeEntry, naive []TimeEntry) {
	if got := collect(x.Len(), x.At); !slices.Equal(got, naive) {
		t.Fatalf("got %v, want %v", got, naive)
	}
	if got, ok := x.Last(); ok != (len(naive) > 0) || ok && got != last {
		t.Fatalf("last: %v, %v", got, ok)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	timestamps := []int64{math.MinInt64, -1, 0, last.Timestamp - 1, last.Timestamp, last.Timestamp + 1, math.MaxInt64}
	for range 200 {
		timestamps = append(timestamps, r.Int64N(last.Timestamp+3))
	}
	for _, timestamp := range timestamps {
		want := TimeEntry{-1, base}
		for _, e := range naive {
			if e.Timestamp <= timestamp {
				want = e
			}
		}
		if got := x.Lookup(timestamp); got != want {
			t.Errorf("Lookup(%d) = %v, want %v", timestamp, got, want)
		}
	}
	for range 20 {
		offset := base + r.Int64N(last.Offset-base+3)
		var want []TimeEntry
		for _, e := range naive {
			if e.Offset < offset {
				want = append(want, e)
			}
		}
		cut := x.Truncated(offset)
		if got := collect(cut.Len(), cut.At); !slices.Equal(got, want) {
			t.Errorf("Truncated(%d): got %v, want %v", offset, got, want)
		}
	}
}
