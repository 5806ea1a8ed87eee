package log

import (
	"errors"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// loadProducers builds the producer state at the log end: from the newest
// good snapshot and the batches after it. The aborted transactions that end in
// walked segments are entered into their indexes on the way.
func (l *Log) loadProducers(p *loadPlan, end int64) error {
	indexFrom := end // where the transaction indexes lack entries
	for _, w := range p.walked {
		indexFrom = min(indexFrom, w.txnFrom)
	}
	enter := func(t producerstate.CompletedTxn) error {
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
	table, at := l.newestSnapshot(p, end)
	lost := at < 0 && l.logStart.Load() > 0 && end > 0 && len(p.kept) > 0
	if table == nil {
		table, at = producerstate.New(l.tableOptions()), 0
	}
	if lost {
		p.events = append(p.events, Event{Kind: EventProducerStateLost, From: l.logStart.Load(), To: end})
	}
	if at > indexFrom {
		// The snapshot is younger than the indexes: they get their entries
		// from a second replay that starts early enough.
		early, from := l.newestSnapshot(p, indexFrom)
		if early == nil {
			early, from = producerstate.New(l.tableOptions()), 0
		}
		if err := l.replay(early, from, end, enter); err != nil {
			return err
		}
		enter = func(producerstate.CompletedTxn) error { return nil }
	}
	l.table = table
	return l.replay(table, at, end, enter)
}

func (l *Log) tableOptions() producerstate.Options {
	return producerstate.Options{ProducersMax: l.o.Config.ProducersMax}
}

// newestSnapshot reads the newest usable snapshot at or below offset; nil and
// -1 if there is none. Those that cannot be used are noted for removal.
func (l *Log) newestSnapshot(p *loadPlan, offset int64) (*producerstate.Table, int64) {
	for i := len(p.listing.Snapshots) - 1; i >= 0; i-- {
		at := p.listing.Snapshots[i]
		if at > offset {
			continue
		}
		path := p.listing.SnapshotPath(at)
		b, err := vfs.ReadFile(l.o.FS, path, snapshotMax)
		if err == nil {
			var t *producerstate.Table
			if t, err = producerstate.LoadSnapshot(l.tableOptions(), b, l.o.Now().UnixMilli(), 0); err == nil {
				return t, at
			}
		}
		p.events = append(p.events, Event{Kind: EventSnapshotBad, File: path, From: at, Err: err})
		p.bad = append(p.bad, at)
	}
	return nil, -1
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
		pos = h.Offsets.Lookup(from).Pos
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
	if torn := (*segment.TornError)(nil); errors.As(scan.Err(), &torn) {
		return &CorruptionError{File: s.Path(segment.KindLog), Pos: torn.Pos, Offset: -1, ReadableFrom: -1, Err: torn.Err}
	}
	return scan.Err()
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
	t := producerstate.New(producerstate.Options{})
	return txns, l.replayForIndex(t, v.segments[:i+1], end, func(c producerstate.CompletedTxn) error {
		if c.Commit || c.Last < base {
			return nil
		}
		return txns.Append(index.AbortedTxn{ProducerID: c.ProducerID, First: c.First, Last: c.Last, LastStable: c.LastStable})
	})
}

// replayForIndex replays segments by their files alone, since the handle of
// the last is just being made.
func (l *Log) replayForIndex(t *producerstate.Table, segments []*segment.Segment, to int64, done func(producerstate.CompletedTxn) error) error {
	now := l.o.Now().UnixMilli()
	for _, s := range segments {
		f, err := l.o.FS.Open(s.Path(segment.KindLog))
		if err != nil {
			return err
		}
		scan := segment.NewScanner(f, 0, s.Size(), false)
		for scan.Next() && err == nil {
			b := scan.Batch()
			if b.BaseOffset() >= to || b.ProducerID() < 0 {
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
		if err = errors.Join(err, scan.Err(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
