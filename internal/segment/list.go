package segment

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncelog/oncelog/internal/vfs"
)

// Paths are the files of one segment, by Kind; "" where there is none. The
// snapshot at a base offset is listed apart.
type Paths [KindSnapshot]string

// Files are the files that make up one segment.
type SegmentFiles struct {
	Base  int64
	Paths Paths
	Size  int64 // bytes of the .log file when it was listed
}

// Listing is what a partition directory holds once Kafka's rules about
// unfinished deletions, cleanings and swaps are applied, and what is to be
// done so that the directory really holds it. Making one changes nothing.
type Listing struct {
	Segments  []SegmentFiles // ascending
	Snapshots []int64        // ascending offsets of live snapshots

	dir        string
	unfinished []string    // names to remove first, while another (a .cleaned, a directory) still says that they are to go
	removed    []string    // names to remove then
	renamed    [][2]string // names to rename last, in order
	paths      map[Name]string
	// directories has the names of index files that are directories.
	directories map[Name]bool
}

// Pending tells whether Apply has anything to do.
func (l *Listing) Pending() bool { return len(l.unfinished)+len(l.removed)+len(l.renamed) > 0 }

// SnapshotPath is where the live snapshot of an offset lies now.
func (l *Listing) SnapshotPath(offset int64) string {
	return l.paths[Name{Offset: offset, Kind: KindSnapshot}]
}

// List reads a partition directory.
//
// Files with the suffix .deleted, .cleaned or .tmp are to be removed; so is a
// prepared segment. A .swap at or above the lowest .cleaned belongs to an
// unfinished group and is to be removed. What the other swapped segments
// cover is to be removed, then they are renamed into place. Index files
// without a .log are to be removed, and so is a directory in the place of an
// index or snapshot; one in the place of a .log is an error.
func List(fsys vfs.FS, dir string) (*Listing, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	l := &Listing{dir: dir, paths: map[Name]string{}, directories: map[Name]bool{}}
	swaps := map[Name]string{}
	cleanedMin := int64(math.MaxInt64)
	for _, e := range entries {
		name, ok := ParseName(e.Name())
		if e.Name() == PreparedName || strings.HasSuffix(e.Name(), tempSuffix) && !e.IsDir() {
			l.removed = append(l.removed, e.Name())
		}
		if ok && e.IsDir() && name.Suffix == SuffixNone {
			if name.Kind == KindLog {
				return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir, e.Name()), Err: errIsDirectory}
			}
			l.directories[name] = true
			l.removed = append(l.removed, e.Name())
		}
		if !ok || e.IsDir() {
			continue
		}
		switch plain := (Name{Offset: name.Offset, Kind: name.Kind}); name.Suffix {
		case SuffixNone:
			l.paths[plain] = filepath.Join(dir, e.Name())
		case SuffixDeleted:
			l.removed = append(l.removed, e.Name())
		case SuffixCleaned:
			l.removed = append(l.removed, e.Name())
			cleanedMin = min(cleanedMin, name.Offset)
		case SuffixSwap:
			swaps[plain] = e.Name()
		}
	}
	if err := l.applySwaps(fsys, swaps, cleanedMin); err != nil {
		return nil, err
	}
	return l, l.collect(fsys)
}

// applySwaps decides on the files with the suffix .swap.
func (l *Listing) applySwaps(fsys vfs.FS, swaps map[Name]string, cleanedMin int64) error {
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for name, file := range swaps {
		if name.Offset >= cleanedMin {
			l.unfinished = append(l.unfinished, file)
			delete(swaps, name)
			continue
		}
		if name.Kind != KindLog {
			continue
		}
		end, err := endOffset(fsys, filepath.Join(l.dir, file), name.Offset)
		if err != nil {
			return err
		}
		lo, hi = min(lo, name.Offset), max(hi, end)
	}
	for name, path := range l.paths {
		if name.Offset >= lo && name.Offset < hi {
			l.removed = append(l.removed, filepath.Base(path))
			delete(l.paths, name)
		}
	}
	order := make([]Name, 0, len(swaps))
	for name := range swaps {
		order = append(order, name)
	}
	slices.SortFunc(order, func(a, b Name) int {
		if a.Offset != b.Offset {
			return int(min(max(a.Offset-b.Offset, -1), 1))
		}
		return int(a.Kind) - int(b.Kind)
	})
	for _, name := range order {
		l.renamed = append(l.renamed, [2]string{swaps[name], name.String()})
		l.paths[name] = filepath.Join(l.dir, swaps[name])
	}
	slices.Sort(l.unfinished)
	slices.Sort(l.removed)
	return nil
}

// endOffset is the offset after the last whole batch of a .log file, or base
// if it holds none.
func endOffset(fsys vfs.FS, path string, base int64) (int64, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	s := NewScanner(f, 0, size, false)
	defer s.Close()
	end := base
	for s.Next() {
		end = max(end, s.Batch().NextOffset())
	}
	if torn := (*TornError)(nil); s.Err() != nil && !errors.As(s.Err(), &torn) {
		return 0, s.Err()
	}
	return end, nil
}

// collect groups the live files by segment.
func (l *Listing) collect(fsys vfs.FS) error {
	for name, path := range l.paths {
		switch name.Kind {
		case KindSnapshot:
			l.Snapshots = append(l.Snapshots, name.Offset)
		case KindLog:
			info, err := fsys.Stat(path)
			if err != nil {
				return err
			}
			files := SegmentFiles{Base: name.Offset, Size: info.Size()}
			for k := KindLog; k < KindSnapshot; k++ {
				files.Paths[k] = l.paths[Name{Offset: name.Offset, Kind: k}]
			}
			if index := files.Paths[KindOffsetIndex]; index != "" && l.directories[Name{Offset: name.Offset, Kind: KindTxnIndex}] {
				// Without an offset index the segment is walked, and all three are
				// made anew: no transaction index beside it would mean that nothing
				// was aborted.
				l.unfinished = append(l.unfinished, l.discard(index)...)
				files.Paths[KindOffsetIndex] = ""
			}
			l.Segments = append(l.Segments, files)
		default:
			if _, ok := l.paths[Name{Offset: name.Offset, Kind: KindLog}]; !ok {
				l.removed = append(l.removed, l.discard(path)...)
			}
		}
	}
	slices.Sort(l.Snapshots)
	slices.SortFunc(l.Segments, func(a, b SegmentFiles) int { return int(min(max(a.Base-b.Base, -1), 1)) })
	return nil
}

// discard gives the names to remove so that a file that was to live goes: of
// half a swap also what it would have replaced.
func (l *Listing) discard(path string) []string {
	names := []string{filepath.Base(path)}
	if i := slices.IndexFunc(l.renamed, func(pair [2]string) bool { return pair[0] == names[0] }); i >= 0 {
		names = append(names, l.renamed[i][1])
		l.renamed = slices.Delete(l.renamed, i, i+1)
	}
	return names
}

var errIsDirectory = errors.New("is a directory where a segment file should be")

// Apply does what is pending and makes it durable: removals, then renames,
// with a sync behind each step. It may be killed anywhere and repeated with a
// new Listing. An unfinished swap goes before the .cleaned file that shows it
// to be one. What a swap replaces is gone for good before the first name
// moves, so that no old segment comes back beside its replacement. And each
// name is in place before the next moves, a .log before its indexes and before
// later segments: one that got ahead of a .log would be taken for what that
// one replaces.
func (l *Listing) Apply(fsys vfs.FS) error {
	if !l.Pending() {
		return nil
	}
	for _, names := range [][]string{l.unfinished, l.removed} {
		if err := l.remove(fsys, names); err != nil {
			return err
		}
	}
	for _, pair := range l.renamed {
		if err := fsys.Rename(filepath.Join(l.dir, pair[0]), filepath.Join(l.dir, pair[1])); err != nil {
			return err
		}
		if err := fsys.SyncDir(l.dir); err != nil {
			return err
		}
		if name, ok := ParseName(pair[1]); ok {
			l.paths[name] = filepath.Join(l.dir, pair[1])
		}
	}
	for i := range l.Segments {
		for k := range l.Segments[i].Paths {
			if l.Segments[i].Paths[k] != "" {
				l.Segments[i].Paths[k] = l.paths[Name{Offset: l.Segments[i].Base, Kind: Kind(k)}]
			}
		}
	}
	l.unfinished, l.removed, l.renamed = nil, nil, nil
	return nil
}

func (l *Listing) remove(fsys vfs.FS, names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if err := fsys.Remove(filepath.Join(l.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fsys.SyncDir(l.dir)
}

// SnapshotsOnly is a listing of the given live snapshots and nothing else.
func SnapshotsOnly(dir string, offsets []int64) *Listing {
	l := &Listing{Snapshots: offsets, dir: dir, paths: map[Name]string{}}
	for _, at := range offsets {
		n := Name{Offset: at, Kind: KindSnapshot}
		l.paths[n] = filepath.Join(dir, n.String())
	}
	return l
}
