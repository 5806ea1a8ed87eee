package txn

import (
	"context"
	"fmt"
	"sync"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// ids hands producer ids out, from blocks that were reserved.
type ids struct {
	reserve func(ctx context.Context, n int) (int64, error)

	mu        sync.Mutex // held while a block is reserved: who comes meanwhile needs it too
	next, end int64
}

// idBlock is how many ids are reserved at once.
const idBlock = 1000

func (i *ids) take(ctx context.Context) (int64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.next == i.end {
		first, err := i.reserve(ctx, idBlock)
		if err != nil {
			return 0, fmt.Errorf("%w: reserve producer ids: %w", ErrUnavailable, err)
		}
		i.next, i.end = first, first+idBlock
	}
	i.next++
	return i.next - 1, nil
}

// NewProducerID gives an idempotent producer without transactions an identity
// that nobody had.
func (c *Coordinator) NewProducerID(ctx context.Context) (batch.Producer, error) {
	switch {
	case c.closed.Load():
		return none, ErrClosed
	case c.o.ReadOnly:
		return none, log.ErrReadOnly
	}
	id, err := c.ids.take(ctx)
	if err != nil {
		return none, err
	}
	return batch.Producer{ID: id}, nil
}
