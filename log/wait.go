package log

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/journal"
)

// waiter waits for a frontier to reach an offset. Its channel holds one
// token at most and is reused.
type waiter struct {
	frontier Frontier
	offset   int64
	leads    bool // makes the next flush itself when it is woken for that
	ready    chan struct{}
}

// newWaiter makes one for the log's own pool: a channel that another log's
// goroutines made would not do in a test of package synctest.
func newWaiter() any { return &waiter{ready: make(chan struct{}, 1)} }

// Wait returns once the frontier has reached offset, that is: it is at least
// offset. It fails when the context ends, the log is closed, or (for the
// frontiers that a flush moves) an I/O error latched it. It allocates nothing
// in steady state.
func (l *Log) Wait(ctx context.Context, f Frontier, offset int64) error {
	if l.Frontiers().Of(f) >= offset {
		return nil
	}
	w := l.register(f, offset, false)
	defer l.deregister(w)
	for {
		// Registered first, then looked again: whoever moves the frontier
		// later sees the waiter, whoever moved it before is seen here.
		if l.Frontiers().Of(f) >= offset {
			return nil
		}
		if err := l.hopeless(f); err != nil {
			return err
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hopeless tells why a frontier will not move any more.
func (l *Log) hopeless(f Frontier) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if f != FrontierLogStart {
		return l.latched()
	}
	return nil
}

// Subscribe puts a token into ready, which it never waits for, once the
// frontier has reached offset, and when the log is closed; perhaps at once,
// and perhaps without need. One channel, of capacity 1, may serve many logs:
// so a long poll over many partitions waits in one place. cancel ends it; called
// again it does nothing.
func (l *Log) Subscribe(f Frontier, offset int64, ready chan struct{}) (cancel func()) {
	w := &waiter{frontier: f, offset: offset, ready: ready}
	l.add(w)
	// Registered first, then looked again, as in Wait.
	if l.Frontiers().Of(f) >= offset || l.closed.Load() {
		w.notify()
	}
	return func() { l.remove(w) }
}

func (l *Log) register(f Frontier, offset int64, leads bool) *waiter {
	w := l.waiters.Get().(*waiter)
	w.frontier, w.offset, w.leads = f, offset, leads
	l.add(w)
	return w
}

func (l *Log) add(w *waiter) {
	l.waitMu.Lock()
	l.waiting = append(l.waiting, w)
	l.waitingCount.Add(1)
	l.waitMu.Unlock()
}

func (l *Log) remove(w *waiter) {
	l.waitMu.Lock()
	for i, other := range l.waiting {
		if other == w {
			last := len(l.waiting) - 1
			l.waiting[i], l.waiting[last] = l.waiting[last], nil
			l.waiting = l.waiting[:last]
			l.waitingCount.Add(-1)
			break
		}
	}
	l.waitMu.Unlock()
}

// deregister takes the waiter out. A token that it did not use may have been
// the call to lead the next flush, so it is passed on.
func (l *Log) deregister(w *waiter) {
	l.remove(w)
	select {
	case <-w.ready:
		l.lead()
	default:
	}
	l.waiters.Put(w)
}

// wake tells the waiters whose frontier is reached.
func (l *Log) wake() {
	if l.waitingCount.Load() == 0 {
		return
	}
	f := l.Frontiers()
	l.waitMu.Lock()
	for _, w := range l.waiting {
		if f.Of(w.frontier) >= w.offset {
			w.notify()
		}
	}
	l.waitMu.Unlock()
}

// wakeAll tells every waiter to look again: the log is closed or latched.
func (l *Log) wakeAll() {
	l.waitMu.Lock()
	for _, w := range l.waiting {
		w.notify()
	}
	l.waitMu.Unlock()
}

// lead wakes one waiter for durability, to make the next flush: one that does,
// as a call to one that only looks would be lost.
func (l *Log) lead() {
	if l.waitingCount.Load() == 0 {
		return
	}
	durable := l.durable.Load()
	l.waitMu.Lock()
	for _, w := range l.waiting {
		if w.leads && w.offset > durable {
			w.notify()
			break
		}
	}
	l.waitMu.Unlock()
}

func (w *waiter) notify() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// waitDurable waits until what was promised is on the device, making the flush
// itself when nobody else is at it. ErrTruncated if it was cut: the frontier may
// come by its offset again, with other batches below.
func (l *Log) waitDurable(ctx context.Context, p promise) error {
	var err error
	switch j := l.journal(); {
	case l.durable.Load() >= p.offset:
	case j != nil:
		err = l.waitJournal(ctx, j, p)
	default:
		err = l.waitFlush(ctx, p)
	}
	// Looked at last: nothing is appended at that offset before the era ended.
	if p.era.took(p.offset) {
		return ErrTruncated
	}
	return err
}

// awaited tells whether what was promised has to be waited for still.
func (l *Log) awaited(p promise) bool {
	return l.durable.Load() < p.offset && !p.era.took(p.offset)
}

// waitFlush is waitDurable for a log that flushes its files itself.
func (l *Log) waitFlush(ctx context.Context, p promise) error {
	w := l.register(FrontierDurable, p.offset, true)
	defer l.deregister(w)
	for l.awaited(p) {
		if err := l.hopeless(FrontierDurable); err != nil {
			if errors.Is(err, ErrClosed) { // abandoned with the append in it
				err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			}
			return err
		}
		if l.flushMu.TryLock() {
			err := l.flushLocked()
			l.unlockFlush()
			if err != nil && !errors.Is(err, ErrClosed) {
				return l.refused(err)
			}
			continue
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			// The flush under way may have begun before this batch, and
			// nobody may be left to make the next one.
			l.flushIfDue(DurabilityFsync, 0)
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
		}
	}
	return nil
}

// errStuck: what is published becomes durable once the device has room.
var errStuck = fmt.Errorf("%w: the journal is full, and what would empty it finds no room: %w", ErrOutcomeUnknown, ErrNoSpace)

// errFull: the journal is full, and what would empty it finds no room: nothing
// more is let in that could not become durable until the store has emptied it.
var errFull = fmt.Errorf("%w: the journal is full, and what would empty it finds no room", ErrNoSpace)

// waitJournal waits until the journal holds what was promised, flushing it when
// nobody else is at it. Registered first, then the frontier read again,
// then the flush tried: whoever flushes meanwhile either collects the append
// and wakes this waiter, or finds it waiting when done and hands over.
func (l *Log) waitJournal(ctx context.Context, j *journal.Journal, p promise) error {
	w := l.register(FrontierDurable, p.offset, false)
	defer l.deregister(w)
	j.Waiting(1)
	defer j.Waiting(-1)
	for l.awaited(p) {
		if err := l.hopeless(FrontierDurable); err != nil {
			if errors.Is(err, ErrClosed) {
				err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			}
			return l.refused(err)
		}
		if j.TryFlush() {
			continue
		}
		if l.o.Workers.manual {
			before := j.Stats().Runs
			if l.o.Backing.Help(); l.awaited(p) && j.Stats().Runs == before && l.latched() == nil {
				return errStuck
			}
			continue
		}
		select {
		case <-w.ready:
		case <-j.Stuck():
			if l.awaited(p) {
				return l.refused(errStuck)
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
		}
	}
	return nil
}
