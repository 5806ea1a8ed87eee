package journal

import (
	"fmt"
	"time"

	"github.com/oncelog/oncelog/internal/vfs"
)

// What Options mean when they say nothing, and their limits.
const (
	BytesDefault = 64 << 20
	BytesMin     = 64 << 10
	bytesMax     = 1 << 40
	DelayDefault = 5 * time.Millisecond
)

// dueBytes of published bytes make a flush due that nobody waits for.
const dueBytes = 1 << 20

// Options configures a Journal.
type Options struct {
	FS  vfs.FS
	Dir string
	// Store names the store in the header, so that a journal of another one is
	// known by Contents.Store.
	Store [16]byte
	// Bytes is the size of the whole file, rounded down to whole blocks in two
	// equal halves; 0: BytesDefault, at least BytesMin. A file of another size
	// is replaced by Start. BatchMax says what a size can take.
	Bytes int64
	// Delay bounds how long something published waits for a flush that nobody
	// asks for; 0: DelayDefault. With 1 MiB published a flush is due at once.
	Delay time.Duration
	// Manual starts no goroutine: flushes are made by TryFlush, Flush and Run
	// only.
	Manual bool
	// Full is called when a half was closed, so that Due has something, and
	// when a flush then meets no room. It is called without a lock held, from
	// a goroutine that flushed, and must not block. nil: nobody is told.
	Full func()
}

func (o Options) withDefaults() Options {
	if o.Bytes == 0 {
		o.Bytes = BytesDefault
	}
	if o.Delay == 0 {
		o.Delay = DelayDefault
	}
	return o
}

func (o *Options) validate() error {
	if o.Bytes < BytesMin || o.Bytes > bytesMax {
		return fmt.Errorf("%w: %d bytes asked for, from %d to %d work", ErrSize, o.Bytes, BytesMin, int64(bytesMax))
	}
	return nil
}

// halfBytes is the size of a half.
func (o *Options) halfBytes() int64 { return halfBytes(o.Bytes) }

func halfBytes(size int64) int64 { return (size - halvesPos) / 2 / blockBytes * blockBytes }

// BatchMax is the largest length that Publish takes in a journal of this many
// bytes (0: BytesDefault); what is longer goes through PublishLarge. Four of
// them fit into a half.
func BatchMax(size int64) int64 {
	if size == 0 {
		size = BytesDefault
	}
	return min(runMax(halfBytes(size))-runFixedBytes-frameHeaderBytes, entryBytesMax)
}
