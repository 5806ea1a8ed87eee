package log

import (
	"io"
	"slices"

	"github.com/oncelog/oncelog/internal/segment"
)

// Region is a range of whole batches in one segment file, pinned: the file
// stays readable until Release, also when the segment is deleted. It is what
// replication and upload move without decoding.
type Region struct {
	Base  int64 // base offset of the segment
	Pos   int64 // byte position of the first batch
	Bytes int64

	handle *segment.Handle
}

// ReadAt implements io.ReaderAt for the bytes of the region; pos counts from its
// start. What a truncation cut meanwhile can no longer be read, or is what was
// appended there since.
func (r *Region) ReadAt(b []byte, pos int64) (int, error) {
	return io.NewSectionReader(r.handle.File, r.Pos, r.Bytes).ReadAt(b, pos)
}

// Release unpins the region.
func (r *Region) Release() error { return r.handle.Release() }

// Regions pins the batches from the one that holds offset to the log end, with
// those that readers do not see yet, segment by segment. Release each.
func (l *Log) Regions(offset int64) (regions []*Region, err error) {
	err = l.look(func(v *view) error {
		f := l.Frontiers()
		if offset < f.LogStart || offset > f.LogEnd {
			return &OffsetError{Requested: offset, LogStart: f.LogStart, LogEnd: f.LogEnd}
		}
		regions, err = pin(v.segments[max(v.find(offset), 0):], offset)
		return err
	})
	return regions, err
}

// pin pins what these segments hold from an offset on: all or nothing.
func pin(segments []*segment.Segment, offset int64) (regions []*Region, err error) {
	for _, s := range segments {
		var h *segment.Handle
		if h, err = s.Acquire(); err != nil {
			break
		}
		r := &Region{Base: s.Base, Bytes: s.Size(), handle: h}
		regions = append(regions, r)
		if err = r.startAt(s, offset); err != nil {
			break
		}
	}
	return slices.DeleteFunc(regions, func(r *Region) bool {
		drop := err != nil || r.Bytes == 0
		if drop {
			_ = r.Release() // only read
		}
		return drop
	}), err
}

// startAt moves the start of a region to the batch that holds offset.
func (r *Region) startAt(s *segment.Segment, offset int64) error {
	if offset <= s.Base {
		return nil
	}
	scan := segment.NewScanner(r.handle.File, s.Seek(r.handle, offset), r.Bytes, false)
	defer scan.Close()
	for scan.Next() {
		if scan.Batch().LastOffset() >= offset {
			break
		}
	}
	if scan.Err() != nil {
		return damaged(s, scan.Err())
	}
	r.Pos, r.Bytes = scan.Pos(), r.Bytes-scan.Pos()
	return nil
}
