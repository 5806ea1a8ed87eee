package log

import "context"

// Await returns once what was appended below end is visible, and durable if level
// asks for more than the topic does. Unlike Wait it makes the flush for that
// itself when nobody else is at it. For whoever appended with NoWait, in several
// logs of one store perhaps: the first wait flushes for all.
//
// Errors: ErrOutcomeUnknown if ctx ended, ErrTruncated if a truncation took what
// was appended, ErrLatched, ErrClosed. It allocates nothing in steady state.
func (l *Log) Await(ctx context.Context, end int64, level Durability) error {
	if max(level, l.level()) == DurabilityFsync {
		p := l.upTo()
		if p.offset < end {
			return ErrTruncated
		}
		p.offset = end
		if err := l.waitDurable(ctx, p); err != nil {
			return err
		}
	}
	return l.Wait(ctx, FrontierHighWatermark, end)
}
