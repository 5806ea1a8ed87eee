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

// epochsFrom is what is left of epochs when the log begins at start.
func epochsFrom(epochs []epoch, start int64) []checkpoint.EpochEntry {
	var kept []checkpoint.EpochEntry
	for _, e := range epochs {
		entry := e.EpochEntry
		if entry.Start <= start {
			kept, entry.Start = kept[:0], start
		}
		kept = append(kept, entry)
	}
	return kept
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
	if m := p.epochMaybe; m != nil && m.Start <= end {
		for _, o := range options[:len(options):len(options)] {
			options = append(options, assign(o, *m))
		}
	}
	p.epochMaybe = nil
	for _, o := range options {
		if slices.Equal(epochsFrom(o, start), epochsFrom(wrap(found), start)) {
			p.epochs = o
			return true
		}
	}
	return false
}

func wrap(entries []checkpoint.EpochEntry) (epochs []epoch) {
	for _, e := range entries {
		epochs = append(epochs, epoch{EpochEntry: e})
	}
	return epochs
}
