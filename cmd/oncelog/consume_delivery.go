package main

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/delivery"
)

// deliveryError is about a batch that cannot be delivered, or not whole.
type deliveryError struct {
	file string // of the batch
	err  *delivery.Error
}

func (e *deliveryError) Error() string {
	return fmt.Sprintf("%s is damaged in the batch at offset %d: %v", e.file, e.err.Batch, e.err.Err)
}

func (e *deliveryError) Unwrap() error { return e.err.Err }

// place tells of a batch that cannot be delivered in which file it is.
func (s *source) place(err error) error {
	bad, ok := errors.AsType[*delivery.Error](err)
	if !ok {
		return err
	}
	placed := &deliveryError{err: bad}
	for segment := range s.log.Segments() {
		if segment.Base <= bad.Batch {
			placed.file = segment.Path
		}
	}
	return placed
}
