package producerstate

import (
	"errors"
	"math"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// row is one case of the decision tables: a state, made by before, a request,
// and what is decided.
type row struct {
	name   string
	before func(p *partition)
	// The request.
	producer  batch.Producer
	sequence  int32
	n         int32 // records; 0: 1
	txn       bool
	origin    Origin
	guard     func(p *partition) Guard
	firstEver bool

	kind  Kind
	first int64 // of a duplicate
	want  int32 // of a sequence error
	err   error
}

func id1(epoch int16) batch.Producer { return batch.Producer{ID: 1, Epoch: epoch} }

// sent applies batches of one record, sequences first to last, at an epoch.
func sent(epoch int16, first, last int32) func(p *partition) {
	return func(p *partition) {
		for s := first; ; s = batch.AddSequence(s, 1) {
			p.data(id1(epoch), s, 1, false)
			if s == last {
				return
			}
		}
	}
}

// opened leaves a transaction open whose batches have sequences 0 to last.
func opened(epoch int16, last int32) func(p *partition) {
	return func(p *partition) { p.data(id1(epoch), 0, last+1, true) }
}

func ended(dataEpoch, markerEpoch int16) func(p *partition) {
	return func(p *partition) {
		p.data(id1(dataEpoch), 0, 3, true)
		p.marker(id1(markerEpoch), true, 0)
	}
}

func verified(epoch int16, sequence int32, tv2 bool) func(p *partition) Guard {
	return func(p *partition) Guard {
		g, _ := p.table.Verify(id1(epoch), sequence, tv2, p.clock)
		return g
	}
}

// both verifies one sequence, then asks about another.
func both(epoch int16, first, second int32) func(p *partition) Guard {
	return func(p *partition) Guard {
		p.table.Verify(id1(epoch), first, false, p.clock)
		return verified(epoch, second, false)(p)
	}
}

func nothing(*partition) {}

var dataRows = []row{
	{name: "D1 last batch again", before: sent(0, 0, 3), producer: id1(0), sequence: 3, kind: Duplicate, first: 3},
	{name: "D1 oldest of five", before: sent(0, 0, 7), producer: id1(0), sequence: 3, kind: Duplicate, first: 3},
	{name: "D1 whatever the transaction bit", before: sent(0, 0, 3), producer: id1(0), sequence: 2, txn: true, kind: Duplicate, first: 2},
	{name: "D1 in an ended transaction of this epoch", before: ended(4, 4), producer: id1(4), sequence: 0, n: 3, txn: true, kind: Duplicate, first: 0},
	{name: "D1 over the wrap", before: func(p *partition) {
		p.data(id1(0), math.MaxInt32-1, 5, false)
	}, producer: id1(0), sequence: math.MaxInt32 - 1, n: 5, kind: Duplicate, first: 0},
	{name: "D1 not for the coordinator", before: sent(0, 0, 3), producer: id1(0), sequence: 3, origin: OriginCoordinator, kind: Accept},
	{name: "D1 not across epochs", before: sent(1, 0, 3), producer: id1(0), sequence: 3, err: ErrInvalidProducerEpoch},

	{name: "D2 stale epoch, no guard", before: sent(5, 0, 3), producer: id1(4), txn: true, err: ErrInvalidProducerEpoch},
	{name: "D2 stale epoch after a timeout abort", before: ended(4, 5), producer: id1(4), sequence: 3, txn: true, err: ErrInvalidProducerEpoch},
	{name: "D2 of the coordinator", before: sent(5, 0, 3), producer: id1(4), sequence: -1, txn: true, origin: OriginCoordinator, err: ErrInvalidProducerEpoch},

	{name: "D3 no guard", before: nothing, producer: id1(0), txn: true, err: ErrInvalidTxnState},
	{name: "D3 foreign guard", before: nothing, producer: id1(0), txn: true, guard: func(p *partition) Guard {
		p.table.Verify(id1(0), 0, false, p.clock)
		g, _ := p.table.Verify(batch.Producer{ID: 2}, 0, false, p.clock)
		return g
	}, err: ErrInvalidTxnState},
	{name: "D3 guard", before: nothing, producer: id1(0), txn: true, guard: verified(0, 0, false), kind: Accept},
	{name: "D3 higher epoch in an open transaction", before: opened(0, 2), producer: id1(1), txn: true, err: ErrInvalidTxnState},
	{name: "D3 of the coordinator", before: nothing, producer: id1(0), sequence: -1, txn: true, origin: OriginCoordinator, err: ErrInvalidTxnState},
	{name: "D3 not for plain batches", before: nothing, producer: id1(0), kind: Accept},
	{name: "D3 not while open", before: opened(0, 2), producer: id1(0), sequence: 3, txn: true, kind: Accept},

	{name: "D4", before: sent(5, 0, 3), producer: id1(4), sequence: 4, err: ErrInvalidProducerEpoch},
	{name: "D4 of the coordinator", before: sent(5, 0, 3), producer: id1(4), sequence: -1, origin: OriginCoordinator, err: ErrInvalidProducerEpoch},

	{name: "D5 unknown id", before: nothing, producer: id1(0), sequence: 3, txn: true, guard: verified(0, 3, true), err: ErrOutOfOrderSequence, want: 0},
	{name: "D5 state from a marker", before: ended(4, 5), producer: id1(5), sequence: 3, txn: true, guard: verified(5, 3, true), err: ErrOutOfOrderSequence, want: 0},
	{name: "D5 from 0", before: ended(4, 5), producer: id1(5), txn: true, guard: verified(5, 0, true), kind: Accept},
	{name: "D5 not under older rules", before: nothing, producer: id1(0), sequence: 3, txn: true, guard: verified(0, 3, false), kind: Accept},

	{name: "D6", before: nothing, producer: id1(0), sequence: 5, txn: true, guard: both(0, 2, 5), err: ErrOutOfOrderSequence, want: 2},
	{name: "D6 the lower one", before: nothing, producer: id1(0), sequence: 2, txn: true, guard: both(0, 5, 2), kind: Accept},
	{name: "D6 not of another epoch", before: opened(0, 2), producer: id1(0), sequence: 3, txn: true, guard: func(p *partition) Guard {
		p.table.Verify(id1(1), 0, false, p.clock)
		return 0
	}, kind: Accept},
	{name: "D6 a retry does not count", before: ended(4, 4), producer: id1(4), sequence: 3, txn: true, guard: func(p *partition) Guard {
		p.table.Verify(id1(4), 0, false, p.clock) // the ended transaction's batch, late
		return verified(4, 3, false)(p)
	}, kind: Accept},

	{name: "D7", before: nothing, producer: id1(0), sequence: 5, firstEver: true, err: ErrOutOfOrderSequence, want: 0},
	{name: "D7 from 0", before: nothing, producer: id1(0), firstEver: true, kind: Accept},
	{name: "D7 not with a record before", before: nothing, producer: id1(0), sequence: 5, kind: Accept},

	{name: "D8 higher epoch", before: sent(5, 0, 3), producer: id1(6), sequence: 4, err: ErrOutOfOrderSequence, want: 0},
	{name: "D8 in a transaction", before: opened(0, 2), producer: id1(1), sequence: 3, txn: true, guard: verified(1, 3, false), err: ErrOutOfOrderSequence, want: 0},

	{name: "D9 unknown id, any sequence, any epoch", before: nothing, producer: id1(9), sequence: 41, kind: Accept},
	{name: "D9 higher epoch from 0", before: sent(5, 0, 3), producer: id1(6), kind: Accept},
	{name: "D9 state without an epoch", before: func(p *partition) {
		p.table.Apply(dataBatch(0, id1(-1), 0, 1, false), nil, 0)
	}, producer: id1(0), sequence: 7, kind: Accept},

	{name: "D10 gap", before: sent(0, 0, 3), producer: id1(0), sequence: 5, err: ErrOutOfOrderSequence, want: 4},
	{name: "D10 gap after the wrap", before: func(p *partition) { p.data(id1(0), math.MaxInt32-1, 5, false) },
		producer: id1(0), sequence: 5, err: ErrOutOfOrderSequence, want: 3},
	{name: "D10 gap before the wrap", before: sent(0, math.MaxInt32-9, math.MaxInt32-5),
		producer: id1(0), sequence: 3, err: ErrOutOfOrderSequence, want: math.MaxInt32 - 4},
	{name: "D10 wrap needs 0", before: sent(0, math.MaxInt32-2, math.MaxInt32), producer: id1(0), sequence: 1, err: ErrOutOfOrderSequence, want: 0},
	{name: "D10 partial overlap", before: sent(0, 0, 3), producer: id1(0), sequence: 3, n: 2, err: ErrOutOfOrderSequence, want: 4},
	{name: "D10 state from a marker", before: ended(4, 5), producer: id1(5), sequence: 3, err: ErrOutOfOrderSequence, want: 0},
	{name: "D10 stored, older than five", before: sent(0, 0, 7), producer: id1(0), sequence: 2, err: ErrDuplicateSequence, want: 8},
	{name: "D10 stored, another division", before: sent(0, 0, 7), producer: id1(0), sequence: 4, n: 3, err: ErrDuplicateSequence, want: 8},
	{name: "D10 stored, over the wrap", before: sent(0, math.MaxInt32-4, 4), producer: id1(0), sequence: math.MaxInt32 - 2, n: 4, err: ErrDuplicateSequence, want: 5},
	{name: "D10 never stored: no room below the log", before: sent(0, 0, 3), producer: id1(0), sequence: math.MaxInt32 - 2, err: ErrOutOfOrderSequence, want: 4},

	{name: "D11", before: sent(0, 0, 3), producer: id1(0), sequence: 4, n: 100, kind: Accept},
	{name: "D11 over the wrap", before: sent(0, math.MaxInt32-2, math.MaxInt32), producer: id1(0), kind: Accept},
	{name: "D11 sequences run on over transactions", before: ended(4, 4), producer: id1(4), sequence: 3, txn: true, guard: verified(4, 3, false), kind: Accept},
	{name: "D11 no batch yet", before: ended(4, 5), producer: id1(5), kind: Accept},

	{name: "D12", before: opened(0, 2), producer: id1(0), sequence: 3, err: ErrInvalidTxnState},
	{name: "D12 higher epoch", before: opened(0, 2), producer: id1(1), err: ErrInvalidTxnState},
	{name: "D12 of the coordinator", before: opened(0, 2), producer: id1(0), sequence: -1, origin: OriginCoordinator, err: ErrInvalidTxnState},
	{name: "D12 a gap is told first", before: opened(0, 2), producer: id1(0), sequence: 4, err: ErrOutOfOrderSequence, want: 3},

	{name: "coordinator, no sequence", before: sent(0, 0, 3), producer: id1(0), sequence: -1, origin: OriginCoordinator, kind: Accept},
	{name: "replica, lower epoch", before: sent(5, 0, 3), producer: id1(4), sequence: 77, origin: OriginReplica, kind: Accept},
	{name: "replica, gap", before: sent(0, 0, 3), producer: id1(0), sequence: 77, origin: OriginReplica, kind: Accept},
	{name: "replica, duplicate", before: sent(0, 0, 3), producer: id1(0), sequence: 3, origin: OriginReplica, kind: Accept},
	{name: "replica, no guard", before: nothing, producer: id1(0), sequence: 3, txn: true, origin: OriginReplica, kind: Accept},
	{name: "replica, plain in a transaction", before: opened(0, 2), producer: id1(0), sequence: 3, origin: OriginReplica, kind: Accept},
	{name: "no producer", before: nothing, producer: batch.NoProducer, sequence: -1, firstEver: true, kind: Accept},
	{name: "no producer, but epoch and sequence", before: nothing, producer: batch.Producer{ID: -1, Epoch: 3}, sequence: 9, txn: true, kind: Accept},
}

func TestCheckData(t *testing.T) {
	for _, r := range dataRows {
		t.Run(r.name, func(t *testing.T) {
			p := newPartition()
			r.before(p)
			request := Request{
				Header:    dataBatch(0, r.producer, r.sequence, max(r.n, 1), r.txn),
				Origin:    r.origin,
				FirstEver: r.firstEver,
			}
			if r.guard != nil {
				request.Guard = r.guard(p)
			}
			unchanged := p.table.AppendSnapshot(nil)
			v, err := p.table.Check(request)
			if string(unchanged) != string(p.table.AppendSnapshot(nil)) {
				t.Error("Check changed the table")
			}
			checkVerdict(t, r, v, err)
			mustAudit(t, p.table)
		})
	}
}

func checkVerdict(t *testing.T, r row, v Verdict, err error) {
	t.Helper()
	if !errors.Is(err, r.err) || (err == nil) != (r.err == nil) {
		t.Fatalf("error %v, want %v", err, r.err)
	}
	if r.err == nil {
		if v.Kind != r.kind {
			t.Fatalf("%v, want %v", v.Kind, r.kind)
		}
		if v.Kind == Duplicate && (v.FirstOffset != r.first || v.LastOffset != r.first+int64(max(r.n, 1))-1 ||
			v.Timestamp != 1000+r.first) {
			t.Errorf("original %+v, want first offset %d", v, r.first)
		}
		return
	}
	if sequence, ok := errors.AsType[*SequenceError](err); ok {
		if sequence.Want != r.want || sequence.Got != r.sequence || sequence.Producer != r.producer {
			t.Errorf("%+v, want sequence %d", sequence, r.want)
		}
		if duplicate := r.err == ErrDuplicateSequence; errors.Is(err, ErrDuplicateSequence) != duplicate {
			t.Errorf("%v: says already stored: %v", err, !duplicate)
		}
		if !errors.Is(err, ErrOutOfOrderSequence) {
			t.Errorf("%v does not wrap what Kafka answers", err)
		}
	}
}

func TestCheckMarker(t *testing.T) {
	coordinator := func(epoch int32) func(p *partition) {
		return func(p *partition) {
			p.data(id1(4), 0, 1, true)
			p.marker(id1(4), true, epoch)
			p.data(id1(4), 1, 1, true)
		}
	}
	for _, r := range []struct {
		name        string
		before      func(p *partition)
		epoch       int16
		coordinator int32
		tv2         bool
		origin      Origin
		kind        Kind
		err         error
	}{
		{name: "M2", before: opened(5, 2), epoch: 4, origin: OriginCoordinator, err: ErrInvalidProducerEpoch},
		{name: "M2 v2", before: opened(5, 2), epoch: 4, tv2: true, origin: OriginCoordinator, err: ErrInvalidProducerEpoch},
		{name: "M2 from a client's door", before: opened(5, 2), epoch: 4, err: ErrInvalidProducerEpoch},
		{name: "M2 replica", before: opened(5, 2), epoch: 4, origin: OriginReplica},
		{name: "M3 open", before: opened(5, 2), epoch: 5, tv2: true, origin: OriginCoordinator, err: ErrInvalidProducerEpoch},
		{name: "M3 retry", before: ended(4, 5), epoch: 5, tv2: true, origin: OriginCoordinator, kind: DoneMarker},
		{name: "M3 retry before M4", before: ended(4, 5), epoch: 5, coordinator: -1, tv2: true, origin: OriginCoordinator, kind: DoneMarker},
		{name: "M3 replica", before: opened(5, 2), epoch: 5, tv2: true, origin: OriginReplica},
		{name: "M4", before: coordinator(7), epoch: 4, coordinator: 6, origin: OriginCoordinator, err: ErrCoordinatorFenced},
		{name: "M4 equal", before: coordinator(7), epoch: 4, coordinator: 7, origin: OriginCoordinator},
		{name: "M4 v2", before: coordinator(7), epoch: 5, coordinator: 6, tv2: true, origin: OriginCoordinator, err: ErrCoordinatorFenced},
		{name: "M4 replica", before: coordinator(7), epoch: 4, coordinator: 6, origin: OriginReplica},
		{name: "M5 older rules, equal epoch, open", before: opened(5, 2), epoch: 5, origin: OriginCoordinator},
		{name: "M5 older rules, equal epoch, none open", before: ended(5, 5), epoch: 5, origin: OriginCoordinator},
		{name: "M5 v2", before: opened(5, 2), epoch: 6, tv2: true, origin: OriginCoordinator},
		{name: "M5 unknown id", before: nothing, epoch: 5, tv2: true, origin: OriginCoordinator},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := newPartition()
			r.before(p)
			h, m := markerBatch(p.end, id1(r.epoch), true, r.coordinator)
			v, err := p.table.Check(Request{Header: h, Marker: m, Origin: r.origin, TV2: r.tv2})
			if !errors.Is(err, r.err) || (err == nil) != (r.err == nil) || v.Kind != r.kind {
				t.Errorf("%v, %v; want %v, %v", v.Kind, err, r.kind, r.err)
			}
			if epoch, ok := errors.AsType[*EpochError](err); ok && (epoch.Current != 5 || epoch.Producer != id1(r.epoch)) {
				t.Errorf("facts %+v", epoch)
			}
		})
	}
}

func TestControlBatchWithoutMarker(t *testing.T) { // M1
	p := newPartition()
	opened(5, 2)(p)
	before := p.table.AppendSnapshot(nil)
	h, _ := markerBatch(p.end, id1(1), true, 0)
	if v, err := p.table.Check(Request{Header: h, Origin: OriginCoordinator}); err != nil || v.Kind != Accept {
		t.Errorf("%v %v", v, err)
	}
	if _, ok := p.table.Apply(h, nil, p.clock); ok {
		t.Error("it ended a transaction")
	}
	if string(before) != string(p.table.AppendSnapshot(nil)) {
		t.Error("it changed the table")
	}
}

func TestD13BeginsATransaction(t *testing.T) {
	p := newPartition()
	p.end = 40
	p.data(id1(0), 0, 3, true)
	p.data(id1(0), 3, 3, true)
	if info, _ := p.table.Info(1); info.TxnFirst != 40 || info.LastOffset != 45 {
		t.Errorf("%+v", info)
	}
	if !p.table.HasOngoing(id1(0)) || p.table.HasOngoing(id1(1)) || p.table.HasOngoing(batch.Producer{ID: 2}) {
		t.Error("HasOngoing")
	}
}

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"producerstate: sequence out of order: producer 7 epoch 2: want 4, got 9": &SequenceError{
			Producer: batch.Producer{ID: 7, Epoch: 2}, Want: 4, Got: 9, Err: ErrOutOfOrderSequence},
		"producerstate: producer epoch is fenced: producer 7 epoch 2, partition has 3": &EpochError{
			Producer: batch.Producer{ID: 7, Epoch: 2}, Current: 3},
		"producerstate: damaged snapshot: at byte 10: producer id -4": &SnapshotError{Pos: 10, Reason: "producer id -4"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
