package sim

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// errCrashed is what every operation gives once the process is dead.
var errCrashed = errors.New("sim: crashed")

// never is an operation that is not reached.
const never = int(^uint(0) >> 1)

// disk is the machine that the engine runs on: it dies, or fails, at a given
// operation, and lets others in at syncs.
type disk struct {
	mem *vfs.Mem
	fs  *faultfs.FS
	rng *rand.Rand

	crashAt int  // operation at which everything dies
	syncs   int  // if not 0: at that sync from then on, when most is at stake
	tear    bool // if that is a write, sectors of it are written
	dead    bool
	// deadAt is the file whose sync did not happen any more, "" if it was
	// another operation.
	deadAt string

	// One failure to come: the first operation of a kind from failAt on.
	failAt     int
	failEffect faultfs.Effect
	failKinds  []faultfs.Kind
	failErr    error
	failed     bool // it came
	came       bool // that, or death, ever
	cameAt     int  // at this operation
	// slotsFailed says that it hit the mapped tail: then no truncation of what
	// was in it succeeds before the store is opened again.
	slotsFailed bool

	// broken is the directory whose segments cannot be written, "" if none.
	broken string

	headers int64 // writes of the header of the journal

	// between is called at every sync, before it is made.
	between func()
	inside  bool
}

func newDisk(mem *vfs.Mem, rng *rand.Rand, now func() int64) *disk {
	d := &disk{mem: mem, rng: rng, crashAt: never, failAt: never}
	mem.SetClock(func() time.Time { return time.UnixMilli(now()) })
	plan := faultfs.Plan{Hook: d.hook}
	plan.Faults = append(plan.Faults, faultfs.Fault{
		Kinds: []faultfs.Kind{faultfs.Write}, Effect: faultfs.Torn, Forever: true, Err: errCrashed, Rand: rng,
		Match: func(op faultfs.Op) bool { return d.tear && !d.dead && op.N == d.crashAt },
	})
	for _, effect := range []faultfs.Effect{faultfs.Fail, faultfs.Short, faultfs.Torn, faultfs.Lose} {
		plan.Faults = append(plan.Faults, d.fault(effect, syscall.EIO), d.fault(effect, syscall.ENOSPC))
	}
	d.fs = faultfs.New(mem, plan)
	return d
}

// fault is the failure to come, if it is of this effect and error.
func (d *disk) fault(effect faultfs.Effect, err error) faultfs.Fault {
	return faultfs.Fault{Effect: effect, Err: err, Forever: true, Rand: d.rng, Match: func(op faultfs.Op) bool {
		if d.dead || d.failed || op.N < d.failAt || d.failEffect != effect || d.failErr != err {
			return false
		}
		for _, k := range d.failKinds {
			if k == op.Kind {
				return d.hit(op)
			}
		}
		return len(d.failKinds) == 0 && d.hit(op)
	}}
}

func (d *disk) hit(op faultfs.Op) bool {
	d.failed, d.came, d.cameAt = true, true, op.N
	d.slotsFailed = d.slotsFailed || strings.Contains(op.Name, "oncelog.tail")
	return true
}

// hook is called before every operation.
func (d *disk) hook(op faultfs.Op) error {
	if d.dead {
		return errCrashed
	}
	if d.dies(op) {
		d.dead, d.came, d.cameAt = true, true, op.N
		if op.Kind == faultfs.Sync {
			d.deadAt = op.Name
		}
		if d.tear && op.Kind == faultfs.Write && op.N == d.crashAt {
			return nil // the fault does as much of it as it likes
		}
		return errCrashed
	}
	if err := d.refusesWrites(op); err != nil {
		return err
	}
	d.countJournal(op)
	if d.between != nil && !d.inside && (op.Kind == faultfs.Sync || op.Kind == faultfs.SyncDir) {
		d.inside = true
		d.between()
		d.inside = false
		if d.dead { // in between: this operation does not happen either
			return errCrashed
		}
	}
	return nil
}

// dies tells whether the operation that is about to be made is the last.
func (d *disk) dies(op faultfs.Op) bool {
	if op.N < d.crashAt || d.syncs > 0 && op.Kind != faultfs.Sync {
		return false
	}
	d.syncs--
	return d.syncs <= 0
}

// countJournal counts how often the header of the journal is written, which is
// how a half of it becomes free.
func (d *disk) countJournal(op faultfs.Op) {
	if op.Kind == faultfs.Write && op.Pos < 2*4096 && strings.HasSuffix(op.Name, journal.Name) {
		d.headers++
	}
}

// crashIn lets everything die n operations from now.
func (d *disk) crashIn(n int, tear bool) { d.crashAt, d.tear, d.syncs = d.fs.Count()+n, tear, 0 }

// crashSoon is crashIn as a history draws it: sometimes at a sync.
func (d *disk) crashSoon(n int) {
	d.crashIn(d.rng.IntN(n), d.rng.IntN(2) == 0)
	if d.rng.IntN(3) == 0 {
		d.crashAt, d.syncs, d.tear = d.fs.Count(), 1+d.rng.IntN(max(n/8, 1)), false
	}
}

// failIn arms one failure n operations from now.
func (d *disk) failIn(n int, effect faultfs.Effect, err error, kinds ...faultfs.Kind) {
	d.failAt, d.failEffect, d.failErr, d.failKinds, d.failed = d.fs.Count()+n, effect, err, kinds, false
}

// disarm takes the failure back; it tells whether it came.
func (d *disk) disarm() bool {
	came := d.failed
	d.failAt, d.failed = never, false
	return came
}

// after is the file system that the next life finds.
func (d *disk) after(l loss) *vfs.Mem {
	if l != lossPower {
		return d.mem.KillClone()
	}
	keep := [...]float64{vfs.KeepNone, vfs.KeepAll, 0.5, 0.2, 0.8}[d.rng.IntN(5)]
	return d.mem.CrashClone(vfs.CrashOptions{Rand: d.rng, KeepUnsynced: keep, Tear: d.rng.IntN(2) == 0})
}
