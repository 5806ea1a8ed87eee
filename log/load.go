package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// smallFileMax bounds checkpoints and other small files that are read whole;
// snapshotMax producer snapshots (some 20 million producers).
const (
	smallFileMax = 64 << 20
	snapshotMax  = 1 << 30
)

// loadPlan is what Load found out and Recover carries out.
type loadPlan struct {
	listing *segment.Listing
	kept    []segment.SegmentFiles // segments of the recovered log
	first   int                    // index in kept of the first that was walked
	walked  []walkedSegment        // those, in order; the last is the active one
	cuts    []cut
	// epochsLost says that the file of leader epochs is missing or damaged.
	epochsLost  bool
	epochsEmpty bool    // there is one, without entries
	emptied     bool    // the log ends before its start: everything in it was deleted
	bad         []int64 // snapshots to remove
	events      []Event
}

// walkedSegment is a segment whose batches were looked at.
type walkedSegment struct {
	files    segment.SegmentFiles
	size     int64 // of whole batches
	next     int64 // offset behind them
	from     int64 // offset at which the walk began
	txnFrom  int64 // from here on its transaction index has to be made
	indexer  *segment.Indexer
	txns     *index.Txn
	segment  *segment.Segment
	checkPos int64 // where the walk began
}

// cut is a piece of log that is taken away.
type cut struct {
	files      segment.SegmentFiles
	pos        int64 // from this byte on; 0: the whole segment goes
	offset     int64
	zeros      bool // unwritten space: nothing is lost, nothing is kept
	whole      bool
	cause      error
	validAfter bool
}

// Load opens a log for reading and decides what recovery has to do. It changes
// nothing on disk. With Options.ReadOnly the log can be read right away, with
// everything that recovery would do done in memory; else Recover comes next.
//
// Errors: *CorruptionError for damage below the recovery point, batch's
// ErrLegacyMagic for logs of a format before record batches, those of the
// file system.
func Load(o Options) (*Log, error) {
	l := &Log{o: o.withDefaults(), undecided: undecidedNone}
	l.config.Store(&l.o.Config)
	l.waiters.New = newWaiter
	l.indexed = map[int64]int64{}
	l.maintainMu.unlocked = l.deliver
	l.idle.L = &l.appendMu
	l.env = &segment.Environment{FS: l.o.FS, Dir: l.o.Dir, Files: l.o.Files, IndexIntervalBytes: l.o.Config.IndexIntervalBytes,
		Txns: l.rebuildTxns, Rebuilt: l.indexRebuilt, Tailed: l.o.Backing != nil, Topic: l.o.TopicID, Partition: l.o.Partition.Index}
	if err := l.layPieces(); err != nil {
		return nil, fmt.Errorf("load %s: %w", l.o.Partition, err)
	}
	listing, err := segment.List(l.o.FS, l.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", l.o.Partition, err)
	}
	p := &loadPlan{listing: listing}
	l.plan = p
	if err := l.load(p); err != nil {
		return nil, fmt.Errorf("load %s: %w", l.o.Partition, joinClose(err, l.view.Load()))
	}
	if l.o.ReadOnly {
		l.tell(p)
		l.plan = nil
	}
	return l, nil
}

func (l *Log) tell(p *loadPlan) {
	for _, e := range p.events {
		l.event(e)
	}
}

func (l *Log) indexRebuilt(file string, cause error) {
	l.metrics.indexFallbacks.Add(1)
	l.event(Event{Kind: EventIndexRebuilt, File: file, Err: cause})
}

func (l *Log) load(p *loadPlan) error {
	if err := l.loadEpochs(p); err != nil {
		return err
	}
	end, err := l.loadExtents(p)
	if err != nil {
		return err
	}
	start := l.o.Points.LogStart
	if len(p.kept) > 0 {
		start = max(start, p.kept[0].Base)
	}
	if err := l.checkEnd(p, start, max(start, end)); err != nil {
		return err
	}
	if err := l.checkJournaled(p, max(start, end)); err != nil {
		return err
	}
	if end < start { // what is left of the log was deleted: it goes on at its start
		p.emptied, p.kept, p.walked = true, nil, nil
		end = start
	}
	if err := l.openSegments(p); err != nil {
		return err
	}
	l.logStart.Store(start)
	lost, err := l.emptyEpochs(p)
	if err != nil {
		return err
	}
	if p.epochsLost || lost {
		if err := l.scanEpochs(); err != nil {
			return err
		}
	}
	if err := l.loadProducers(p, end); err != nil {
		return err
	}
	// An epoch that began at the end stays: it was promised, though no batch
	// has it yet.
	l.epochs.truncateEnd(end + 1)
	l.epochs.truncateStart(start)
	l.startFrontiers(end)
	return nil
}

// startFrontiers sets the frontiers of a loaded log: all of it is visible,
// unless a high watermark from outside says otherwise.
func (l *Log) startFrontiers(end int64) {
	undecided, open := l.table.FirstUndecided()
	if !open {
		undecided = undecidedNone
	}
	l.frontierMu.Lock()
	defer l.frontierMu.Unlock()
	l.undecided = undecided
	l.logEnd.Store(end)
	l.durable.Store(end)
	l.filed.Store(end)
	l.highWatermark.Store(l.loadedHighWatermark(end))
	l.deriveLocked()
	l.recoveryPoint = end
	l.markRecorded = l.highWatermark.Load()
	l.markOffered = l.markRecorded
}

// loadedHighWatermark is where the high watermark of a log that ends at end
// starts.
func (l *Log) loadedHighWatermark(end int64) int64 {
	if l.o.Replicated {
		return min(max(l.o.Points.HighWatermark, l.logStart.Load()), end)
	}
	return end
}

// loadEpochs reads the leader epochs. A file that is damaged is a cache lost;
// one that cannot be read now may be good, and is the only place of an epoch
// that began without a batch.
func (l *Log) loadEpochs(p *loadPlan) error {
	path := filepath.Join(l.o.Dir, EpochsName)
	b, err := vfs.ReadFile(l.o.FS, path, smallFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		l.epochs.dirty, p.epochsLost = true, true
		return nil
	}
	if err == nil {
		l.epochs.entries, err = checkpoint.ReadEpochs(b)
	} else if info, e := l.o.FS.Stat(path); !errors.Is(err, vfs.ErrTooLarge) && (e != nil || !info.IsDir()) {
		return err
	}
	p.epochsEmpty = err == nil && len(l.epochs.entries) == 0
	if err != nil {
		l.epochs.entries, l.epochs.dirty, p.epochsLost = nil, true, true
		p.events = append(p.events, Event{Kind: EventIndexRebuilt, File: path, Err: err})
	}
	return nil
}

// loadExtents finds out where each segment ends, walking only those from the
// recovery point on, and the end of the log.
func (l *Log) loadExtents(p *loadPlan) (end int64, err error) {
	segments := p.listing.Segments
	if len(segments) == 0 {
		return l.o.Points.LogStart, nil
	}
	point := l.o.Points.RecoveryPoint
	if l.o.Clean {
		point = math.MaxInt64
	}
	p.first = len(segments) - 1
	// A segment that ends just at the point may not be sealed yet.
	for p.first > 0 && segments[p.first].Base >= point {
		p.first--
	}
	if l.o.OwnOnly {
		for i := range p.first {
			if segments[i].Size == 0 {
				return 0, l.corrupt(segments[i], 0, segments[i].Base, errors.New("the segment is empty, and others follow"), nil)
			}
		}
	}
	next := segments[p.first].Base
	for i := p.first; i < len(segments); i++ {
		f := segments[i]
		if i > p.first && (f.Base < next || l.o.OwnOnly && f.Base != next) {
			cause := fmt.Errorf("%w: the segment before ends at offset %d", ErrUnexpectedOffset, next)
			left, err := leftovers(l.o.FS, segments[i:i+1], next, point)
			if err != nil {
				return 0, err
			}
			if left > 0 {
				p.cuts = append(p.cuts, cut{files: f, offset: f.Base, zeros: true, whole: true, cause: cause})
				continue
			}
			if err := l.overrun(p.kept[len(p.kept)-1], f); err != nil {
				return 0, err
			}
			if min(next, f.Base) < point {
				return 0, l.corrupt(segments[i-1], p.walked[len(p.walked)-1].size, next, cause, &f.Base)
			}
			p.cuts = append(p.cuts, l.cutAll(segments[i:], cause)...)
			break
		}
		w, e, err := l.walkSegment(f, point, i == len(segments)-1, next)
		if err != nil {
			return 0, err
		}
		p.kept, p.walked = append(p.kept, f), append(p.walked, w)
		next = max(e.next, f.Base)
		if e.err == nil {
			continue
		}
		stop, err := l.torn(p, segments[i:], e, point)
		if err != nil {
			return 0, err
		}
		if stop {
			break
		}
	}
	p.kept = append(append([]segment.SegmentFiles(nil), segments[:p.first]...), p.kept...)
	return next, nil
}

// leftovers counts the segments, from the first of these on, that begin inside the
// log and in which nothing was ever written: a roll left them that failed, or their
// directory entry came back, and the log went on without them.
func leftovers(fsys vfs.FS, segments []segment.SegmentFiles, next, point int64) (n int, err error) {
	for n < len(segments) && point <= segments[n].Base && segments[n].Base < next {
		file, err := fsys.Open(segments[n].Paths[segment.KindLog])
		if err != nil {
			return 0, err
		}
		zeros, err := onlyZeros(file, 0, segments[n].Size)
		file.Close()
		if err != nil || !zeros {
			return n, err
		}
		n++
	}
	return n, nil
}

// torn decides on the bytes behind the last whole batch of the first of these
// segments. stop says that nothing after them is kept.
func (l *Log) torn(p *loadPlan, segments []segment.SegmentFiles, e extent, point int64) (stop bool, err error) {
	f := segments[0]
	left, err := leftovers(l.o.FS, segments[1:], e.next, point)
	if err != nil {
		return false, err
	}
	rest := segments[1+left:]
	if len(rest) > 0 {
		if err := l.overrun(f, rest[0]); err != nil {
			return false, err
		}
	}
	follows := len(rest) == 0 || rest[0].Base == e.next || !l.o.OwnOnly && rest[0].Base > e.next
	if e.zeros && follows && e.next >= point {
		// Space that was allocated and never written. The segments after it
		// are good, as they go on where the batches end.
		p.cuts = append(p.cuts, cut{files: f, pos: e.end, offset: e.next, zeros: true, cause: e.err})
		return false, nil
	}
	file, err := l.o.FS.Open(f.Paths[segment.KindLog])
	if err != nil {
		return false, err
	}
	defer file.Close()
	after, _, err := findBatch(file, e.end+1, f.Size, e.next)
	if err != nil {
		return false, err
	}
	if errors.Is(e.err, errNotJournaled) {
		after = e.next
	}
	if e.next < point {
		return false, l.corrupt(f, e.end, e.next, e.err, &after)
	}
	p.cuts = append(p.cuts, cut{files: f, pos: e.end, offset: e.next, zeros: e.zeros, cause: e.err, validAfter: after >= 0 || len(segments) > 1})
	p.cuts = append(p.cuts, l.cutAll(segments[1:], e.err)...)
	return true, nil
}

func (l *Log) cutAll(segments []segment.SegmentFiles, cause error) []cut {
	var cuts []cut
	for _, f := range segments {
		cuts = append(cuts, cut{files: f, offset: f.Base, whole: true, cause: cause, validAfter: f.Size > 0})
	}
	return cuts
}

func (l *Log) corrupt(f segment.SegmentFiles, pos, offset int64, cause error, readableFrom *int64) error {
	e := &CorruptionError{File: f.Paths[segment.KindLog], Pos: pos, Offset: offset, ReadableFrom: -1, Err: cause}
	if readableFrom != nil {
		e.ReadableFrom = *readableFrom
	}
	return e
}

// walkSegment checks a segment: from its last trusted index entry if it was
// closed cleanly, else from the recovery point, and makes what its indexes
// lack.
func (l *Log) walkSegment(f segment.SegmentFiles, point int64, last bool, next int64) (walkedSegment, extent, error) {
	w := walkedSegment{files: f, from: f.Base}
	believed := point // indexes count below it
	if plant.Enabled && plant.Is(plant.IndexBelieved) {
		believed = math.MaxInt64
	}
	file, err := l.o.FS.Open(f.Paths[segment.KindLog])
	if err != nil {
		return w, extent{}, err
	}
	defer file.Close()
	x, err := l.readIndexes(f, believed)
	if err != nil {
		return w, extent{}, err
	}
	start, err := l.trusted(file, f, x, believed)
	if err != nil {
		return w, extent{}, err
	}
	offsets, times, txns := index.NewOffset(f.Base), index.NewTime(f.Base), x.txns
	pos := start.Pos
	if pos > 0 {
		var head [batch.HeaderSize]byte
		if _, err := file.ReadAt(head[:], pos); err != nil {
			return w, extent{}, err
		}
		w.from = batch.Batch(head[:]).BaseOffset()
		offsets, times = x.offsets.Truncated(start.Offset+1), x.times.Truncated(start.Offset+1)
		next = w.from
	}
	// Below the recovery point the transaction index is believed: compaction
	// and the removal of segments leave less in the log than it knows.
	switch {
	case txns == nil:
		w.txnFrom, txns = f.Base, index.NewTxn(f.Base)
	case f.Paths[segment.KindTxnIndex] != "" || f.Paths[segment.KindOffsetIndex] != "":
		w.txnFrom = max(w.from, point)
	default:
		w.txnFrom = w.from
	}
	w.txns = txns.Truncated(w.txnFrom)
	w.checkPos = pos
	w.indexer = segment.NewIndexer(f.Base, offsets, times, int64(l.o.Config.IndexIntervalBytes))
	e, err := walk(file, f.Base, pos, f.Size, next, l.limit(), l.o.OwnOnly, func(b batch.Batch, at int64) error {
		if !l.o.Clean {
			l.epochs.learn(b.LeaderEpoch(), b.BaseOffset())
		}
		return w.indexer.Add(b.LastOffset(), b.MaxTimestamp(), at, len(b))
	})
	if err != nil {
		return w, e, err
	}
	w.size, w.next = e.end, e.next
	if last, ok := w.txns.Last(); max(x.beyond, last.Last) >= e.next && (ok || x.beyond >= 0) {
		// The index knows of a marker that the log does not have: either the
		// log lost its end, or the index is damaged and lacks another.
		w.txnFrom, w.txns = f.Base, index.NewTxn(f.Base)
	}
	if w.indexer.Times.First, err = segment.FirstTimestamp(file, e.end); err != nil {
		return w, e, err
	}
	if !last {
		err = w.indexer.Finish()
	}
	return w, e, err
}

// openSegments makes the list that readers use.
func (l *Log) openSegments(p *loadPlan) error {
	v := &view{}
	for i, f := range p.kept {
		if i < p.first {
			v.segments = append(v.segments, segment.OpenSealed(l.env, f))
			continue
		}
		w := &p.walked[i-p.first]
		s, err := segment.Continue(l.env, f, w.indexer, w.txns, w.size, l.o.Config.SegmentBytes, false)
		if err != nil {
			return joinClose(err, v)
		}
		w.segment = s
		v.segments = append(v.segments, s)
	}
	l.view.Store(v)
	return nil
}
