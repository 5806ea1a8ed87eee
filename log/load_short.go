package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// checkEnd refuses a log that ends, at end, below its recovery point: what
// lacks was on the device once, and its offsets would be given out again.
//
// Of a log that was closed cleanly the point alone says so: it is the end.
// After a crash a bare number may be wrong (Kafka truncates a log without
// recording it at once), so the log is refused if one more of its files knows
// of what lacks; else an event has to do.
func (l *Log) checkEnd(p *loadPlan, start, end int64) error {
	point := l.o.Points.RecoveryPoint
	if point <= end {
		return nil
	}
	witness, err := l.witness(p, end, point)
	if err != nil {
		return err
	}
	if !l.o.Clean && witness == "" {
		p.events = append(p.events, Event{Kind: EventPointBeyondEnd, From: end, To: point})
		return nil
	}
	if l.o.Clean {
		witness = "it was closed there"
	}
	readable := "nothing of it is readable"
	if start < end {
		readable = fmt.Sprintf("offsets %d to %d are readable", start, end-1)
	}
	c := &CorruptionError{File: filepath.Join(l.o.Dir, segment.FileName(end, segment.KindLog)), Offset: end, ReadableFrom: -1}
	if n := len(p.walked); n > 0 {
		c.File, c.Pos = p.walked[n-1].files.Paths[segment.KindLog], p.walked[n-1].size
	}
	c.Err = fmt.Errorf("the log ends here, but was on the device up to offset %d (%s); %s; put back what is missing, or give it up by writing %d in place of %d in %s",
		point, witness, readable, end, point, checkpoint.RecoveryPointFile)
	return c
}

// witness says which file of the log, but for the segments, knows of offsets
// from end on and below the recovery point; "" if none does.
//
// Snapshots are removed by whoever truncates a log, and are believed of all
// logs. The others are only of logs that we alone wrote, where the recovery
// point is lowered first: Kafka leaves entries in the unused space of an index.
func (l *Log) witness(p *loadPlan, end, point int64) (string, error) {
	for _, at := range p.listing.Snapshots {
		if at > end && at <= point {
			return filepath.Base(p.listing.SnapshotPath(at)) + " knows of them", nil
		}
	}
	if !l.o.OwnOnly {
		return "", nil
	}
	if len(p.listing.Segments) == 0 {
		return "no segment is left", nil
	}
	for _, e := range l.epochs.entries {
		if e.Start > end && e.Start <= point {
			return EpochsName + " knows of them", nil
		}
	}
	// Also those whose segment is gone, which the listing leaves out.
	entries, err := l.o.FS.ReadDir(l.o.Dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		n, ok := segment.ParseName(e.Name())
		if !ok || e.IsDir() || n.Suffix != segment.SuffixNone || n.Kind == segment.KindLog || n.Kind == segment.KindSnapshot {
			continue
		}
		last, err := l.lastIndexed(n, point)
		if err != nil {
			return "", err
		}
		if last >= end {
			return e.Name() + " knows of them", nil
		}
	}
	return "", nil
}

// lastIndexed is the greatest offset below the recovery point that an index
// file has an entry of, -1 if none.
func (l *Log) lastIndexed(n segment.Name, point int64) (int64, error) {
	b, err := vfs.ReadFile(l.o.FS, filepath.Join(l.o.Dir, n.String()), smallFileMax)
	if errors.Is(err, vfs.ErrTooLarge) || errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	switch n.Kind {
	case segment.KindOffsetIndex:
		if e, ok := index.LoadOffset(n.Offset, b, point, math.MaxInt64).Last(); ok {
			return e.Offset, nil
		}
	case segment.KindTimeIndex:
		if e, ok := index.LoadTime(n.Offset, b, point).Last(); ok {
			return e.Offset, nil
		}
	case segment.KindTxnIndex:
		if e, ok := index.LoadTxn(n.Offset, b, point).Last(); ok {
			return e.Last, nil
		}
	}
	return -1, nil
}
