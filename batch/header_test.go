package batch

import (
	"math"
	"testing"
)

func TestSequences(t *testing.T) {
	const last = math.MaxInt32
	for _, c := range []struct{ from, n, to int32 }{
		{0, 0, 0}, {0, 5, 5}, {last, 0, last}, {last, 1, 0}, {last - 2, 4, 1}, {last - 1, 1, last}, {5, last, 4}, {last, last, last - 1},
	} {
		if got := AddSequence(c.from, c.n); got != c.to {
			t.Errorf("%d + %d: %d, want %d", c.from, c.n, got, c.to)
		}
		if got := SubSequence(c.to, c.n); got != c.from {
			t.Errorf("%d - %d: %d, want %d", c.to, c.n, got, c.from)
		}
	}
	for _, c := range []struct {
		last, next int32
		want       bool
	}{
		{None, 0, true}, {None, 1, false}, {0, 1, true}, {0, 0, false}, {0, 2, false}, {last, 0, true}, {last, 1, false}, {last - 1, 0, false}, {last - 1, last, true},
	} {
		if got := FollowsSequence(c.last, c.next); got != c.want {
			t.Errorf("%d follows %d: %v, want %v", c.next, c.last, got, c.want)
		}
	}
}

// TestHeaderAgrees: the decoded header says what the accessors say.
func TestHeaderAgrees(t *testing.T) {
	for _, text := range []string{goldenPlain, goldenCommit, goldenEmpty} {
		b := Batch(unhex(t, text))
		h := b.Header()
		if h.LastOffset() != b.LastOffset() || h.NextOffset() != b.NextOffset() || h.Codec() != b.Codec() ||
			h.IsTransactional() != b.IsTransactional() || h.IsControl() != b.IsControl() || h.Timestamps() != b.Timestamps() ||
			h.HasDeleteHorizon() != b.HasDeleteHorizon() || h.LastSequence() != b.LastSequence() || b.Magic() != Magic {
			t.Errorf("%+v, %v", h, b)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	golden := unhex(t, goldenPlain)
	golden[83] = 1
	_, legacy := Frame([]byte("00000000\x00\x00\x00\x300000\x01"))
	for want, err := range map[string]error{
		"batch: corrupt: CRC is c97fef5a, header says 3b146c59 at byte 17":   Batch(golden).Check(),
		"batch: message format 0 or 1 is not supported, only 2: this is 1":   legacy,
		"batch: invalid record: record 1 at byte 10 of the records: too bad": &RecordError{1, 10, "too bad", ErrInvalidRecord},
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if got, want := Batch(golden).String(), "batch of 84 bytes at offset 0, last offset delta 1, 2 records, codec none, attributes 0x0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
