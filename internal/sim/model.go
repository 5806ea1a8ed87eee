package sim

import (
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// entry is one batch of a log, as it must be stored.
type entry struct {
	client batch.Batch // as it was sent
	bytes  batch.Batch
	header batch.Header
	marker *batch.Marker
	times  []int64 // of its records, ms
	size   int     // of the value of each, about
	when   moment
}

func (e *entry) next() int64 { return e.header.NextOffset() }

// loss is what may go missing between two lives.
type loss uint8

const (
	lossNone  loss = iota // a clean close, or a partition opened again
	lossKill              // the process ended: what is written stays
	lossPower             // what is not synced goes, as it pleases
)

// partition is what the model knows of one partition.
type partition struct {
	tp         topic.Partition
	config     log.Config
	replicated bool

	// log holds every batch from offset 0 on, deleted ones included, and no
	// dead one. state is its fold.
	log   []entry
	state *fold
	// epochs are the leader epochs, as if the log began at 0.
	epochs []epoch

	// What is promised. Below killSafe nothing is lost by the end of the
	// process, below powerSafe by nothing at all.
	start               int64
	killSafe, powerSafe int64
	// seen is the greatest high watermark that a reader may rely on; inLife
	// the last one of this life.
	seen, inLife int64

	// What was under way when the last life ended, or when an error came back.
	pending    []entry // may follow the log, in part too
	startMax   int64   // the log start may be here
	truncateTo int64   // the log may end here; -1: no truncation
	// truncateEpochs is from where on that drops epochs.
	truncateEpochs int64
	epochMaybe     []epoch
	// epochsBefore are those from before, if that failed.
	epochsBefore []epoch
	// gone are the batches that the last truncation took.
	gone []entry
	// flight is an append that is being made and may be in the log already.
	flight []entry

	// awaits is what may have been lost before a partition that refused to open
	// serves again; awaitsAt is the clock when it refused.
	awaits   loss
	awaitsAt int64

	// Of this life: lowest sequences that guards were taken with.
	verified map[int64]verified
	// What each producer sent last, to send it again.
	sent map[int64]entry
}

type verified struct {
	epoch  int16
	lowest int32
}

func newPartition(tp topic.Partition, c log.Config, replicated bool) *partition {
	return &partition{
		tp: tp, config: c, replicated: replicated, state: newFold(), truncateTo: -1,
		verified: map[int64]verified{}, sent: map[int64]entry{},
	}
}

func (p *partition) end() int64 {
	if len(p.log) == 0 {
		return 0
	}
	return p.log[len(p.log)-1].next()
}

// push puts a batch at the end.
func (p *partition) push(e entry) {
	p.log = append(p.log, e)
	p.state.apply(&e.header, e.marker)
	next := epoch{EpochEntry: checkpoint.EpochEntry{Epoch: e.header.LeaderEpoch, Start: e.header.BaseOffset}}
	if n := len(p.epochs); n > 0 && p.epochs[n-1].begun && p.epochs[n-1].Start == next.Start && p.epochs[n-1].Epoch < next.Epoch {
		p.epochMaybe = append(p.epochMaybe, p.epochs[n-1]) // it is back if the batch is lost
	}
	p.epochs = assign(p.epochs, next)
	if e.header.IsTransactional() {
		delete(p.verified, e.header.Producer.ID)
	}
}

// cut takes the batches from offset on away. What is left is folded anew.
func (p *partition) cut(offset int64) {
	i := p.index(offset)
	if i == len(p.log) {
		return
	}
	p.log, p.gone = slices.Clone(p.log[:i]), p.log[i:]
	p.refold()
}

// refold makes the fold of a log that was cut or opened: of each producer only
// the last batch is sure to be remembered.
func (p *partition) refold() {
	p.state = newFold()
	for i := range p.log {
		p.state.apply(&p.log[i].header, p.log[i].marker)
	}
	for _, s := range p.state.producers {
		for i := range len(s.batches) - 1 {
			s.batches[i].sure = false
		}
	}
}

// index is the first batch that ends behind offset.
func (p *partition) index(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.log, offset, func(e entry, o int64) int {
		if e.next() <= o {
			return -1
		}
		return 1
	})
	return i
}

// boundary tells whether a batch begins at offset, or the log ends there.
func (p *partition) boundary(offset int64) bool {
	i := p.index(offset)
	return i == len(p.log) && offset == p.end() || i < len(p.log) && p.log[i].header.BaseOffset == offset
}

// lastStable is the last stable offset by its definition.
func (p *partition) lastStable(start, highWatermark int64) int64 {
	stable := highWatermark
	for _, t := range p.state.transactions {
		if t.marker < 0 || t.marker >= highWatermark {
			stable = min(stable, max(t.first, start))
		}
	}
	return stable
}

// atTime is the first record at or behind start that is not older than ms.
func (p *partition) atTime(ms, start, bound int64) log.TimeOffset {
	for i := p.index(start); i < len(p.log); i++ {
		for j, t := range p.log[i].times {
			offset := p.log[i].header.BaseOffset + int64(j)
			if offset < start || t < ms {
				continue
			}
			if offset >= bound {
				return log.TimeOffset{Timestamp: -1, Offset: -1}
			}
			return log.TimeOffset{Timestamp: t, Offset: offset}
		}
	}
	return log.TimeOffset{Timestamp: -1, Offset: -1}
}

// youngest is the first record with the greatest timestamp.
func (p *partition) youngest(start, bound int64) log.TimeOffset {
	best := log.TimeOffset{Timestamp: -1, Offset: -1}
	for i := p.index(start); i < len(p.log); i++ {
		for j, t := range p.log[i].times {
			if offset := p.log[i].header.BaseOffset + int64(j); offset >= start && t > best.Timestamp {
				best = log.TimeOffset{Timestamp: t, Offset: offset}
			}
		}
	}
	if best.Offset >= bound {
		return log.TimeOffset{Timestamp: -1, Offset: -1}
	}
	return best
}
