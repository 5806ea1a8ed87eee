package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// loadedIndexes are what the index files of a segment say below the recovery
// point. txns is nil if its file cannot be believed.
type loadedIndexes struct {
	offsets *index.Offset
	times   *index.Time
	txns    *index.Txn
	beyond  int64 // marker of the first entry of txns' file that lies above the point, -1: none
}

// readIndexes reads the index files of a segment. Above the recovery point
// nothing in them counts, and zeros may follow. Without one of the first two,
// both are made anew.
func (l *Log) readIndexes(f segment.SegmentFiles, point int64) (x loadedIndexes, err error) {
	var bytes [segment.KindSnapshot][]byte
	var damage [segment.KindSnapshot]error
	// No index is larger than the log it is about.
	limit := max(smallFileMax, f.Size)
	for k := segment.KindOffsetIndex; k < segment.KindSnapshot; k++ {
		if f.Paths[k] == "" {
			if k != segment.KindTxnIndex {
				l.missing(f, k, point)
			}
			continue
		}
		bytes[k], err = vfs.ReadFile(l.o.FS, f.Paths[k], limit)
		if errors.Is(err, vfs.ErrTooLarge) {
			damage[k] = err
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return x, err
		}
	}
	x.offsets = index.LoadOffset(f.Base, bytes[segment.KindOffsetIndex], point, f.Size)
	x.times = index.LoadTime(f.Base, bytes[segment.KindTimeIndex], point)
	if damage[segment.KindTimeIndex] == nil {
		damage[segment.KindTimeIndex] = l.brokenOff(x.times, bytes[segment.KindTimeIndex], f.Base, point)
	}
	if f.Paths[segment.KindOffsetIndex] == "" || f.Paths[segment.KindTimeIndex] == "" || damage[segment.KindTimeIndex] != nil {
		x.offsets = index.NewOffset(f.Base)
	}
	x.txns = index.LoadTxn(f.Base, bytes[segment.KindTxnIndex], point)
	if damage[segment.KindTxnIndex] == nil {
		x.beyond, damage[segment.KindTxnIndex] = l.unsound(x.txns, bytes[segment.KindTxnIndex], point)
	}
	if damage[segment.KindTxnIndex] != nil {
		x.txns = nil
	}
	for k, reason := range damage {
		if reason != nil {
			l.plan.events = append(l.plan.events, Event{Kind: EventIndexRebuilt, File: f.Paths[k], From: f.Base, Err: reason})
		}
	}
	return x, nil
}

// missing notes that an index file is not there that was once: it is made
// before the recovery point passes the start of its segment.
func (l *Log) missing(f segment.SegmentFiles, k segment.Kind, point int64) {
	if f.Base < point && f.Size > 0 {
		name := filepath.Join(l.o.Dir, segment.FileName(f.Base, k))
		l.plan.events = append(l.plan.events, Event{Kind: EventIndexRebuilt, File: name, From: f.Base, Err: fs.ErrNotExist})
	}
}

// brokenOff tells why loading a time index stopped before the recovery point,
// nil if it did not: with entries lost, the greatest timestamp would be too
// small.
func (l *Log) brokenOff(times *index.Time, file []byte, base, point int64) error {
	rest := file[times.Len()*index.TimeEntrySize:]
	if len(rest) < index.TimeEntrySize {
		return l.tornEntry(rest, "time", times.Len())
	}
	if [index.TimeEntrySize]byte(rest) == [index.TimeEntrySize]byte{} {
		return nil
	}
	next, err := index.ViewTime(base, rest[:index.TimeEntrySize])
	if err == nil && next.At(0).Offset >= point {
		return nil
	}
	return fmt.Errorf("entry %d of the time index is not sound", times.Len())
}

// tornEntry tells of a piece of an entry at the end of an index that was closed
// cleanly. After a crash there may be one above the recovery point.
func (l *Log) tornEntry(rest []byte, which string, n int) error {
	if !l.o.Clean || len(rest) == 0 {
		return nil
	}
	return fmt.Errorf("entry %d of the %s index is torn", n, which)
}

// unsound tells why loading a transaction index stopped before the recovery
// point, nil if it did not, and the marker of the entry where it stopped.
func (l *Log) unsound(txns *index.Txn, file []byte, point int64) (beyond int64, reason error) {
	rest := file[txns.Len()*index.TxnEntrySize:]
	if len(rest) < index.TxnEntrySize {
		return -1, l.tornEntry(rest, "transaction", txns.Len())
	}
	next, err := index.ViewTxn(0, rest[:index.TxnEntrySize])
	if err == nil && next.At(0).Last >= point {
		return next.At(0).Last, nil
	}
	return -1, fmt.Errorf("entry %d of the transaction index is not sound", txns.Len())
}

// trustTries is how many index entries are tried before the segment is walked
// from its start. One that is wrong is seldom alone.
const trustTries = 4

// trusted is the last index entry below the recovery point that leads to a
// batch that checks out and ends at or, where one entry was made for an append
// of many, before the entry's offset; the segment's start if there is none, or
// if the time index up to there cannot be right.
func (l *Log) trusted(file vfs.File, f segment.SegmentFiles, x loadedIndexes, point int64) (index.OffsetEntry, error) {
	start := index.OffsetEntry{Offset: f.Base}
	// The two files may lag behind the recovery point, and a crash may have left
	// one of them older: what lies behind the last time is looked at again, or a
	// greatest timestamp there would be missed.
	timed := int64(-1)
	if last, ok := x.times.Last(); ok {
		timed = last.Offset
	}
	tries := 0
	for n := x.offsets.Len(); n > 0 && tries < trustTries; n-- {
		e := x.offsets.At(n - 1)
		if e.Offset >= point || !l.o.Clean && e.Offset > timed {
			continue
		}
		tries++
		s := segment.NewScanner(file, e.Pos, f.Size, true)
		good := s.Next() && s.Batch().LastOffset() <= e.Offset && s.Batch().BaseOffset() >= f.Base
		s.Close()
		if good {
			start = e
			break
		}
	}
	if tries > 1 || tries == 1 && start.Pos == 0 {
		l.plan.events = append(l.plan.events, Event{Kind: EventIndexRebuilt, File: f.Paths[segment.KindOffsetIndex], From: f.Base,
			Err: errors.New("an entry of the offset index leads to no batch that it can mean")})
	}
	if start.Pos == 0 {
		return start, nil
	}
	err := segment.CheckTimes(file, f.Size, x.offsets, x.times.Truncated(start.Offset+1))
	if _, wrong := errors.AsType[*index.FormatError](err); wrong {
		l.plan.events = append(l.plan.events, Event{Kind: EventIndexRebuilt, File: f.Paths[segment.KindTimeIndex], From: f.Base, Err: err})
		return index.OffsetEntry{Offset: f.Base}, nil
	}
	return start, err
}
