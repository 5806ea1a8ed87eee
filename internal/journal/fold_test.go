package journal

import (
	"errors"
	"slices"
	"testing"
)

func TestFold(t *testing.T) {
	data := func(segment, pos, length, first, next int64) Frame {
		return Frame{Kind: KindBytes, Segment: segment, Pos: pos, Length: length, First: first, Next: next}
	}
	reference := Frame{Kind: KindReference, Segment: 0, Pos: 100, Length: 50, First: 10, Next: 11, CRC: 5}
	cut := func(segment, pos, offset int64) Frame {
		return Frame{Kind: KindTruncation, Segment: segment, Pos: pos, First: offset, Next: offset}
	}
	tests := []struct {
		name   string
		frames []Frame
		want   []Frame
		to     int64
		next   int64
	}{
		{"one", []Frame{data(0, 0, 100, 0, 10)}, []Frame{data(0, 0, 100, 0, 10)}, -1, 10},
		{"reference", []Frame{data(0, 0, 100, 0, 10), reference}, []Frame{data(0, 0, 100, 0, 10), reference}, -1, 11},
		{"reference cut", []Frame{data(0, 0, 100, 0, 10), reference, cut(0, 100, 10)}, []Frame{data(0, 0, 100, 0, 10)}, 10, 10},
		{"between", []Frame{data(0, 0, 100, 0, 10), data(10, 0, 70, 10, 13), cut(10, 0, 10)}, []Frame{data(0, 0, 100, 0, 10)}, 10, 10},
		{"inside", []Frame{data(0, 0, 100, 0, 10), cut(0, 40, 4)}, []Frame{data(0, 0, 40, 0, 4)}, 4, 4},
		{"all", []Frame{data(0, 50, 50, 5, 10), cut(0, 20, 2)}, nil, 2, 2},
		{"alone", []Frame{cut(0, 20, 2)}, nil, 2, 2},
		{"above the end", []Frame{data(0, 0, 100, 0, 10), cut(0, 100, 10)}, []Frame{data(0, 0, 100, 0, 10)}, 10, 10},
		{
			"twice, and on", []Frame{data(0, 0, 100, 0, 10), cut(0, 40, 4), data(0, 40, 20, 4, 6), cut(0, 50, 5), data(0, 50, 9, 5, 7)},
			[]Frame{data(0, 0, 40, 0, 4), data(0, 40, 10, 4, 5), data(0, 50, 9, 5, 7)}, 4, 7,
		},
	}
	for _, test := range tests {
		c := &Contents{Frames: test.frames}
		folded, err := c.Fold()
		if must(t, err); len(folded) != 1 {
			t.Fatalf("%s: %d partitions", test.name, len(folded))
		}
		p := folded[Key{}]
		if !slices.Equal(p.Frames, test.want) || p.TruncatedTo != test.to || p.Next != test.next {
			t.Errorf("%s: %+v", test.name, p)
		}
	}
	impossible := [][]Frame{
		{data(0, 0, 100, 0, 10), cut(5, 0, 5)},   // in another segment
		{data(0, 0, 100, 0, 10), cut(0, 100, 5)}, // at its end
		{data(0, 50, 50, 5, 10), cut(0, 50, 7)},  // at its beginning
		{reference, {Kind: KindTruncation, Pos: 120, First: 10, Next: 10}, {Kind: KindReference, Pos: 1, Length: 9, First: 0, Next: 20}, cut(0, 5, 7)},
	}
	mem := withContent(t, nil)
	f, err := mem.Open(Name)
	must(t, err)
	for i, frames := range impossible {
		c := &Contents{Frames: frames, file: f}
		if _, err := c.Fold(); !errors.Is(err, ErrDamaged) {
			t.Errorf("impossible %d: %v", i, err)
		}
	}
}
