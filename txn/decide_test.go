package txn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
)

// The rows of Kafka's decision tables. Producer 7 has epoch 5 and had 4 before,
// unless a row says otherwise; the time is 1000.

const now = 1000

func at(state State, change ...func(*Transaction)) *Transaction {
	t := &Transaction{
		Producer: batch.Producer{ID: 7, Epoch: 5}, PrevID: 7, NextID: -1, LastEpoch: 4, NextEpoch: -1,
		TimeoutMs: 60_000, State: state, StartMs: 500, UpdatedMs: 600,
	}
	switch state {
	case Empty:
		t.StartMs = -1
	case Ongoing, PrepareCommit, PrepareAbort:
		t.Partitions = []topic.Partition{{Topic: "t", Index: 1}}
	}
	for _, f := range change {
		f(t)
	}
	return t
}

func epoch(e, last int16) func(*Transaction) {
	return func(t *Transaction) { t.Producer.Epoch, t.LastEpoch = e, last }
}

// rotated: producer id 6 used its epochs up, and 7 took over.
func rotated(t *Transaction) { t.Producer.Epoch, t.LastEpoch, t.PrevID = 0, epochsUsed, 6 }

func producer(id int64, epoch int16) batch.Producer { return batch.Producer{ID: id, Epoch: epoch} }

func TestDecideInit(t *testing.T) {
	type answer struct {
		err   error
		fence bool
		fresh bool
		epoch int16
		last  int16
	}
	for _, c := range []struct {
		name     string
		t        *Transaction
		pending  State
		expected batch.Producer
		want     answer
	}{
		{"1 first", at(Empty, epoch(-1, -1)), pendingNone, none, answer{epoch: 0, last: -1}},
		{"first, expecting what was forgotten", at(Empty, epoch(-1, -1)), pendingNone, producer(3, 9), answer{epoch: 0, last: -1}},
		{"2 plain", at(Empty), pendingNone, none, answer{epoch: 6, last: -1}},
		{"plain after a commit", at(CompleteCommit), pendingNone, none, answer{epoch: 6, last: -1}},
		{"plain after an abort", at(CompleteAbort), pendingNone, none, answer{epoch: 6, last: -1}},
		{"3 expecting the current", at(Empty), pendingNone, producer(7, 5), answer{epoch: 6, last: 5}},
		{"3 once more", at(Empty, epoch(6, 5)), pendingNone, producer(7, 5), answer{epoch: 6, last: 5}},
		{"4 expecting an older", at(Empty, epoch(6, 5)), pendingNone, producer(7, 4), answer{err: ErrProducerFenced}},
		{"expecting one that was fenced", at(Empty, epoch(6, -1)), pendingNone, producer(7, 5), answer{err: ErrProducerFenced}},
		{"expecting another id", at(Empty), pendingNone, producer(8, 5), answer{err: ErrProducerFenced}},
		{"pending", at(Empty), Ongoing, none, answer{err: ErrConcurrent}},
		{"8 ongoing", at(Ongoing), pendingNone, none, answer{fence: true}},
		{"ongoing, expecting another id", at(Ongoing), pendingNone, producer(8, 5), answer{err: ErrProducerFenced}},
		{"9 prepare commit", at(PrepareCommit), pendingNone, none, answer{err: ErrConcurrent}},
		{"prepare abort", at(PrepareAbort), pendingNone, none, answer{err: ErrConcurrent}},
		{"10 epochs used up", at(Empty, epoch(32766, 4)), pendingNone, none, answer{fresh: true, epoch: 0, last: -1}},
		{"11 used up, expecting the current", at(Empty, epoch(32766, 4)), pendingNone, producer(7, 32766), answer{fresh: true, epoch: 0, last: 32766}},
		{"11 once more with the old id", at(Empty, rotated), pendingNone, producer(6, 32766), answer{epoch: 0, last: 32766}},
		{"the old id with another epoch", at(Empty, rotated), pendingNone, producer(6, 32765), answer{err: ErrProducerFenced}},
		{"used up, expecting the last", at(Empty, epoch(32766, 32765)), pendingNone, producer(7, 32765), answer{epoch: 32766, last: 32765}},
		{"used up, expecting an older", at(Empty, epoch(32766, 32765)), pendingNone, producer(7, 3), answer{err: ErrProducerFenced}},
		{"stored 32767", at(CompleteAbort, epoch(32767, -1)), pendingNone, none, answer{fresh: true, epoch: 0, last: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := decideInit(subject{c.t, c.pending}, c.expected, 9000, now)
			got := answer{fence: d.fence, fresh: d.fresh}
			if d.log {
				got.epoch, got.last = d.target.Producer.Epoch, d.target.LastEpoch
				if t2 := d.target; t2.State != Empty || t2.Partitions != nil || t2.StartMs != -1 || t2.TimeoutMs != 9000 || t2.UpdatedMs != now {
					t.Errorf("logs %+v", t2)
				}
			}
			if !errors.Is(err, c.want.err) || err == nil && got != c.want || d.log != (err == nil && !d.fence) {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestDecideAdd(t *testing.T) {
	one, two := topic.Partition{Topic: "t", Index: 1}, topic.Partition{Topic: "s", Index: 2}
	for _, c := range []struct {
		name    string
		t       *Transaction
		pending State
		p       batch.Producer
		list    []topic.Partition
		tv2     bool
		err     error
		want    string // state, partitions and start of what is logged; "": nothing
	}{
		{"15 first", at(Empty), pendingNone, producer(7, 5), []topic.Partition{one}, false, nil, "Ongoing [t-1] 1000 0"},
		{"first, implicit", at(CompleteCommit), pendingNone, producer(7, 5), []topic.Partition{one}, true, nil, "Ongoing [t-1] 1000 2"},
		{"after an abort", at(CompleteAbort), pendingNone, producer(7, 5), []topic.Partition{one}, false, nil, "Ongoing [t-1] 1000 0"},
		{"15 more", at(Ongoing), pendingNone, producer(7, 5), []topic.Partition{two, one}, false, nil, "Ongoing [s-2 t-1] 500 0"},
		{"16 the same", at(Ongoing), pendingNone, producer(7, 5), []topic.Partition{one}, false, nil, ""},
		{"none", at(Empty), pendingNone, producer(7, 5), nil, false, nil, "Ongoing [] 1000 0"},
		{"17 wrong id", at(Ongoing), pendingNone, producer(8, 5), []topic.Partition{one}, false, ErrInvalidIDMapping, ""},
		{"17 lower epoch", at(Ongoing), pendingNone, producer(7, 4), []topic.Partition{one}, false, ErrProducerFenced, ""},
		{"17 higher epoch", at(Ongoing), pendingNone, producer(7, 6), []topic.Partition{one}, false, ErrProducerFenced, ""},
		{"17 unknown", nil, pendingNone, producer(7, 5), []topic.Partition{one}, false, ErrInvalidIDMapping, ""},
		{"pending comes before the id", at(Ongoing), Ongoing, producer(8, 5), []topic.Partition{one}, false, ErrConcurrent, ""},
		{"19 prepare commit", at(PrepareCommit), pendingNone, producer(7, 5), []topic.Partition{one}, false, ErrConcurrent, ""},
		{"19 prepare abort", at(PrepareAbort), pendingNone, producer(7, 5), []topic.Partition{one}, false, ErrConcurrent, ""},
		{"prepare, wrong epoch", at(PrepareAbort), pendingNone, producer(7, 4), []topic.Partition{one}, false, ErrProducerFenced, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := decideAdd(subject{c.t, c.pending}, c.p, c.list, c.tv2, now, new(partitionList))
			got := ""
			if d.log {
				got = fmt.Sprint(d.target.State, " ", d.target.Partitions, " ", d.target.StartMs, " ", d.target.ClientVersion)
			}
			if !errors.Is(err, c.err) || got != c.want {
				t.Errorf("logs %q, %v, want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestDecideVerify(t *testing.T) {
	one, two := topic.Partition{Topic: "t", Index: 1}, topic.Partition{Topic: "s", Index: 2}
	for _, c := range []struct {
		name string
		t    *Transaction
		p    batch.Producer
		list []topic.Partition
		err  error
	}{
		{"part of it", at(Ongoing), producer(7, 5), []topic.Partition{one}, nil},
		{"not part of it", at(Ongoing), producer(7, 5), []topic.Partition{one, two}, ErrNotInTransaction},
		{"none open", at(CompleteCommit), producer(7, 5), []topic.Partition{one}, ErrNotInTransaction},
		{"unknown", nil, producer(7, 5), []topic.Partition{one}, ErrInvalidIDMapping},
		{"wrong id", at(Ongoing), producer(8, 5), []topic.Partition{one}, ErrInvalidIDMapping},
		{"wrong epoch", at(Ongoing), producer(7, 6), []topic.Partition{one}, ErrProducerFenced},
		{"prepare", at(PrepareCommit), producer(7, 5), []topic.Partition{one}, ErrConcurrent},
	} {
		if err := decideVerify(subject{c.t, pendingNone}, "id", c.p, c.list); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
	err := decideVerify(subject{at(Ongoing), pendingNone}, "id", producer(7, 5), []topic.Partition{one, two})
	if e, ok := errors.AsType[*PartitionsError](err); !ok || len(e.Partitions) != 1 || e.Partitions[0] != two {
		t.Errorf("%v, want that s-2 is missing", err)
	}
}

// TestDecideEnd holds every cell: of transactions whose epoch stays, and of those
// whose epoch rises for the current epoch and for a retry.
func TestDecideEnd(t *testing.T) {
	const (
		refused = "invalid state"
		busy    = "concurrent"
		stale   = "fenced"
		foreign = "mapping"
		same    = "as it is"
	)
	kinds := map[string]error{refused: ErrInvalidState, busy: ErrConcurrent, stale: ErrProducerFenced, foreign: ErrInvalidIDMapping}
	states := []State{Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort}
	check := func(name string, s subject, p batch.Producer, commit, tv2 bool, want string) {
		t.Helper()
		d, err := decideEnd(s, p, commit, tv2, now)
		got := same
		for text, kind := range kinds {
			if errors.Is(err, kind) {
				got = text
			}
		}
		if d.log {
			got = fmt.Sprint(d.target.State, " ", d.target.Producer.Epoch)
		}
		if got != want || err != nil && kinds[want] == nil {
			t.Errorf("%s, commit %t: %s (%v), want %s", name, commit, got, err, want)
		}
	}
	for _, c := range []struct {
		name          string
		tv2           bool
		p             batch.Producer
		commit, abort [6]string
	}{
		{"34 epoch stays", false, producer(7, 5),
			[6]string{refused, "PrepareCommit 5", busy, refused, same, refused},
			[6]string{refused, "PrepareAbort 5", refused, busy, refused, same}},
		{"epoch stays, lower", false, producer(7, 4), [6]string{stale, stale, stale, stale, stale, stale}, [6]string{stale, stale, stale, stale, stale, stale}},
		{"36 epoch rises, current", true, producer(7, 5),
			[6]string{refused, "PrepareCommit 6", stale, stale, refused, refused},
			[6]string{"PrepareAbort 6", "PrepareAbort 6", stale, stale, "PrepareAbort 6", "PrepareAbort 6"}},
		{"35, 37 epoch rises, retry", true, producer(7, 4),
			[6]string{stale, stale, busy, refused, same, refused},
			[6]string{stale, stale, refused, busy, refused, same}},
		{"40 higher", true, producer(7, 6), [6]string{stale, stale, stale, stale, stale, stale}, [6]string{stale, stale, stale, stale, stale, stale}},
		{"two older", true, producer(7, 3), [6]string{stale, stale, stale, stale, stale, stale}, [6]string{stale, stale, stale, stale, stale, stale}},
		{"another id", true, producer(8, 5), [6]string{foreign, foreign, foreign, foreign, foreign, foreign}, [6]string{foreign, foreign, foreign, foreign, foreign, foreign}},
		{"another id, epoch stays", false, producer(8, 5), [6]string{foreign, foreign, foreign, foreign, foreign, foreign}, [6]string{foreign, foreign, foreign, foreign, foreign, foreign}},
	} {
		for i, state := range states {
			name := c.name + " in " + state.String()
			check(name, subject{at(state), pendingNone}, c.p, true, c.tv2, c.commit[i])
			check(name, subject{at(state), pendingNone}, c.p, false, c.tv2, c.abort[i])
		}
	}
	// Pending: before everything where the epoch rises, behind the identity where
	// it stays.
	check("41 pending, wrong epoch", subject{at(Ongoing), Ongoing}, producer(7, 3), true, true, busy)
	check("pending, wrong id", subject{at(Ongoing), Ongoing}, producer(8, 5), true, true, busy)
	check("pending, epoch stays", subject{at(Ongoing), Ongoing}, producer(7, 5), true, false, busy)
	check("pending, epoch stays, wrong", subject{at(Ongoing), Ongoing}, producer(7, 4), true, false, stale)
	check("unknown", subject{nil, pendingNone}, producer(7, 5), true, true, foreign)
	// 38: the epochs are used up; the retry comes with the old id.
	d, err := decideEnd(subject{at(Ongoing, epoch(32766, 4)), pendingNone}, producer(7, 32766), true, true, now)
	if err != nil || !d.log || !d.fresh || d.target.Producer != producer(7, 32767) || d.target.LastEpoch != 32766 {
		t.Errorf("the last epoch: %+v, %v", d, err)
	}
	d.target.NextID = 9
	done := decideComplete(&d.target, now)
	if done.Producer != producer(9, 0) || done.PrevID != 7 || done.NextID != -1 || done.State != CompleteCommit || done.Partitions != nil {
		t.Errorf("complete with the next id: %+v", done)
	}
	check("38 retry with the old id", subject{&done, pendingNone}, producer(7, 32766), true, true, same)
	check("38 retry, other result", subject{&done, pendingNone}, producer(7, 32766), false, true, refused)
}

func TestDecideFence(t *testing.T) {
	for _, c := range []struct {
		name  string
		t     *Transaction
		tv2   bool
		epoch int16
		last  int16
		fresh bool
	}{
		{"epoch rises: once", at(Ongoing), true, 6, 5, false},
		{"epoch stays", at(Ongoing), false, 6, -1, false},
		{"epochs used up", at(Ongoing, epoch(32766, 4)), true, 32767, 32766, true},
		{"epochs used up, epoch stays", at(Ongoing, epoch(32766, 4)), false, 32767, -1, false},
		{"stored 32767", at(Ongoing, epoch(32767, 4)), true, 32767, -1, false},
	} {
		d := decideFence(subject{c.t, pendingNone}, c.tv2, now)
		if !d.log || d.target.State != PrepareAbort || d.target.Producer.Epoch != c.epoch || d.target.LastEpoch != c.last || d.fresh != c.fresh {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// 64: a clock that goes back makes nothing old; two-phase transactions never are.
func TestExpired(t *testing.T) {
	for _, c := range []struct {
		t    *Transaction
		now  int64
		want bool
	}{
		{at(Ongoing), 60_500, false}, {at(Ongoing), 60_501, true}, {at(Ongoing), 0, false}, {at(Ongoing), -1 << 40, false},
		{at(PrepareAbort), 1 << 40, false}, {at(Empty), 1 << 40, false},
		{at(Ongoing, func(t *Transaction) { t.TimeoutMs = noTimeout }), 1 << 50, false},
	} {
		if got := c.t.expired(c.now); got != c.want {
			t.Errorf("%s from %d at %d: %t", c.t.State, c.t.StartMs, c.now, got)
		}
	}
}

// 65: what is open, under way, decided or already going is not forgotten.
func TestDecideExpire(t *testing.T) {
	for _, c := range []struct {
		s    subject
		want bool
	}{
		{subject{at(Empty), pendingNone}, true}, {subject{at(CompleteCommit), pendingNone}, true}, {subject{at(CompleteAbort), pendingNone}, true},
		{subject{at(Ongoing), pendingNone}, false}, {subject{at(PrepareCommit), pendingNone}, false}, {subject{at(PrepareAbort), pendingNone}, false},
		{subject{at(Empty), Ongoing}, false}, {subject{at(Empty, func(t *Transaction) { t.UpdatedMs = 601 }), pendingNone}, false},
		{(&entry{t: *at(Empty), pending: Dead}).subject(), false}, {(*entry)(nil).subject(), false},
	} {
		if got := decideExpire(c.s, 600); got != c.want {
			t.Errorf("%+v: %t", c.s, got)
		}
	}
}

// Every decision is a transition that exists.
func TestFollows(t *testing.T) {
	states := []State{Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort}
	for _, from := range states {
		for _, tv2 := range []bool{false, true} {
			for _, commit := range []bool{false, true} {
				if d, err := decideEnd(subject{at(from), pendingNone}, producer(7, 5), commit, tv2, now); err == nil && d.log && !follows(from, d.target.State, tv2) {
					t.Errorf("an end goes from %s to %s", from, d.target.State)
				}
			}
			if d, err := decideAdd(subject{at(from), pendingNone}, producer(7, 5), nil, tv2, now, new(partitionList)); err == nil && d.log && !follows(from, d.target.State, tv2) {
				t.Errorf("an addition goes from %s to %s", from, d.target.State)
			}
		}
		if d, err := decideInit(subject{at(from), pendingNone}, none, 1, now); err == nil && d.log && !follows(from, d.target.State, false) {
			t.Errorf("an initialisation goes from %s to %s", from, d.target.State)
		}
	}
}

// TestDecideRaise: of an id some of whose transactions the log does not know.
func TestDecideRaise(t *testing.T) {
	for _, c := range []struct {
		name    string
		t       *Transaction
		known   int16 // to partitions
		tv2     bool
		want    string // state, epoch and last epoch of what is logged; "": nothing
		fresh   bool
		markers int16
	}{
		{"nothing open", at(Empty), 5, true, "Empty 6 -1", false, 6},
		{"nothing open, partitions know less", at(Empty), 2, true, "Empty 6 -1", false, 6},
		{"nothing open, partitions know more", at(CompleteAbort), 9, true, "Empty 10 -1", false, 10},
		{"committed: that is not to be answered again", at(CompleteCommit), 5, true, "Empty 6 -1", false, 6},
		{"open", at(Ongoing), 5, true, "PrepareAbort 6 5", false, 6},
		{"open, epoch stays", at(Ongoing), 5, false, "PrepareAbort 6 -1", false, 6},
		{"open, partitions know more: its client is fenced", at(Ongoing), 9, true, "PrepareAbort 10 -1", false, 10},
		{"decided", at(PrepareCommit), 5, true, "", false, 5},
		{"decided, partitions know more", at(PrepareAbort), 9, true, "", false, 9},
		{"epochs used up", at(Empty), 32766, true, "Empty 0 -1", true, 32767},
		{"the last epoch", at(Empty), 32767, true, "Empty 0 -1", true, 32767},
		{"open, epochs used up", at(Ongoing), 32766, true, "PrepareAbort 32767 -1", true, 32767},
		{"open, the last epoch", at(Ongoing), 32767, true, "PrepareAbort 32767 -1", false, 32767},
	} {
		d, markers := decideRaise(subject{c.t, pendingNone}, c.known, c.tv2, now)
		got := ""
		if d.log {
			got = fmt.Sprint(d.target.State, " ", d.target.Producer.Epoch, " ", d.target.LastEpoch)
			if broken := breaks(c.t, &d.target); broken != "" && !d.fresh {
				t.Errorf("%s: %s", c.name, broken)
			}
		}
		if got != c.want || d.fresh != c.fresh || markers != c.markers {
			t.Errorf("%s: logs %q, fresh %t, markers %d, want %q, %t, %d", c.name, got, d.fresh, markers, c.want, c.fresh, c.markers)
		}
	}
}

// TestBreaks: what may not follow on what, and would be a mistake of ours.
func TestBreaks(t *testing.T) {
	twice := func(t *Transaction) { t.Partitions = []topic.Partition{{Topic: "s"}, {Topic: "t", Index: 1}} }
	listless := func(t *Transaction) { t.Partitions = nil }
	for _, c := range []struct {
		from, to *Transaction
		broken   bool
	}{
		{at(Empty), at(Ongoing), false},
		{at(Ongoing), at(Ongoing, twice), false},
		{at(Ongoing, twice), at(Ongoing), true},
		{at(Ongoing), at(PrepareCommit, epoch(6, 5)), false},
		{at(Ongoing), at(PrepareCommit, epoch(4, 3)), true},
		{at(Ongoing), at(PrepareCommit, listless), true},
		{at(Ongoing), at(PrepareAbort, func(t *Transaction) { t.TimeoutMs++ }), true},
		{at(Ongoing), at(CompleteCommit), true},
		{at(Ongoing), at(Empty), true},
		{at(PrepareCommit), at(CompleteCommit), false},
		{at(PrepareCommit), at(CompleteAbort), true},
		{at(PrepareCommit), at(CompleteCommit, twice), true},
		{at(PrepareCommit), at(CompleteCommit, func(t *Transaction) { t.StartMs = -1 }), true},
		{at(PrepareCommit, epoch(32767, 32766)), at(CompleteCommit, func(t *Transaction) { t.Producer = producer(9, 0) }), false},
		{at(PrepareCommit, epoch(32767, 32766)), at(CompleteCommit, func(t *Transaction) { t.Producer = producer(9, 1) }), true},
		{at(CompleteAbort), at(Empty), false},
		{at(CompleteAbort), at(Empty, func(t *Transaction) { t.StartMs = 1 }), true},
		{at(Empty, epoch(-1, -1)), at(Empty, epoch(0, -1)), false},
		{at(Empty), at(Ongoing, func(t *Transaction) { t.PrevID = 6 }), true},
	} {
		if got := breaks(c.from, c.to); (got != "") != c.broken {
			t.Errorf("from %+v to %+v: %q", c.from, c.to, got)
		}
	}
}
