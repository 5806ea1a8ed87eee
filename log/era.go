package log

import "sync/atomic"

// era is the time between two truncations. Whoever was in the log before one
// remembers the era and finds out, along the chain, what was cut since; nobody
// else keeps it.
type era struct {
	cut  int64 // the offset of the truncation that ended it; set before next
	next atomic.Pointer[era]
}

// ended tells whether a truncation has begun since.
func (e *era) ended() bool { return e.next.Load() != nil }

// took tells whether a truncation since took what lies just below offset.
func (e *era) took(offset int64) bool {
	for next := e.next.Load(); next != nil; e, next = next, next.next.Load() {
		if e.cut < offset {
			return true
		}
	}
	return false
}

// era is the present one.
func (l *Log) era() *era {
	if e := l.lastEra.Load(); e != nil {
		return e
	}
	return &l.firstEra
}

// endEraLocked begins another era, since the log is about to be cut at offset:
// with appendMu held and before anything is appended there again. The caller
// wakes everybody.
func (l *Log) endEraLocked(offset int64) {
	e, next := l.era(), new(era)
	e.cut = offset
	l.lastEra.Store(next)
	e.next.Store(next)
}

// promise is what an append waits for: that all below offset is safe, as it was
// in an era.
type promise struct {
	offset int64
	era    *era
}

// upTo promises what lies below the log end now.
func (l *Log) upTo() promise {
	e := l.era() // first: what is cut in between is not in the log end
	return promise{l.logEnd.Load(), e}
}
