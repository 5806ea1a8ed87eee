package producerstate

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

var historySeed = flag.Uint64("history.seed", 0, "seed of one random history to repeat; 0: fixed ones and a new one")

// history drives a table and the model with the same random requests.
type history struct {
	r        *rand.Rand
	table    *Table
	model    *model
	ids      int64
	end      int64
	clock    int64
	guards   map[int64]Guard
	snapshot *Snapshot
	file     []byte
	frozen   []Info // of the model when the snapshot began
	kinds    map[string]int
}

func newHistory(seed uint64) *history {
	r := rand.New(rand.NewPCG(seed, 1))
	producersMax := []int{0, 0, 5, 40}[r.IntN(4)]
	return &history{
		r:      r,
		table:  New(Options{ProducersMax: producersMax}),
		model:  newModel(producersMax),
		ids:    []int64{3, 20, 3000}[r.IntN(3)],
		clock:  1_000_000,
		guards: make(map[int64]Guard),
		kinds:  make(map[string]int),
	}
}

func (h *history) step() error {
	h.clock += h.r.Int64N(3)
	switch n := h.r.IntN(1000); {
	case n < 620:
		return h.data()
	case n < 800:
		return h.marker()
	case n < 960:
		return h.verify()
	case n < 975:
		olderThan := h.r.Int64N(4000)
		if got, want := h.table.Expire(h.clock, olderThan), h.model.expire(h.clock, olderThan); got != want {
			return fmt.Errorf("%d expired, the model %d", got, want)
		}
		h.kinds["expire"]++
	case n < 977:
		return h.reload()
	case n < 980:
		h.clock += h.r.Int64N(3000)
	default:
		return h.piece()
	}
	return nil
}

// producer is mostly one that exists, with its epoch or one beside it.
func (h *history) producer() (batch.Producer, *modelProducer) {
	id := h.r.Int64N(h.ids)
	known := h.model.get(id)
	epoch := known.epoch
	switch n := h.r.IntN(20); {
	case n == 0:
		epoch++
	case n == 1:
		epoch--
	}
	return batch.Producer{ID: id, Epoch: max(epoch, int16(h.r.IntN(2)))}, known
}

// sequence is mostly the next, else a retry, a gap or anything.
func (h *history) sequence(p batch.Producer, known *modelProducer) (first, n int32) {
	n = 1 + h.r.Int32N(3)
	last := known.lastSequence()
	switch kind := h.r.IntN(10); {
	case kind < 2 && len(known.batches) > 0:
		b := known.batches[h.r.IntN(len(known.batches))]
		return b.first, int32(b.lastOffset-b.firstOffset) + 1
	case kind == 2:
		return max(0, last-h.r.Int32N(40)), n
	case kind == 3:
		return batch.AddSequence(max(0, last), h.r.Int32N(5)), n
	case kind == 4:
		return math.MaxInt32 - h.r.Int32N(4), n
	case last < 0 || p.Epoch != known.epoch:
		return 0, n
	}
	return batch.AddSequence(last, 1), n
}

func (h *history) data() error {
	p, known := h.producer()
	first, n := h.sequence(p, known)
	transactional := known.txnFirst >= 0 && h.r.IntN(10) > 0 || h.r.IntN(4) == 0
	r := Request{Guard: h.guards[p.ID], FirstEver: h.end == 0, Origin: Origin(h.r.IntN(25) / 23)}
	if r.Origin == OriginCoordinator {
		first, n = batch.None, 1
	}
	// A replica's door may contradict what is known; rarely, or nothing else
	// would come to pass.
	if h.r.IntN(200) == 0 {
		r.Origin = OriginReplica
	}
	r.Header = dataBatch(h.end, p, first, n, transactional)
	r.Header.MaxTimestamp = h.clock - h.r.Int64N(100)
	return h.ask(r)
}

func (h *history) marker() error {
	p, known := h.producer()
	if h.r.IntN(2) == 0 { // prefer what is open
		for txn := range h.table.Ongoing() {
			p, known = txn.Producer, h.model.get(txn.Producer.ID)
			break
		}
	}
	r := Request{Origin: OriginCoordinator, TV2: h.r.IntN(2) == 0}
	if r.TV2 && h.r.IntN(4) > 0 {
		p.Epoch++
	}
	coordinator := max(0, known.coordinator+h.r.Int32N(8)/7-h.r.Int32N(12)/11)
	r.Header, r.Marker = markerBatch(h.end, p, h.r.IntN(2) == 0, coordinator)
	r.Marker.Timestamp = h.clock
	if h.r.IntN(100) == 0 {
		r.Marker = nil
	}
	if h.r.IntN(200) == 0 {
		r.Origin = OriginReplica
	}
	return h.ask(r)
}

func (h *history) ask(r Request) error {
	got, err := h.table.Check(r)
	want, wantErr := h.model.check(r)
	if !same(err, wantErr) || got != want {
		return fmt.Errorf("%+v %+v: %+v %v, the model: %+v %v", *r.Header, r, got, err, want, wantErr)
	}
	if err != nil {
		h.kinds["refused"]++
		return nil
	}
	h.kinds[got.Kind.String()]++
	if got.Kind != Accept {
		return nil
	}
	completed, ok := h.table.Apply(r.Header, r.Marker, h.clock)
	wantCompleted, wantOK := h.model.apply(r.Header, r.Marker, h.clock)
	if ok != wantOK || completed != wantCompleted {
		return fmt.Errorf("completed %+v %v, the model: %+v %v", completed, ok, wantCompleted, wantOK)
	}
	h.end = r.Header.NextOffset()
	return nil
}

func (h *history) verify() error {
	p, known := h.producer()
	first, _ := h.sequence(p, known)
	tv2 := h.r.IntN(2) == 0
	g, needed := h.table.Verify(p, first, tv2, h.clock)
	want, err := h.model.verify(p, first, tv2, h.clock, g)
	if err != nil {
		return err
	}
	if needed != want {
		return fmt.Errorf("verification needed: %v, the model: %v", needed, want)
	}
	if h.r.IntN(4) > 0 { // else the stale one is kept
		h.guards[p.ID] = g
	}
	return nil
}

func (h *history) reload() error {
	if h.snapshot != nil {
		h.snapshot.Discard()
		h.snapshot = nil
	}
	loaded, err := LoadSnapshot(Options{ProducersMax: h.table.producersMax}, h.table.AppendSnapshot(nil), h.clock, 0)
	if err != nil {
		return err
	}
	if !loaded.Equal(h.table) {
		return fmt.Errorf("the loaded table is not equal")
	}
	// The idlest are told apart by touches, which a snapshot does not keep:
	// the model takes them in the order of the file.
	infos, err := ReadSnapshot(h.table.AppendSnapshot(nil))
	if err != nil {
		return err
	}
	for _, info := range infos {
		h.model.touches++
		h.model.producers[info.Producer.ID].touched = h.model.touches
	}
	h.table = loaded
	h.model.reload(h.clock)
	h.kinds["reload"]++
	return nil
}

// piece begins a snapshot, or takes the next piece of the one under way.
func (h *history) piece() error {
	if h.snapshot == nil {
		h.snapshot, h.file, h.frozen = h.table.BeginSnapshot(), nil, h.model.infos()
	}
	var more bool
	h.file, more = h.snapshot.Next(h.file, 1+h.r.IntN(int(h.ids)/8+1))
	if more {
		return nil
	}
	h.snapshot = nil
	Seal(h.file)
	infos, err := ReadSnapshot(h.file)
	if err != nil {
		return err
	}
	slices.SortFunc(infos, func(a, b Info) int { return int(a.Producer.ID - b.Producer.ID) })
	if !slices.Equal(infos, h.frozen) {
		return fmt.Errorf("the snapshot shows\n%+v, the model was\n%+v", infos, h.frozen)
	}
	h.kinds["snapshot"]++
	return nil
}

// TestHistoriesEqualModel: random requests, expiry, bounds, restarts and
// snapshots under way; the table and the model agree on every answer.
func TestHistoriesEqualModel(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, rand.Uint64()}
	if *historySeed != 0 {
		seeds = []uint64{*historySeed}
	}
	kinds := make(map[string]int)
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h := newHistory(seed)
			for i := range 20_000 {
				if err := h.step(); err != nil {
					t.Fatalf("step %d: %v (repeat with -history.seed=%d)", i, err, seed)
				}
				if i%200 == 0 {
					if err := h.model.compare(h.table); err != nil {
						t.Fatalf("step %d: %v (repeat with -history.seed=%d)", i, err, seed)
					}
				}
			}
			for kind, n := range h.kinds {
				kinds[kind] += n
			}
		})
	}
	t.Log(kinds)
	for _, kind := range []string{"accept", "duplicate", "done marker", "refused", "expire", "reload", "snapshot"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s came to pass", kind)
		}
	}
}
