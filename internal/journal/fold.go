package journal

import "fmt"

// Folded is what the frames of one partition come to.
type Folded struct {
	// Frames of KindBytes and KindReference, in order, of which no truncation
	// took anything back; one across a truncation is shortened. Writing them at
	// their positions, in this order and as often as one likes, gives the log.
	Frames []Frame
	// TruncatedTo is the lowest offset of a truncation, -1 if there was none:
	// the recovery point is not above it, and what the segments hold from there
	// on counts only as far as Frames have it.
	TruncatedTo int64
	// Next is the offset at which the partition ends, as far as the journal
	// knows: behind its last frame, or where it was truncated to.
	Next int64
}

// Fold applies the truncations, partition by partition. A truncation that
// cannot be placed is a *DamageError.
func (c *Contents) Fold() (map[Key]Folded, error) {
	folded := make(map[Key]Folded)
	for i := range c.Frames {
		f := &c.Frames[i]
		p, ok := folded[f.Key()]
		if !ok {
			p.TruncatedTo = -1
		}
		if err := p.apply(f); err != nil {
			return nil, &DamageError{File: c.file.Name(), Pos: f.at, Reason: err.Error()}
		}
		folded[f.Key()] = p
	}
	return folded, nil
}

// apply adds the next frame.
func (p *Folded) apply(f *Frame) error {
	p.Next = f.Next
	if f.Kind != KindTruncation {
		p.Frames = append(p.Frames, *f)
		return nil
	}
	if p.TruncatedTo < 0 || f.First < p.TruncatedTo {
		p.TruncatedTo = f.First
	}
	for n := len(p.Frames); n > 0; n-- {
		last := &p.Frames[n-1]
		if last.Next <= f.First {
			break
		}
		if last.First >= f.First {
			p.Frames = p.Frames[:n-1]
			continue
		}
		if !last.shorten(f.First, f.Segment, f.Pos) {
			return fmt.Errorf("a truncation to offset %d at position %d of segment %d goes through a batch", f.First, f.Pos, f.Segment)
		}
	}
	return nil
}
