package txn

import "fmt"

// State is where a transactional id stands; the numbers are those of the
// transaction log.
type State int8

// The states. PrepareCommit and PrepareAbort are decisions: what follows is
// carried out, whatever happens. Dead and PrepareEpochFence are never logged.
const (
	Empty             State = 0 // no transaction since the producer was initialised
	Ongoing           State = 1
	PrepareCommit     State = 2 // committed; markers are on their way
	PrepareAbort      State = 3 // aborted; likewise
	CompleteCommit    State = 4 // all markers are in their partitions
	CompleteAbort     State = 5
	Dead              State = 6 // expired; a tombstone is on its way
	PrepareEpochFence State = 7 // about to be aborted, since somebody newer came
)

var stateNames = [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// String is Kafka's name of the state.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int8(s))
	}
	return stateNames[s]
}

// ParseState finds a state by its name.
func ParseState(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// prepared tells whether a decision is being carried out.
func (s State) prepared() bool { return s == PrepareCommit || s == PrepareAbort }

// expirable tells whether an id in this state may be forgotten.
func (s State) expirable() bool { return s == Empty || s == CompleteCommit || s == CompleteAbort }

// logged tells whether the transaction log may hold it.
func (s State) logged() bool { return s >= Empty && s <= CompleteAbort }

// complete is the state that a decision ends in.
func (s State) complete() State {
	if s == PrepareCommit {
		return CompleteCommit
	}
	return CompleteAbort
}

// follows tells whether a transition from one logged state to another exists;
// tv2 is of the client, or the server, that makes it: with it an abort is taken
// where nothing was begun, so that the epoch rises.
func follows(from, to State, tv2 bool) bool {
	switch to {
	case Empty:
		return from.expirable()
	case Ongoing:
		return from == Ongoing || from.expirable()
	case PrepareCommit:
		return from == Ongoing
	case PrepareAbort:
		return from == Ongoing || tv2 && from.expirable()
	case CompleteCommit:
		return from == PrepareCommit
	case CompleteAbort:
		return from == PrepareAbort
	}
	return false
}
