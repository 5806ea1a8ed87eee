package faultfs

import (
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"
)

// Kind says what an operation does.
type Kind uint8

const (
	Open     Kind = iota // Open, OpenFile
	Read                 // ReadAt
	Write                // WriteAt, WriteVAt
	Sync                 // Sync and Datasync of a file, Sync of a mapping
	Truncate             // Truncate
	Allocate             // Allocate
	Map                  // Map
	Populate             // Populate of a mapping
	Stat                 // Stat, Size
	Close                // Close of a file or a mapping, which closes in any case
	Remove               // Remove
	Rename               // Rename
	Mkdir                // Mkdir
	ReadDir              // ReadDir
	SyncDir              // SyncDir
	Lock                 // Lock
	kinds
)

var kindNames = [kinds]string{
	"open", "read", "write", "sync", "truncate", "allocate", "map", "populate",
	"stat", "close", "remove", "rename", "mkdir", "readdir", "syncdir", "lock",
}

// String is the kind in small letters.
func (k Kind) String() string {
	if k >= kinds {
		return "unknown"
	}
	return kindNames[k]
}

// Op is one operation, before it is done.
type Op struct {
	Kind Kind
	Name string // the file, or the old name of a rename
	To   string // of a rename: the new name
	Pos  int64  // of a read, a write or the sync of a mapping: byte position
	Size int64  // of the same: bytes; of Truncate, Allocate and Map: the size asked for
	Flag int    // of Open: the flags of package os
	N    int    // how many operations of all kinds were before it
}

// Effect says how a fault fails.
type Effect uint8

const (
	// Fail does nothing but give the error.
	Fail Effect = iota
	// Short writes the first half and tells so with the error. Operations
	// that are no writes just fail.
	Short
	// Torn writes some sectors of 512 bytes, in no order, and gives the error
	// with a count of 0. Operations that are no writes just fail.
	Torn
	// Lose stores a random part of what a sync or a directory sync should have
	// made durable and forgets that the rest is not: vfs.Loser. On another
	// file system than vfs.Mem, and of other operations, it just fails.
	Lose
)

// Fault is one failure to come.
type Fault struct {
	Kinds []Kind // what it may hit; none: everything
	// Match restricts it further; nil does not. It is called with a lock held.
	Match func(Op) bool
	// N is how many operations that it may hit pass before it hits one.
	N       int
	Forever bool // from then on it hits all of them, not one
	Effect  Effect
	Err     error // nil: EIO
	// Rand draws what Torn and Lose let through, with a lock of the file
	// system held; nil: every other sector, and nothing of a sync.
	Rand *rand.Rand
}

// Plan says which operations fail. The zero value lets all pass.
type Plan struct {
	Faults []Fault
	// Hook, if not nil, is called before every operation, without a lock held,
	// from the goroutine that does the operation. An error of it is the
	// operation's. It may clone the file system under test, and may panic.
	Hook func(Op) error
}

// FailNth fails one operation of the kinds (none: of any), after n of them
// passed. A nil err is EIO.
func FailNth(n int, err error, kinds ...Kind) Plan {
	return Plan{Faults: []Fault{{Kinds: kinds, N: n, Err: err}}}
}

// FailFrom fails all operations of the kinds (none: of any) but the first n.
func FailFrom(n int, err error, kinds ...Kind) Plan {
	return Plan{Faults: []Fault{{Kinds: kinds, N: n, Err: err, Forever: true}}}
}

// ShortWriteNth writes half of one write, after n passed, and then tells that
// the disk is full.
func ShortWriteNth(n int) Plan {
	return Plan{Faults: []Fault{{Kinds: []Kind{Write}, N: n, Effect: Short, Err: syscall.ENOSPC}}}
}

// TornWriteNth writes pieces of one write, after n passed.
func TornWriteNth(n int, r *rand.Rand) Plan {
	return Plan{Faults: []Fault{{Kinds: []Kind{Write}, N: n, Effect: Torn, Rand: r}}}
}

// LoseSyncNth fails one sync of a file, mapping or directory, after n passed,
// and loses part of what it covered.
func LoseSyncNth(n int, r *rand.Rand) Plan {
	return Plan{Faults: []Fault{{Kinds: []Kind{Sync, SyncDir}, N: n, Effect: Lose, Rand: r}}}
}

// And gives a plan with the faults and hooks of both.
func (p Plan) And(q Plan) Plan {
	both := Plan{Faults: slices.Concat(p.Faults, q.Faults), Hook: p.Hook}
	switch {
	case p.Hook == nil:
		both.Hook = q.Hook
	case q.Hook != nil:
		both.Hook = func(op Op) error {
			if err := p.Hook(op); err != nil {
				return err
			}
			return q.Hook(op)
		}
	}
	return both
}

// hits says whether op is one that the fault counts.
func (f *Fault) hits(op Op) bool {
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, op.Kind)) && (f.Match == nil || f.Match(op))
}

// error gives the error of the fault as package os would.
func (op Op) error(err error) error {
	if err == nil {
		err = syscall.EIO
	}
	return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: err}
}
