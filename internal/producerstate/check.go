package producerstate

import (
	"fmt"

	"github.com/oncelog/oncelog/batch"
)

// Origin tells by which door a batch comes.
type Origin uint8

const (
	OriginClient      Origin = iota // an application: every rule
	OriginCoordinator               // offset commits, without sequences, and markers
	OriginReplica                   // decided elsewhere: replica's door, recovery, loading
)

// String is for errors and logs.
func (o Origin) String() string {
	switch o {
	case OriginClient:
		return "client"
	case OriginCoordinator:
		return "coordinator"
	case OriginReplica:
		return "replica"
	default:
		return fmt.Sprintf("origin %d", uint8(o))
	}
}

// Request is a batch to decide on. Its offsets are not given yet and not
// looked at.
type Request struct {
	Header    *batch.Header
	Marker    *batch.Marker // of a control batch that has one, else nil
	Origin    Origin
	Guard     Guard // from Verify; 0: none
	FirstEver bool  // the partition never held a record
	TV2       bool  // the marker ends a transaction of version 2
}

// Kind is what becomes of an acceptable batch.
type Kind uint8

const (
	Accept     Kind = iota // append it
	Duplicate              // stored already: answer the original, append nothing
	DoneMarker             // its transaction is ended already: answer success, append nothing
)

// String is for errors and logs.
func (k Kind) String() string {
	switch k {
	case Accept:
		return "accept"
	case Duplicate:
		return "duplicate"
	case DoneMarker:
		return "done marker"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Verdict is the decision. The other fields are those of the original of a
// duplicate, else 0.
type Verdict struct {
	Kind        Kind
	FirstOffset int64
	LastOffset  int64
	Timestamp   int64 // ms, the largest of the batch; Kafka answers it as append time
}

// Check decides on a batch by the rules of the package comment and changes
// nothing. Errors: *EpochError (ErrInvalidProducerEpoch), *SequenceError
// (ErrOutOfOrderSequence, ErrDuplicateSequence), ErrInvalidTxnState,
// ErrCoordinatorFenced. It allocates only to refuse.
func (t *Table) Check(r Request) (Verdict, error) {
	if r.Origin == OriginReplica || r.Header.Producer.ID < 0 {
		return Verdict{}, nil
	}
	if !r.Header.IsControl() {
		return t.checkData(&r)
	}
	if r.Marker == nil { // M1
		return Verdict{}, nil
	}
	return t.checkMarker(r.Marker, r.TV2)
}

func (t *Table) checkData(r *Request) (Verdict, error) {
	h := r.Header
	e, known := t.lookup(h.Producer.ID)
	client := r.Origin == OriginClient
	if client && known && e.epoch == h.Producer.Epoch { // D1
		if b, ok := t.find(e, h.BaseSequence, h.LastSequence()); ok {
			return Verdict{Duplicate, b.firstOffset(), b.lastOffset, b.timestamp}, nil
		}
	}
	if h.Producer.Epoch < e.epoch { // D2, D4: whatever the guard says
		return Verdict{}, &EpochError{Producer: h.Producer, Current: e.epoch}
	}
	ongoing := e.open() && e.epoch == h.Producer.Epoch
	if h.IsTransactional() && !ongoing && !t.guards.holds(h.Producer.ID, r.Guard) { // D3
		return Verdict{}, fmt.Errorf("%w: producer %d epoch %d begins without a valid guard",
			ErrInvalidTxnState, h.Producer.ID, h.Producer.Epoch)
	}
	if client {
		if err := t.checkSequence(r, e, known); err != nil {
			return Verdict{}, err
		}
	}
	if e.open() && !h.IsTransactional() { // D12
		return Verdict{}, fmt.Errorf("%w: producer %d is in a transaction since offset %d, the batch is not",
			ErrInvalidTxnState, h.Producer.ID, e.txnFirst)
	}
	return Verdict{}, nil // D13 is Apply's
}

// checkSequence is D5 to D11; fenced epochs are out of the way.
func (t *Table) checkSequence(r *Request, e *entry, known bool) error {
	h := r.Header
	first := h.BaseSequence
	gap := func(want int32) error {
		return &SequenceError{Producer: h.Producer, Want: want, Got: first, Err: ErrOutOfOrderSequence}
	}
	if v := t.guards.find(h.Producer.ID); v != nil {
		if v.tv2 && e.batches == 0 && first != 0 { // D5
			return gap(0)
		}
		if !known && v.epoch == h.Producer.Epoch && v.lowest != batch.None && first > v.lowest { // D6
			return gap(v.lowest)
		}
	}
	if !known && r.FirstEver && first != 0 { // D7
		return gap(0)
	}
	if h.Producer.Epoch != e.epoch {
		if e.epoch != batch.None && first != 0 { // D8
			return gap(0)
		}
		return nil // D9
	}
	last := e.lastSequence()
	if batch.FollowsSequence(last, first) { // D11
		return nil
	}
	err := &SequenceError{Producer: h.Producer, Want: nextSequence(last), Got: first, Err: ErrOutOfOrderSequence} // D10
	if storedBefore(e, h) {
		err.Err = ErrDuplicateSequence
	}
	return err
}

func nextSequence(last int32) int32 {
	if last == batch.None {
		return 0
	}
	return batch.AddSequence(last, 1)
}

// storedBefore tells whether all sequences of a batch lie at or below the last
// accepted one of its epoch. Sequences go round a ring of 2^31: "below" is the
// nearer half of it, and no further back than there are offsets below the last
// one, since each sequence has taken one. When in doubt the answer is no: to
// be told "gap" costs a client a retry, to be told "stored" may cost a record.
func storedBefore(e *entry, h *batch.Header) bool {
	if e.lastSequence() == batch.None || h.BaseSequence < 0 {
		return false
	}
	behind := int64(batch.SubSequence(e.last.lastSequence, h.LastSequence()))
	if behind >= 1<<30 {
		return false
	}
	return behind+int64(h.LastOffsetDelta) <= e.last.lastOffset
}

func (t *Table) checkMarker(m *batch.Marker, tv2 bool) (Verdict, error) {
	e, _ := t.lookup(m.Producer.ID)
	if m.Producer.Epoch < e.epoch { // M2
		return Verdict{}, &EpochError{Producer: m.Producer, Current: e.epoch}
	}
	if tv2 && m.Producer.Epoch == e.epoch { // M3
		if e.open() {
			return Verdict{}, &EpochError{Producer: m.Producer, Current: e.epoch}
		}
		return Verdict{Kind: DoneMarker}, nil
	}
	if m.CoordinatorEpoch < e.coordinatorEpoch { // M4
		return Verdict{}, fmt.Errorf("%w: marker of producer %d has coordinator epoch %d, partition has %d",
			ErrCoordinatorFenced, m.Producer.ID, m.CoordinatorEpoch, e.coordinatorEpoch)
	}
	return Verdict{}, nil // M5
}
