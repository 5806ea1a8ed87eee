package sim

import (
	"slices"

	"github.com/oncelog/oncelog/internal/checkpoint"
)

// epoch is a leader epoch and where it began.
type epoch struct {
	checkpoint.EpochEntry
	// begun says that it is durable without any batch that carries it.
	begun bool
}

// epoch is what a batch at the log end gets from a leader.
func (p *partition) epoch() int32 {
	if n := len(p.epochs); n > 0 {
		return p.epochs[n-1].Epoch
	}
	return 0
}

// assign enters an epoch. What contradicts it goes.
func assign(epochs []epoch, e epoch) []epoch {
	if n := len(epochs); e.Epoch < 0 || n > 0 && epochs[n-1].Epoch == e.Epoch && epochs[n-1].Start <= e.Start {
		if n > 0 && epochs[n-1].Epoch == e.Epoch && e.begun {
			epochs = slices.Clone(epochs)
			epochs[n-1].begun = true
		}
		return epochs
	}
	kept := slices.DeleteFunc(slices.Clone(epochs), func(o epoch) bool { return o.Epoch >= e.Epoch || o.Start >= e.Start })
	return append(kept, e)
}

// dropEpochs forgets epochs that begin at or behind offset.
func dropEpochs(epochs []epoch, offset int64) []epoch {
	return slices.DeleteFunc(slices.Clone(epochs), func(e epoch) bool { return e.Start >= offset })
}

// epochsFrom is what is left of epochs when the log begins at start. The one
// that holds the start begins there, and is durable as the start is.
func epochsFrom(epochs []epoch, start int64) []epoch {
	var kept []epoch
	for _, e := range epochs {
		if e.Start < start {
			kept, e.Start, e.begun = nil, start, true
		} else if e.Start == start {
			kept = nil
		}
		kept = append(kept, e)
	}
	return kept
}

func entriesOf(epochs []epoch) (entries []checkpoint.EpochEntry) {
	for _, e := range epochs {
		entries = append(entries, e.EpochEntry)
	}
	return entries
}

// epochsEnd is the offset from which on a truncation drops epochs: behind the
// log end those without a batch, but never the one that holds the log start.
func (p *partition) epochsEnd(offset int64) int64 {
	if offset < p.end() && p.start == 0 {
		return offset
	}
	return max(min(offset, p.end()), p.start+1)
}

// floor is the epoch of what was deleted last, which recovery may still find in
// front of the log start after a truncation forgot it.
func (p *partition) floor(start int64) (epoch, bool) {
	i := p.index(start)
	if i == len(p.log) || p.log[i].header.BaseOffset >= start {
		i--
	}
	if i < 0 {
		return epoch{}, false
	}
	e := epoch{begun: true}
	e.Epoch, e.Start = p.log[i].header.LeaderEpoch, start
	return e, true
}

// settleEpochs takes the epochs of a log that was opened, or whose change of
// them failed, if they are among those that may be.
func (p *partition) settleEpochs(found []checkpoint.EpochEntry, start int64) bool {
	end := p.end()
	base := dropEpochs(p.epochs, end+1)
	options := [][]epoch{base}
	if n := len(base); n > 0 && base[n-1].Start == end && !base[n-1].begun {
		options = append(options, base[:n-1])
	}
	if p.epochsBefore != nil {
		options = append(options, dropEpochs(p.epochsBefore, end+1))
	}
	if p.truncateTo >= 0 {
		for _, o := range options[:len(options):len(options)] {
			options = append(options, dropEpochs(o, p.epochsEnd(p.truncateTo)), dropEpochs(o, p.truncateEpochs))
		}
	}
	for _, m := range p.epochMaybe {
		if m.Start > end {
			continue
		}
		for _, o := range options[:len(options):len(options)] {
			options = append(options, assign(o, m))
		}
	}
	p.epochsBefore, p.epochMaybe = nil, nil
	if e, ok := p.floor(start); ok {
		for _, o := range options[:len(options):len(options)] {
			if len(o) == 0 || o[0].Start > start {
				options = append(options, append([]epoch{e}, o...))
			}
		}
	}
	for _, o := range options {
		o = epochsFrom(o, start)
		if slices.Equal(entriesOf(o), found) {
			p.epochs = o
			return true
		}
	}
	return false
}
