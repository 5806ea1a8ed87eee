package oncelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/log"
	"github.com/oncelog/oncelog/txn"
)

// Store is one open data directory. Open makes it.
type Store struct {
	// Set by Open.
	catalog *catalog.Catalog
	files   *segment.Files
	now     func() time.Time

	participants *participants
	transactions *txn.Coordinator
	groups       *Groups

	background context.Context // of work; ends with Close
	stop       context.CancelFunc
	work       sync.WaitGroup

	fetches, waits atomic.Int64
}

// Open opens a data directory: one that Kafka wrote, one of ours, or an empty
// one. If the last element of the path is missing, it is made. A directory
// that was not stopped cleanly is recovered; events tell what was done.
//
// Errors: ErrLocked (another process has it open; the text names it),
// ErrInvalidOptions, ErrManifest, ErrNewerFormat, those of the file system.
// Until recovery begins, a failed Open leaves the directory byte for byte as
// it was. A partition that is damaged does not fail Open: Partition answers
// its error.
func Open(dir string, o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	o = o.withDefaults()
	files := segment.NewFiles(o.OpenSegmentsMax)
	c, err := catalog.Open(o.catalog(dir, files))
	if err != nil {
		return nil, err
	}
	s := &Store{catalog: c, files: files, now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if err := s.openTransactions(o); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", dir, err), c.Close(context.Background()))
	}
	if !o.ReadOnly {
		s.background, s.stop = context.WithCancel(context.Background())
		s.work.Go(s.expireOffsets) // ends with background
	}
	return s, nil
}

// offsetsInterval is how often offsets are looked through for those that expired.
const offsetsInterval = 10 * time.Minute

// expireOffsets forgets offsets of groups that nobody uses, until Close.
func (s *Store) expireOffsets() {
	tick := time.NewTicker(offsetsInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.background.Done():
			return
		case <-tick.C:
			// What fails now is tried again with the next tick.
			_, _ = s.groups.Expire(s.background)
		}
	}
}

// Close closes every partition and leaves a directory that opens without
// recovery, here and in Kafka. Appends and fetches under way end with
// ErrClosed or are done. When ctx ends first, what is not closed yet is left
// as after a crash: nothing acknowledged is lost. Close then returns within a
// fraction of a second, with the error of ctx, even if a call of the file
// system hangs; the directory stays locked until that call ends. A second Close
// waits for the first, as long as its own ctx lets it, and does nothing.
//
// Afterwards everything answers ErrClosed, but Topics and Metrics, which tell
// what was there last, and a Fetch of no requests, which answers nothing.
func (s *Store) Close(ctx context.Context) error {
	if s.stop != nil {
		s.stop()
		s.work.Wait()
	}
	s.transactions.Close()
	return s.catalog.Close(ctx)
}

// Partition is the log of a partition: offsets, lookup by time, epochs,
// deletion of records, producers, transactions. It answers ErrClosed after
// DeleteTopic, Reopen and Close.
//
// Errors: ErrUnknownPartition; what the partition refuses with (a
// *CorruptionError, batch.ErrLegacyMagic, ErrPartitionMissing); ErrClosed.
func (s *Store) Partition(tp TopicPartition) (*log.Log, error) { return s.catalog.Partition(tp) }

// Sync returns once everything appended before the call is on the device, in
// all partitions that serve; those that refuse, and topics that are deleted
// meanwhile, are skipped. Errors: ErrLatched, ErrReadOnly, ErrClosed, that of
// ctx.
func (s *Store) Sync(ctx context.Context) error { return s.catalog.Sync(ctx) }

// Reopen opens a partition again that an I/O error latched, or that refused
// when the store was opened and has been repaired since. It is read again from
// its recovery point on. A partition that serves is left alone.
func (s *Store) Reopen(ctx context.Context, tp TopicPartition) error {
	return s.catalog.Reopen(ctx, tp)
}
