package txn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oncelog/oncelog/log"
)

// What a caller can do about each error; an unknown outcome comes before all else.
func TestClassOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Class
	}{
		{ErrConcurrent, ClassRetriable}, {ErrUnavailable, ClassRetriable}, {log.ErrNoSpace, ClassRetriable}, {log.ErrBusy, ClassRetriable},
		{context.Canceled, ClassRetriable}, {context.DeadlineExceeded, ClassRetriable},
		{ErrNotInTransaction, ClassAbortable}, {&PartitionsError{}, ClassAbortable}, {ErrTooManyPartitions, ClassAbortable},
		{ErrProducerFenced, ClassFatal}, {ErrInvalidState, ClassFatal}, {ErrInvalidIDMapping, ClassFatal}, {ErrInvalidTimeout, ClassFatal},
		{ErrInvalidRequest, ClassFatal}, {&UnknownPartitionsError{}, ClassFatal}, {ErrUnknownID, ClassFatal}, {ErrCorrupt, ClassFatal},
		{&RecordError{}, ClassFatal}, {ErrClosed, ClassFatal}, {log.ErrReadOnly, ClassFatal}, {errors.New("anything else"), ClassFatal},
		{ErrOutcomeUnknown, ClassUnknown}, {errors.Join(ErrUnavailable, log.ErrOutcomeUnknown), ClassUnknown},
		{errors.Join(ErrOutcomeUnknown, context.Canceled), ClassUnknown},
	} {
		for _, err := range []error{c.err, fmt.Errorf("of %q: %w", "x", c.err)} {
			if got := ClassOf(err); got != c.want {
				t.Errorf("%v is %s, want %s", err, got, c.want)
			}
		}
	}
}

// 7: while the transaction log does not serve, everybody is told to come again.
func TestUnavailable(t *testing.T) {
	b := newBed(t, Options{})
	p := b.init("x")
	b.serve(stateLog, log.ErrLatched)
	_, err := b.c.InitProducerID(ctx, "x", InitOptions{})
	_, err2 := b.end("x", p, false)
	_, err3 := b.c.Describe(ctx, "x")
	for _, err := range []error{err, err2, err3, b.c.AddPartitions(ctx, "x", p, nil), b.c.Verify(ctx, "x", p, nil)} {
		if b.want(err, ErrUnavailable, "meanwhile"); ClassOf(err) != ClassRetriable {
			t.Errorf("%v is %s", err, ClassOf(err))
		}
	}
	b.serve(stateLog, nil)
	b.mustEnd("x", p, false)
}
