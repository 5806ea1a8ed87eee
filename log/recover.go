package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/plant"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// Recovery tells what Recover found and did.
type Recovery struct {
	Unclean      bool
	CheckedBytes int64 // of log, from the recovery point on
	CutBytes     int64 // taken away, but for unwritten space
	CutFiles     []string
	ValidAfter   bool // whole batches were among what was cut
	StateLost    bool // of producers: no snapshot, and the log from its start is gone
}

// Recover carries out what Load decided and opens the log for appends. Every
// step may be killed and is done again by the next Load and Recover: what is
// cut is kept before it goes; what was not known to be on the device is
// written again in place, since after a failed flush the page cache shows
// bytes that the device does not have; then all is synced. The caller records
// Points before it relies on them.
func (l *Log) Recover(ctx context.Context) (Recovery, error) {
	l.maintainMu.Lock()
	defer l.maintainMu.Unlock()
	if l.o.ReadOnly {
		return Recovery{}, ErrReadOnly
	}
	p := l.plan
	if p == nil {
		return Recovery{}, errors.New("log: recovered before; load the log again")
	}
	l.plan = nil // what it says of the files holds once only
	r := Recovery{Unclean: !l.o.Clean}
	steps := []func() error{
		l.writePieces,
		func() error { return l.settleFiles(p) },
		func() error { return l.applyCuts(p, &r) },
		func() error { return l.rewrite(ctx, p, &r) },
		func() error { return l.reopenWalked(p) },
		func() error { return l.mendIndexes() },
		func() error { return l.dropSnapshots(p) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return r, fmt.Errorf("recover %s: %w", l.o.Partition, err)
		}
	}
	if err := l.makeDurable(p); err != nil {
		return r, fmt.Errorf("recover %s: %w", l.o.Partition, err)
	}
	l.written = nil
	l.opened.Store(true)
	for _, e := range p.events {
		r.StateLost = r.StateLost || e.Kind == EventProducerStateLost
	}
	l.tell(p)
	if r.Unclean && (r.CheckedBytes > 0 || len(p.cuts) > 0) {
		l.event(Event{Kind: EventRecovered, From: l.logStart.Load(), To: l.logEnd.Load(), Bytes: r.CheckedBytes})
	}
	return r, nil
}

// settleFiles ends unfinished swaps and deletions.
func (l *Log) settleFiles(p *loadPlan) error {
	if err := p.listing.Apply(l.o.FS); err != nil {
		return err
	}
	byBase := map[int64]segment.Paths{}
	for _, f := range p.listing.Segments {
		byBase[f.Base] = f.Paths
	}
	for i := range p.kept {
		p.kept[i].Paths = byBase[p.kept[i].Base]
	}
	for i := range p.walked {
		p.walked[i].files.Paths = byBase[p.walked[i].files.Base]
	}
	for i := range p.cuts {
		p.cuts[i].files.Paths = byBase[p.cuts[i].files.Base]
	}
	for _, s := range l.view.Load().segments {
		s.SetPaths(byBase[s.Base])
	}
	return nil
}

// applyCuts keeps what is cut under another name, syncs that, and then cuts.
func (l *Log) applyCuts(p *loadPlan, r *Recovery) (err error) {
	for i, c := range p.cuts {
		told := Event{Kind: EventTailCut, From: c.offset, To: c.offset, Bytes: c.files.Size - c.pos, ValidAfter: c.validAfter, Err: c.cause}
		if i+1 < len(p.cuts) && p.cuts[i+1].whole {
			told.To = p.cuts[i+1].offset
		}
		if c.zeros && c.validAfter {
			p.events = append(p.events, told)
		}
		if c.zeros || told.Bytes == 0 {
			continue
		}
		if told.File, err = l.keep(c); err != nil {
			return err
		}
		r.CutFiles = append(r.CutFiles, told.File)
		r.CutBytes += told.Bytes
		r.ValidAfter = r.ValidAfter || c.validAfter
		p.events = append(p.events, told)
	}
	if len(p.cuts) > 0 {
		if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
			return err
		}
	}
	for i := len(p.cuts) - 1; i >= 0; i-- { // the last segment goes first: no hole, ever
		c := p.cuts[i]
		if c.whole {
			if err := segment.Remove(l.env, segment.OpenSealed(l.env, c.files)); err != nil {
				return err
			}
			continue
		}
		if err := l.truncateFile(c.files.Paths[segment.KindLog], c.pos); err != nil {
			return err
		}
	}
	if !p.emptied {
		return nil
	}
	var all []*segment.Segment
	for _, f := range p.listing.Segments {
		all = append(all, segment.OpenSealed(l.env, f))
	}
	return segment.Remove(l.env, all...)
}

// keep copies a piece of log that is about to be cut and syncs the copy.
func (l *Log) keep(c cut) (string, error) {
	from, err := l.o.FS.Open(c.files.Paths[segment.KindLog])
	if err != nil {
		return "", err
	}
	defer from.Close()
	var to vfs.File
	var name string
	for at := l.o.Now().UnixMilli(); ; at++ {
		name = filepath.Join(l.o.Dir, segment.CutName(c.files.Base, at))
		to, err = l.o.FS.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	err = copyRange(to, 0, from, c.pos, c.files.Size-c.pos)
	if err == nil {
		err = to.Sync()
	}
	return name, errors.Join(err, to.Close())
}

// copyRange copies n bytes between positions of two files, which may be one.
func copyRange(to vfs.File, at int64, from vfs.File, pos, n int64) error {
	buffer := make([]byte, min(n, 1<<20))
	for n > 0 {
		b := buffer[:min(n, int64(len(buffer)))]
		if n, err := from.ReadAt(b, pos); err != nil && (err != io.EOF || n < len(b)) {
			return err
		}
		if _, err := to.WriteAt(b, at); err != nil {
			return err
		}
		pos, at, n = pos+int64(len(b)), at+int64(len(b)), n-int64(len(b))
	}
	return nil
}

func (l *Log) truncateFile(path string, size int64) error {
	f, err := l.o.FS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// rewrite writes what was walked again in place, so that the pages are dirty,
// but for the pieces, which were just written, and syncs it.
func (l *Log) rewrite(ctx context.Context, p *loadPlan, r *Recovery) error {
	if l.o.Clean || plant.Enabled && plant.Is(plant.NotRewritten) {
		return nil
	}
	for i := range p.walked {
		w := &p.walked[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		r.CheckedBytes += w.size - w.checkPos
		f, err := l.o.FS.OpenFile(w.files.Paths[segment.KindLog], os.O_RDWR, 0)
		if err != nil {
			return err
		}
		err = l.rewriteRange(f, w.files.Base, w.checkPos, w.size)
		if err == nil && w.next >= l.o.Points.RecoveryPoint {
			err = segment.RewriteLength(f, w.size)
		}
		if err == nil {
			err = f.Datasync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// rewriteRange writes bytes [from, to) of the segment at base again.
func (l *Log) rewriteRange(f vfs.File, base, from, to int64) error {
	for _, p := range l.written {
		if p.Segment != base || p.Pos >= to || p.Pos+p.Length <= from {
			continue
		}
		if p.Pos > from {
			if err := copyRange(f, from, f, from, p.Pos-from); err != nil {
				return err
			}
		}
		from = p.Pos + p.Length
	}
	if from >= to {
		return nil
	}
	return copyRange(f, from, f, from, to-from)
}

// reopenWalked turns the walked segments into sealed ones, the last into the
// active segment, and makes the first segment of an empty log.
func (l *Log) reopenWalked(p *loadPlan) error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	c := l.config.Load()
	segments := l.view.Load().segments[:max(len(p.kept)-len(p.walked), 0):max(len(p.kept)-len(p.walked), 0)]
	for i := range p.walked {
		w := &p.walked[i]
		w.files.Size = w.size
		s, err := segment.Continue(l.env, w.files, w.indexer, w.txns, w.size, c.SegmentBytes, true)
		if err != nil {
			return err
		}
		if err := w.segment.Retire(); err != nil {
			return err
		}
		w.segment = s
		segments = append(segments, s)
		if i < len(p.walked)-1 {
			if err := errors.Join(s.Trim(), s.Seal()); err != nil {
				return err
			}
		} else {
			l.active = s
		}
	}
	l.view.Store(&view{segments})
	l.rollAfter = l.o.Now().UnixMilli()
	if l.active == nil {
		if err := l.activateLocked(l.logEnd.Load(), l.rollAfter, 0); err != nil {
			return err
		}
	}
	if _, open := l.table.FirstUndecided(); !open {
		return nil
	}
	// The reserve, so that what is open can end though the disk fills up.
	if err := l.active.Extend(segment.MarkerReserve); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	return nil
}

// mendIndexes writes the index files that sealed segments lost, or that were
// found wrong. maintainMu is held.
func (l *Log) mendIndexes() error {
	for _, s := range l.view.Load().segments {
		mended, err := s.Mend()
		if err != nil {
			return err
		}
		if mended {
			l.dirUnsync.Store(true)
		}
	}
	return nil
}

// dropSnapshots removes snapshots that cannot be used or are ahead of the log.
func (l *Log) dropSnapshots(p *loadPlan) error {
	end := l.logEnd.Load()
	bad := map[int64]bool{}
	for _, at := range p.bad {
		bad[at] = true
	}
	for _, at := range p.listing.Snapshots {
		if at <= end && !bad[at] {
			l.snapshots = append(l.snapshots, at)
			continue
		}
		if err := l.removeSnapshot(at); err != nil {
			return err
		}
		l.dirUnsync.Store(true)
	}
	return nil
}

// makeDurable ends recovery: what it made is synced, so that from here on the
// whole log is below the recovery point.
func (l *Log) makeDurable(p *loadPlan) error {
	// Entries of the file that were found wrong would be believed again once
	// the log has grown past them.
	if nothing := l.o.Clean && p.epochsLost && len(p.kept) == 0; !nothing {
		if err := l.epochs.write(l.o.FS, l.o.Dir); err != nil {
			return err
		}
	}
	if l.o.Clean && !l.dirUnsync.Load() {
		return nil
	}
	if !l.o.Clean {
		if err := l.active.FlushIndexes(); err != nil {
			return err
		}
	}
	l.dirUnsync.Store(false)
	return l.o.FS.SyncDir(l.o.Dir)
}
