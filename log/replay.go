package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// loadProducers builds the producer state at the log end: from the newest
// good snapshot and the batches after it. The aborted transactions that end in
// walked segments are entered into their indexes on the way, and those that
// end above the high watermark are noted.
func (l *Log) loadProducers(p *loadPlan, end int64) error {
	indexFrom := end // where the transaction indexes lack entries, or transactions are unstable
	for _, w := range p.walked {
		indexFrom = min(indexFrom, w.txnFrom)
	}
	highWatermark := l.loadedHighWatermark(end)
	indexFrom = min(indexFrom, highWatermark)
	enter := func(t producerstate.CompletedTxn) error {
		if t.Last >= highWatermark { // it is not stable yet
			l.completed.push(t.First, t.Last)
		}
		for i := len(p.walked) - 1; i >= 0; i-- {
			if w := &p.walked[i]; t.Last >= w.files.Base {
				if t.Commit || t.Last < w.txnFrom {
					return nil
				}
				return w.txns.Append(index.AbortedTxn{ProducerID: t.ProducerID, First: t.First, Last: t.Last, LastStable: t.LastStable})
			}
		}
		return nil
	}
	head := end // of what is left of the log
	if len(p.kept) > 0 {
		head = p.kept[0].Base
	}
	table, at, err := l.newestSnapshot(p, head, end)
	if err != nil {
		return err
	}
	if head > 0 && at < 0 {
		p.events = append(p.events, Event{Kind: EventProducerStateLost, From: l.logStart.Load(), To: end})
	}
	if at > indexFrom {
		// The snapshot is younger than the indexes: they get their entries
		// from a second replay that starts early enough.
		if err := l.replay(table, at, end, ignoreCompleted); err != nil {
			return err
		}
		l.table = table
		early, from, err := l.newestSnapshot(p, head, indexFrom)
		if err != nil {
			return err
		}
		return l.replay(early, from, end, func(t producerstate.CompletedTxn) error {
			// What has been open since before the head, the second replay may
			// not know; the entries that follow these will be made with it.
			if first, open := table.FirstUndecided(); open && first < head {
				t.LastStable = min(t.LastStable, first)
			}
			return enter(t)
		})
	}
	l.table = table
	return l.replay(table, at, end, enter)
}

func ignoreCompleted(producerstate.CompletedTxn) error { return nil }

func (l *Log) tableOptions() producerstate.Options {
	return producerstate.Options{ProducersMax: l.o.Config.ProducersMax}
}

// newestSnapshot reads the newest usable snapshot at or below offset; an empty
// state at -1 if there is none. Those that are damaged are noted for removal.
// One from before the head of the log does not do: with the batches between
// the two gone, transactions would stay open in it for ever.
func (l *Log) newestSnapshot(p *loadPlan, head, offset int64) (*producerstate.Table, int64, error) {
	for i := len(p.listing.Snapshots) - 1; i >= 0; i-- {
		at := p.listing.Snapshots[i]
		if at > offset || at < head {
			continue
		}
		path := p.listing.SnapshotPath(at)
		b, err := vfs.ReadFile(l.o.FS, path, snapshotMax)
		if err == nil {
			var t *producerstate.Table
			if t, err = producerstate.LoadSnapshot(l.tableOptions(), b, l.o.Now().UnixMilli(), 0); err == nil {
				return t, at, nil
			}
		} else if !errors.Is(err, vfs.ErrTooLarge) {
			return nil, -1, err // the file may be good
		}
		p.events = append(p.events, Event{Kind: EventSnapshotBad, File: path, From: at, Err: err})
		p.bad = append(p.bad, at)
	}
	return producerstate.New(l.tableOptions()), -1, nil
}

// replay applies the batches of [from, to) to a table and calls done for every
// transaction that ends there.
func (l *Log) replay(t *producerstate.Table, from, to int64, done func(producerstate.CompletedTxn) error) error {
	if from >= to {
		return nil
	}
	v := l.view.Load()
	now := l.o.Now().UnixMilli()
	for _, s := range v.segments[max(min(v.find(from), len(v.segments)), 0):] {
		if s.Base >= to {
			break
		}
		if err := l.replaySegment(t, s, from, to, now, done); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replaySegment(t *producerstate.Table, s *segment.Segment, from, to, now int64, done func(producerstate.CompletedTxn) error) error {
	h, err := s.Acquire()
	if err != nil {
		return err
	}
	defer h.Release()
	pos := int64(0)
	if from > s.Base {
		pos = s.Seek(h, from)
	}
	scan := segment.NewScanner(h.File, pos, s.Size(), false)
	defer scan.Close()
	for scan.Next() {
		b := scan.Batch()
		if b.LastOffset() < from || b.ProducerID() < 0 {
			continue
		}
		if b.BaseOffset() >= to {
			return nil
		}
		header := b.Header()
		marker, err := markerOf(b)
		if err != nil {
			return err
		}
		if marker == nil && b.IsControl() {
			continue
		}
		if completed, ok := t.Apply(&header, marker, now); ok {
			if err := done(completed); err != nil {
				return err
			}
		}
	}
	return damaged(s, scan.Err())
}

// rebuildTxns makes the transaction index of a sealed segment anew.
func (l *Log) rebuildTxns(base, size int64) (*index.Txn, error) {
	txns := index.NewTxn(base)
	v := l.view.Load()
	i := v.find(base)
	if i < 0 || v.segments[i].Base != base {
		return nil, segment.ErrGone
	}
	end := l.logEnd.Load()
	if i+1 < len(v.segments) {
		end = v.segments[i+1].Base
	}
	t, from, err := l.snapshotBelow(v.segments[0].Base, base)
	if err != nil {
		return nil, err
	}
	first := max((&view{v.segments[:i+1]}).find(from), 0)
	return txns, l.replayForIndex(t, v.segments[first:i+1], from, end, func(c producerstate.CompletedTxn) error {
		if c.Commit || c.Last < base {
			return nil
		}
		return txns.Append(index.AbortedTxn{ProducerID: c.ProducerID, First: c.First, Last: c.Last, LastStable: c.LastStable})
	})
}

// snapshotBelow is newestSnapshot for a reader, who takes no lock: they come
// and go.
func (l *Log) snapshotBelow(head, offset int64) (*producerstate.Table, int64, error) {
	entries, err := l.o.FS.ReadDir(l.o.Dir)
	if err != nil {
		return nil, -1, err
	}
	for _, e := range slices.Backward(entries) {
		n, ok := segment.ParseName(e.Name())
		if !ok || n.Kind != segment.KindSnapshot || n.Suffix != segment.SuffixNone || n.Offset > offset || n.Offset < head {
			continue
		}
		b, err := vfs.ReadFile(l.o.FS, filepath.Join(l.o.Dir, e.Name()), snapshotMax)
		if err != nil {
			continue
		}
		if t, err := producerstate.LoadSnapshot(producerstate.Options{}, b, 0, 0); err == nil {
			return t, n.Offset, nil
		}
	}
	return producerstate.New(producerstate.Options{}), -1, nil
}

// replayForIndex replays the batches of [from, to) by the files of segments
// alone, since the handle of the last is just being made.
func (l *Log) replayForIndex(t *producerstate.Table, segments []*segment.Segment, from, to int64, done func(producerstate.CompletedTxn) error) error {
	now := l.o.Now().UnixMilli()
	for _, s := range segments {
		f, err := l.o.FS.Open(s.Path(segment.KindLog))
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile: nothing pins it
			return fmt.Errorf("%w: %w", segment.ErrGone, err)
		}
		if err != nil {
			return err
		}
		scan := segment.NewScanner(f, 0, s.Size(), false)
		for scan.Next() && err == nil {
			b := scan.Batch()
			if b.LastOffset() < from || b.BaseOffset() >= to || b.ProducerID() < 0 {
				continue
			}
			header := b.Header()
			marker, _ := markerOf(b)
			if marker == nil && b.IsControl() {
				continue
			}
			if c, ok := t.Apply(&header, marker, now); ok {
				err = done(c)
			}
		}
		scan.Close()
		if err = errors.Join(err, damaged(s, scan.Err()), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
