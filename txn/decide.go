package txn

import (
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
)

// The decisions: from what is known of an id and what is asked, to what is to be
// logged, or why not. They change nothing and know no clock, lock or log; state
// changes in entry.apply.

// decision is what comes of a request.
type decision struct {
	log    bool        // target is to be logged, and holds then
	target Transaction // unless log: as it is
	// fresh says that target needs a producer id nobody had: as its own with epoch
	// 0, or as NextID of a decision.
	fresh bool
	fence bool // the open transaction is to be aborted first, then ask again
	// memory is that of target's partitions, if it is not the one of the state
	// before; nil: they have none, or the same.
	memory *partitionList
}

// none is the producer of a request that names none.
var none = batch.Producer{ID: batch.None, Epoch: batch.None}

// pendingNone is the pending state of an id that nothing is under way for.
const pendingNone State = -1

// subject is an id as a decision sees it.
type subject struct {
	*Transaction       // nil: unknown
	pending      State // where it is on its way to
}

// decideInit is for a producer that wants to begin. An unknown id is made known
// before: with a fresh producer id, epoch -1, Empty.
func decideInit(s subject, expected batch.Producer, timeoutMs int32, now int64) (decision, error) {
	epoch := s.Producer.Epoch
	asks := expected != none
	switch {
	case s.pending != pendingNone:
		return decision{}, ErrConcurrent
	case asks && epoch != batch.None && expected.ID != s.Producer.ID && (expected.ID != s.PrevID || expected.Epoch < epochsUsed):
		return decision{}, fenced(expected, s.Producer)
	case s.State.prepared():
		return decision{}, ErrConcurrent
	case s.State == Ongoing:
		return decision{fence: true}, nil
	}
	d := decision{log: true, target: *s.Transaction}
	t := &d.target
	t.PrevID, t.State, t.Partitions = s.Producer.ID, Empty, nil
	t.TimeoutMs, t.StartMs, t.UpdatedMs = timeoutMs, -1, now
	t.ClientVersion = 0
	switch {
	case epoch >= epochsUsed && (!asks || expected.Epoch == epoch):
		d.fresh, t.Producer.Epoch, t.LastEpoch = true, 0, -1
		if asks {
			t.LastEpoch = epoch
		}
	case !asks:
		t.Producer.Epoch, t.LastEpoch = epoch+1, -1
	case expected.Epoch == epoch || epoch == batch.None:
		t.Producer.Epoch, t.LastEpoch = epoch+1, epoch
	case expected.Epoch == s.LastEpoch: // once more: it did not hear of the first
		t.PrevID = s.PrevID
	default:
		return decision{}, fenced(expected, s.Producer)
	}
	return d, nil
}

// decideAdd is for partitions that take part from now on; tv2: a producer whose
// epoch rises with every transaction wrote to them. All that take part are
// listed in memory.
func decideAdd(s subject, p batch.Producer, list []topic.Partition, tv2 bool, now int64, memory *partitionList) (decision, error) {
	switch {
	case s.Transaction == nil:
		return decision{}, unknown()
	case s.pending != pendingNone:
		return decision{}, ErrConcurrent
	}
	if err := s.identify(p); err != nil {
		return decision{}, err
	}
	if s.State.prepared() {
		return decision{}, ErrConcurrent
	}
	if s.State == Ongoing && s.hasAll(list) {
		return decision{target: *s.Transaction}, nil
	}
	d := decision{log: true, target: *s.Transaction, memory: memory}
	t := &d.target
	t.PrevID, t.UpdatedMs = s.Producer.ID, now
	if s.State != Ongoing {
		t.State, t.Partitions, t.StartMs = Ongoing, nil, now
	}
	memory.list = t.union(memory.list, list)
	t.Partitions = memory.list
	if t.ClientVersion = 0; tv2 {
		t.ClientVersion = 2
	}
	return d, nil
}

// decideVerify is for a log that asks whether partitions are part of a
// transaction.
func decideVerify(s subject, id string, p batch.Producer, list []topic.Partition) error {
	if s.Transaction == nil {
		return unknown()
	}
	if err := s.identify(p); err != nil {
		return err
	}
	if s.State.prepared() {
		return ErrConcurrent
	}
	if absent := s.missing(list); len(absent) > 0 {
		return &PartitionsError{TransactionalID: id, Partitions: absent}
	}
	return nil
}

// decideEnd is for a client that commits or aborts.
func decideEnd(s subject, p batch.Producer, commit, tv2 bool, now int64) (decision, error) {
	switch {
	case s.Transaction == nil:
		return decision{}, unknown()
	case tv2:
		return decideEndTV2(s, p, commit, now)
	}
	if err := s.identify(p); err != nil {
		return decision{}, err
	}
	if s.pending != pendingNone {
		return decision{}, ErrConcurrent
	}
	switch s.State {
	case Ongoing:
		return prepare(s, commit, false, now), nil
	case PrepareCommit, PrepareAbort:
		if commit == (s.State == PrepareCommit) {
			return decision{}, ErrConcurrent
		}
	case CompleteCommit, CompleteAbort:
		if commit == (s.State == CompleteCommit) {
			return decision{target: *s.Transaction}, nil // once more
		}
	}
	return decision{}, s.cannotEnd(commit)
}

// decideEndTV2 is decideEnd for a producer whose epoch rises: so an end that
// comes late, or again, cannot be taken for that of another transaction.
func decideEndTV2(s subject, p batch.Producer, commit bool, now int64) (decision, error) {
	if s.pending != pendingNone && s.pending != PrepareEpochFence {
		return decision{}, ErrConcurrent
	}
	rotated := p.ID == s.PrevID && p.Epoch == epochsUsed && s.Producer.Epoch == 0 && p.ID != s.Producer.ID
	if p.ID != s.Producer.ID && !rotated {
		return decision{}, mismatch(p, s.Producer)
	}
	current := p == s.Producer
	retry := rotated || p.Epoch != lastEpoch && p.ID == s.Producer.ID && s.Producer.Epoch == p.Epoch+1
	if accepted := current || retry; !accepted || retry && (s.State == Empty || s.State == Ongoing) || current && s.State.prepared() {
		return decision{}, fenced(p, s.Producer)
	}
	if s.pending != pendingNone {
		return decision{}, ErrConcurrent
	}
	switch {
	case s.State == Ongoing, current && !commit: // also where nothing was begun
		return prepare(s, commit, true, now), nil
	case current:
		return decision{}, s.cannotEnd(commit)
	case commit != (s.State == PrepareCommit || s.State == CompleteCommit):
		return decision{}, s.cannotEnd(commit)
	case s.State.prepared():
		return decision{}, ErrConcurrent
	}
	return decision{target: *s.Transaction}, nil // once more
}

// prepare is the decision itself.
func prepare(s subject, commit, tv2 bool, now int64) decision {
	d := decision{log: true, target: *s.Transaction}
	t := &d.target
	t.PrevID, t.UpdatedMs = s.Producer.ID, now
	if t.State = PrepareAbort; commit {
		t.State = PrepareCommit
	}
	if s.State != Ongoing { // an abort of nothing
		t.Partitions, t.StartMs = nil, now
	}
	if t.ClientVersion = 0; !tv2 {
		return d
	}
	t.ClientVersion, t.LastEpoch = 2, s.Producer.Epoch
	if s.Producer.Epoch >= epochsUsed {
		d.fresh, t.Producer.Epoch = true, lastEpoch
	} else {
		t.Producer.Epoch++
	}
	return d
}

// decideFence is for an open transaction that took too long, or whose producer
// has a successor. Its markers carry an epoch that nobody has, so that it is
// fenced everywhere.
func decideFence(s subject, tv2 bool, now int64) decision {
	if s.Producer.Epoch == lastEpoch { // stored by others: there is none above
		d := prepare(s, false, false, now)
		d.target.LastEpoch = -1
		return d
	}
	if tv2 {
		return prepare(s, false, true, now)
	}
	d := prepare(s, false, false, now)
	d.target.LastEpoch = -1
	d.target.Producer.Epoch++
	return d
}

// decideRaise gives an id an epoch above one that a partition knows of its
// producer: so whoever wrote there is fenced, and the end that it asks for later
// is not answered like that of another transaction. What is open is aborted. The
// epoch is the one for markers. Of a decision nothing is changed any more.
func decideRaise(s subject, known int16, tv2 bool, now int64) (d decision, markers int16) {
	known = max(known, s.Producer.Epoch)
	if s.State.prepared() {
		return decision{}, known
	}
	raised := *s.Transaction
	raised.Producer.Epoch = known
	if s.State == Ongoing {
		d = decideFence(subject{&raised, s.pending}, tv2, now)
		if known > s.Producer.Epoch {
			d.target.LastEpoch = -1
		}
		return d, d.target.Producer.Epoch
	}
	d = decision{log: true, target: raised}
	t := &d.target
	t.State, t.Partitions, t.StartMs, t.UpdatedMs = Empty, nil, -1, now
	t.PrevID, t.LastEpoch, t.ClientVersion = s.Producer.ID, -1, 0
	if known >= epochsUsed {
		d.fresh, t.Producer.Epoch = true, 0
		return d, lastEpoch
	}
	t.Producer.Epoch++
	return d, t.Producer.Epoch
}

// decideComplete is what follows when all markers of a decision are in their
// partitions.
func decideComplete(t *Transaction, now int64) Transaction {
	done := *t
	done.State, done.Partitions, done.UpdatedMs = t.State.complete(), nil, now
	done.PrevID, done.NextID = t.Producer.ID, -1
	if t.NextID >= 0 {
		done.Producer = batch.Producer{ID: t.NextID}
	}
	return done
}

// decideExpire tells whether an id is to be forgotten that was not used since.
func decideExpire(s subject, since int64) bool {
	return s.Transaction != nil && s.pending == pendingNone && s.State.expirable() && s.UpdatedMs <= since
}

// identify tells whether p is the producer of the id.
func (s subject) identify(p batch.Producer) error {
	switch {
	case p.ID != s.Producer.ID:
		return mismatch(p, s.Producer)
	case p.Epoch != s.Producer.Epoch:
		return fenced(p, s.Producer)
	}
	return nil
}

func (s subject) cannotEnd(commit bool) error {
	what := "abort"
	if commit {
		what = "commit"
	}
	return fmt.Errorf("%w: %s in state %s", ErrInvalidState, what, s.State)
}

func unknown() error {
	return fmt.Errorf("%w: nothing is known of it", ErrInvalidIDMapping)
}

func mismatch(got, want batch.Producer) error {
	return fmt.Errorf("%w: %d, it has %d", ErrInvalidIDMapping, got.ID, want.ID)
}

func fenced(got, want batch.Producer) error {
	return fmt.Errorf("%w: producer %d epoch %d, the current is %d epoch %d", ErrProducerFenced, got.ID, got.Epoch, want.ID, want.Epoch)
}
