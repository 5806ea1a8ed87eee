package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/vfs"
)

// ctx never ends: what waits in a history waits for itself.
var ctx = context.Background()

// Run runs the history of a seed. The error is a *Violation; a panic of the
// engine is one too. keep has it trace what happened.
func Run(seed uint64, keep bool) (Counts, error) {
	h := newHistory(seed, keep)
	defer stuckAfter(seed).Stop()
	err := h.run()
	h.count.Histories = 1
	h.count.Operations = int64(h.base + h.disk.fs.Count())
	return h.count, err
}

// stuckTime is how long a history may take, which takes milliseconds: then
// something in it waits for what never comes.
const stuckTime = 20 * time.Second

// stuckAfter ends the program, with the stacks of all goroutines, if it is not
// stopped in time.
func stuckAfter(seed uint64) *time.Timer {
	return time.AfterFunc(stuckTime, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("sim: seed %d is stuck", seed))
	})
}

// Replay runs a seed again, with its trace.
func Replay(seed uint64) *Violation {
	_, err := Run(seed, true)
	v, _ := errors.AsType[*Violation](err)
	return v
}

// undecided ends a history. What an unfinished creation left is taken for a
// topic if it cannot be read while the store opens.
type undecided struct{}

func (h *history) run() (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil, undecided:
		case *Violation:
			err = r
		default:
			err = &Violation{Seed: h.seed, What: fmt.Sprintf("panic: %v\n%s", r, debug.Stack()), Trace: h.trace}
		}
	}()
	lives := 2 + h.rng.IntN(5)
	for range lives - 1 {
		h.life(false)
	}
	for h.life(true); h.died; h.life(true) { // a journal that failed ended it
	}
	h.after(lossNone)
	h.verifyEnd()
	return nil
}

// life is one life of the process. The last one ends well.
func (h *history) life(last bool) {
	h.count.Lives++
	h.last = last
	end := h.rng.IntN(10)
	if last {
		end = 0
		h.mend()
	}
	// Crashes come while opening, or anywhere later.
	switch {
	case h.follows && !last:
		h.disk.crashAt, h.disk.syncs, end = h.disk.fs.Count(), 1+h.rng.IntN(12), 9
	case end >= 6:
		h.disk.crashSoon(80)
	case end >= 2:
		h.disk.crashSoon(600)
	case !last && h.chance(0.2):
		h.armFailure(60)
	}
	if h.begin() {
		h.disk.between = h.meanwhile
		for range 5 + h.rng.IntN(60) {
			if h.dead() {
				break
			}
			h.step()
		}
		if last && !h.dead() {
			h.quiet()
		}
		h.disk.between = nil
	} else if h.dead() {
		h.count.InRecovery++
	}
	if !h.dead() {
		h.disk.crashAt = never
		if end < 2 || last {
			h.end(last)
		}
	}
	if h.died = h.dead(); h.died || end >= 2 && !last {
		h.crash()
	}
}

// begin opens the store and checks all of it. It is false if the process died
// or the store did not open because an operation failed.
func (h *history) begin() bool {
	for failed := false; ; {
		h.tell("open, after %s", h.loss)
		var found *vfs.Mem
		if h.foreign != nil {
			found = h.disk.mem.KillClone()
		}
		sys, err := h.open(h.disk.fs, h.clock)
		if failed = h.disk.failed; failed {
			h.disk.disarm()
			h.count.Failures++
		}
		if h.dead() {
			return false
		}
		if err != nil && !failed {
			if h.foundOut(err, found) {
				continue
			}
			h.fail("the store does not open: %v", err)
		}
		if err == nil && !(failed && h.foreign != nil) { // else one log may refuse for another reason
			h.sys = sys
			h.overlooked()
			h.failures = h.count.Failures
			h.settleAll(failed)
			return !h.dead()
		}
		// The process ends, and is started again.
		h.tell("does not open: %v", err)
		h.swap(h.disk.after(lossKill))
		h.loss = max(h.loss, lossKill)
	}
}

// end closes the store.
func (h *history) end(last bool) {
	h.makeRoom()
	h.mend()
	h.tell("close")
	whole := !h.anyLatched()
	err := h.sys.close()
	failed := h.disk.disarm()
	if h.dead() {
		return
	}
	if err != nil {
		if !failed && whole {
			h.fail("the store does not close: %v", err)
		}
		h.tell("does not close: %v", err)
		if last {
			h.fail("the last life does not end well: %v", err)
		}
		h.after(lossKill)
		return
	}
	if !whole {
		h.after(lossKill)
		return
	}
	if h.count.Failures == h.failures { // else some is removed by the next opening
		h.garbage()
	}
	for _, p := range h.partitions() {
		p.powerSafe, p.killSafe = p.end(), p.end()
	}
	if last || h.chance(0.3) {
		h.inspect()
	}
	h.after(lossNone)
}

// crash ends the process where it stands.
func (h *history) crash() {
	// A run of the journal that is in the page cache only is what a second crash,
	// in recovery, can take away again.
	unsynced := strings.HasSuffix(h.disk.deadAt, journal.Name)
	first := !h.follows && unsynced && h.chance(0.5)
	second := h.follows
	h.follows = first
	if first || !second && h.chance(0.5) {
		h.count.Kills++
		h.after(lossKill)
		return
	}
	h.count.Losses++
	h.after(lossPower)
}

// after sets the next life up.
func (h *history) after(l loss) {
	from := l
	if l == lossNone && h.chance(0.5) {
		from = lossPower // what was closed cleanly has nothing to lose
	}
	h.tell("%s", l)
	h.swap(h.disk.after(from))
	if l != lossNone && h.chance(0.2) { // and then the power goes too
		h.swap(h.disk.after(lossPower))
		l = lossPower
	}
	h.loss = max(h.loss, l) // of an opening that did not get far, too
	if l != lossNone {
		h.meddle()
	}
	h.now += int64(1 + h.rng.IntN(5000))
}

func (l loss) String() string {
	return [...]string{"a clean end", "a kill", "a power loss"}[l]
}

// swap puts the next file system under the engine.
func (h *history) swap(mem *vfs.Mem) {
	h.base += h.disk.fs.Count()
	h.count.Freed += h.disk.headers / 2
	broken := h.disk.broken
	if h.chance(0.5) {
		broken = ""
	}
	h.disk = h.machine(mem)
	h.disk.broken = broken
	h.full = false
	mem.SetCapacity(0)
}

// verifyEnd opens the store of the last life once more.
func (h *history) verifyEnd() {
	h.mend()
	if !h.begin() {
		return
	}
	if err := h.sys.close(); err != nil {
		h.fail("the store does not close at the end: %v", err)
	}
}
