package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/topic"
)

// Severity says what a finding of Verify means. Greater is worse.
type Severity uint8

const (
	// SeverityNote: worth knowing and in order, such as a torn tail that
	// recovery will cut, or a file that is none of the log's.
	SeverityNote Severity = iota
	// SeverityWarning: nothing is damaged, but somebody may come to harm: a
	// batch that a leader should have refused, whole batches behind a torn
	// place that recovery would cut.
	SeverityWarning
	// SeverityDamage: files contradict themselves or each other.
	SeverityDamage
)

// String is the name used in reports.
func (s Severity) String() string {
	switch s {
	case SeverityDamage:
		return "damage"
	case SeverityWarning:
		return "warning"
	default:
		return "note"
	}
}

// What a finding is about.
const (
	FindingBatch       = "batch"        // framing, checksum or header of a batch
	FindingOffsets     = "offsets"      // batches or segments do not follow each other
	FindingEpochs      = "epochs"       // leader epochs, their file included
	FindingRecords     = "records"      // what is inside a batch
	FindingTransaction = "transaction"  // markers, and batches that break a transaction
	FindingProducer    = "producer"     // sequences and epochs of producers
	FindingOffsetIndex = "offset index" // .index
	FindingTimeIndex   = "time index"   // .timeindex
	FindingTxnIndex    = "txn index"    // .txnindex
	FindingSnapshot    = "snapshot"     // producer snapshots
	FindingMemory      = "memory"       // what journal or tail hold of the log
	FindingTail        = "tail"         // bytes behind the last whole batch
	FindingPoints      = "points"       // log start, recovery point, high watermark, log end
	FindingFile        = "file"         // other files of the directory
)

// Finding is one thing that Verify has to tell.
type Finding struct {
	Severity Severity
	Kind     string // one of the Finding constants
	File     string
	Pos      int64 // byte position in File, -1: none
	Offset   int64 // log offset, -1: none
	Text     string
}

// VerifyOptions of Verify.
type VerifyOptions struct {
	// Compacted says that the partition is or was compacted: its offsets may
	// have gaps, and its indexes and snapshots may know of batches that are
	// gone. Verify finds out by itself where the batches tell.
	Compacted bool
	// FindingsMax bounds the findings that are kept; all are counted. 0: 1000.
	FindingsMax int
	// Progress is told how many more bytes of log were read; nil: nobody.
	Progress func(bytes int64)
}

// DefaultFindingsMax is how many findings a report keeps unless told.
const DefaultFindingsMax = 1000

// VerifyReport is what Verify saw.
type VerifyReport struct {
	Partition topic.Partition
	Segments  int
	Batches   int64
	Records   int64 // control records left out
	Bytes     int64 // of whole batches
	LogStart  int64
	LogEnd    int64
	Open      int // transactions without a marker
	Aborted   int // transactions with an ABORT marker
	Producers int // known at the log end
	Compacted bool

	Findings []Finding
	Damage   int // findings of each severity, those that were not kept included
	Warnings int
	Notes    int
}

// Err is nil if nothing is damaged, else a *CorruptionError with the first
// damage found.
func (r *VerifyReport) Err() error {
	if r.Damage == 0 {
		return nil
	}
	for _, f := range r.Findings {
		if f.Severity == SeverityDamage {
			return &CorruptionError{File: f.File, Pos: f.Pos, Offset: f.Offset, ReadableFrom: -1, Err: errors.New(f.Text)}
		}
	}
	return fmt.Errorf("%w: %d findings", ErrCorrupt, r.Damage)
}

// Verify reads everything in the directory of a partition and compares it:
// each batch with its checksum, its records and its neighbours; leader epochs
// with their file; the three indexes, the producer snapshots and the aborted
// transactions with a replay of the log; the recorded points with the log end.
// It shares no shortcut with Load, writes nothing, takes no lock, and works on
// directories that are in use or were left by a crash. Nothing expires.
//
// Of o it uses FS, Dir, Partition, Config.Compact, OwnOnly, Clean, Points, and what
// journal and tail hold: Pieces, Journaled, JournalEnd. Below
// the recovery point, and everywhere if o.Clean, what does not hold is damage;
// above it, it is what a crash leaves, and told as a note or, where whole
// batches follow, as a warning.
//
// An error means that it could not look: the file system's, ErrLegacyMagic of
// package batch for a log of a format before record batches, or that of ctx.
// The report is of what was seen until then.
func Verify(ctx context.Context, o Options, vo VerifyOptions) (VerifyReport, error) {
	o = o.withDefaults()
	v := newVerifier(ctx, o, vo)
	if err := v.layPieces(); err != nil {
		return v.report, fmt.Errorf("verify %s: %w", o.Partition, err)
	}
	listing, err := v.list()
	if err != nil {
		return v.report, fmt.Errorf("verify %s: %w", o.Partition, err)
	}
	v.segments, v.snapshotPath = listing.Segments, listing.SnapshotPath
	v.replay.pending = listing.Snapshots
	if err := v.readFiles(); err != nil {
		return v.report, fmt.Errorf("verify %s: %w", o.Partition, err)
	}
	if err := v.run(); err != nil {
		return v.report, fmt.Errorf("verify %s: %w", o.Partition, err)
	}
	v.checkJournaled()
	return v.report, nil
}

// list lists the directory; if files vanish meanwhile, again.
func (v *verifier) list() (*segment.Listing, error) {
	const tries = 20
	for try := 1; ; try++ {
		l, err := segment.List(v.o.FS, v.o.Dir)
		if v.o.Clean || try == tries || !errors.Is(err, fs.ErrNotExist) {
			return l, err
		}
		if _, e := v.o.FS.Stat(v.o.Dir); e != nil {
			return l, err
		}
	}
}

// Check verifies an open log as Verify does, up to its log end, and compares
// the state in memory with a replay. Appends may go on, but for the moment that
// it takes to bring memory into the files; what maintains the log waits. It returns nil or the first damage as a *CorruptionError.
func (l *Log) Check(ctx context.Context) error {
	thaw := func() {}
	if l.o.Backing != nil { // bring what is in memory into the files
		l.Freeze()
		thaw = sync.OnceFunc(l.Thaw)
		defer thaw()
		if err := errors.Join(l.Sync(ctx), l.writeBack(true)); err != nil {
			return err
		}
	}
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	if l.closed.Load() {
		return ErrClosed
	}
	o := l.o
	o.Clean, o.Points = false, l.points()
	v := newVerifier(ctx, o, VerifyOptions{Compacted: l.config.Load().Compact})

	l.appendMu.Lock()
	for i, s := range l.view.Load().segments {
		f := segment.SegmentFiles{Base: s.Base, Size: s.Size()}
		for k := segment.KindLog; k < segment.KindSnapshot; k++ {
			f.Paths[k] = s.Path(k)
		}
		if i < len(l.view.Load().segments)-1 && s.Unsealed() {
			v.point = min(v.point, s.Base) // its indexes are not written yet
		}
		v.segments = append(v.segments, f)
	}
	v.memory, v.memoryEnd = l.table.AppendSnapshot(nil), l.logEnd.Load()
	v.epochs.entries = l.Epochs()
	l.appendMu.Unlock()
	thaw()

	for i := range v.segments {
		f := &v.segments[i]
		for k := segment.KindOffsetIndex; k < segment.KindSnapshot; k++ {
			if _, err := o.FS.Stat(f.Paths[k]); errors.Is(err, fs.ErrNotExist) {
				f.Paths[k] = ""
			}
		}
	}
	v.replay.pending = l.snapshots
	v.snapshotPath = segment.SnapshotsOnly(o.Dir, l.snapshots).SnapshotPath
	if err := v.run(); err != nil {
		return fmt.Errorf("check %s: %w", o.Partition, err)
	}
	return v.report.Err()
}

// verifier is one run of Verify. Not safe for concurrent use.
type verifier struct {
	ctx    context.Context
	o      Options
	vo     VerifyOptions
	report VerifyReport

	// What is verified.
	segments     []segment.SegmentFiles
	snapshotPath func(offset int64) string
	point        int64  // below, everything must hold
	memory       []byte // of an open log: its producer state at memoryEnd
	memoryEnd    int64  // -1: not an open log

	follow  follow
	epochs  epochCheck
	records recordCheck
	replay  replay

	compacted bool      // proven, or told
	excused   []Finding // damage unless the partition turns out to be compacted
	least     Severity  // once all findings that are kept are worse than or as bad as this
}

func newVerifier(ctx context.Context, o Options, vo VerifyOptions) *verifier {
	vo.FindingsMax = orDefaultInt(vo.FindingsMax, DefaultFindingsMax)
	v := &verifier{ctx: ctx, o: o, vo: vo, memoryEnd: -1}
	v.epochs.last = batch.None
	v.report.Partition = o.Partition
	v.compacted = vo.Compacted || o.Config.Compact || o.Partition.Internal()
	v.point = o.Points.RecoveryPoint
	if o.Clean {
		v.point = math.MaxInt64
	}
	return v
}

func orDefaultInt(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}

// run walks the segments and draws the conclusions.
func (v *verifier) run() error {
	v.start()
	for i := range v.segments {
		stop, err := v.segment(i)
		if err != nil {
			return err
		}
		if stop {
			break
		}
	}
	if err := v.replay.end(v); err != nil {
		return err
	}
	v.conclude()
	return nil
}

// must is the severity of something at offset that does not hold: damage
// below the recovery point, otherwise what the caller says.
func (v *verifier) must(offset int64, otherwise Severity) Severity {
	if offset < v.point {
		return SeverityDamage
	}
	return otherwise
}

// find adds a finding.
func (v *verifier) find(f Finding) {
	switch f.Severity {
	case SeverityDamage:
		v.report.Damage++
	case SeverityWarning:
		v.report.Warnings++
	default:
		v.report.Notes++
	}
	kept := v.report.Findings
	if len(kept) < v.vo.FindingsMax {
		v.report.Findings = append(kept, f)
		return
	}
	// A lesser one makes room: a flood of notes must not hide damage.
	if f.Severity <= v.least {
		return
	}
	least := slices.IndexFunc(kept, func(k Finding) bool { return k.Severity < f.Severity })
	if least < 0 {
		v.least = f.Severity
		return
	}
	v.report.Findings = append(slices.Delete(kept, least, least+1), f)
}

// findUnlessCompacted adds a finding that compaction excuses.
func (v *verifier) findUnlessCompacted(f Finding) {
	if v.o.OwnOnly {
		v.find(f)
		return
	}
	if !v.compacted && len(v.excused) < v.vo.FindingsMax {
		v.excused = append(v.excused, f)
	}
}
