package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/oncelog/oncelog/batch"
)

// noFlush is what sinks share that keep nothing on a disk.
type noFlush struct{}

func (noFlush) flush(context.Context) error         { return nil }
func (noFlush) drain(context.Context) error         { return nil }
func (noFlush) reset(context.Context) (bool, error) { return false, nil }

// floor is the least that an append can cost: under an uncontended lock, a
// copy into memory that is mapped and touched, the checksum of what was
// copied, and one atomic store that publishes it.
type floor struct {
	noFlush
	name   string
	parsed bool // and the records are parsed, as validation must

	mu      sync.Mutex
	memory  *mapped
	rules   batch.Rules
	pos     int
	offset  int64
	publish atomic.Int64
}

// floorBytes is the size of its memory: that of the prototype's ring.
const floorBytes = ringBytes

func newFloor(file string, parsed bool) *floor { return &floor{name: file, parsed: parsed} }

func (f *floor) open(context.Context) (err error) {
	f.memory, err = mapFile(f.name, floorBytes)
	if err != nil {
		return err
	}
	clear(f.memory.bytes) // touches every page
	return nil
}

func (f *floor) append(_ context.Context, _ writer, b batch.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pos+len(b) > floorBytes {
		f.pos = 0
	}
	stored := batch.Batch(f.memory.bytes[f.pos : f.pos+len(b)])
	copy(stored, b)
	if batch.CRC(stored) != stored.CRC() {
		return fmt.Errorf("the batch at %d was not copied right", f.pos)
	}
	next := f.offset + 1
	if f.parsed {
		if _, err := f.rules.Validate(b); err != nil {
			return err
		}
		next = f.offset + int64(b.LastOffsetDelta()) + 1
	}
	stored.Stamp(f.offset, 0)
	f.offset, f.pos = next, f.pos+len(b)
	f.publish.Store(next)
	return nil
}

func (f *floor) close() error { return f.memory.close() }
