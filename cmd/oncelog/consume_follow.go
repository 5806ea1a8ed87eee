package main

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/tail"
)

const (
	// followEvery is how often a directory is looked at that another process
	// may write to.
	followEvery = 200 * time.Millisecond
	// followRest times what it takes to load the log is at least waited before
	// it is loaded again.
	followRest = 4
	// followAgain is how long after a change a file may change again without a
	// sign: times of files may be as coarse.
	followAgain = time.Second
)

// sighting is what the files that hold records looked like at a moment.
type sighting struct {
	files []sightedFile
	// settled says that if nothing looks different later, nothing has changed:
	// no file changed just before, and each shows when it does.
	settled bool
}

type sightedFile struct {
	path    string
	size    int64
	changed int64 // ns since 1970
}

// sight looks at the files. Those that cannot be looked at are not in it.
func (s *source) sight() sighting {
	now := time.Now()
	paths := []string{filepath.Join(s.dir, journal.Name), filepath.Join(s.dir, tail.FileName)}
	entries, err := s.fs.ReadDir(s.path())
	for _, e := range entries {
		if n, ok := segment.ParseName(e.Name()); ok && n.Kind == segment.KindLog {
			paths = append(paths, filepath.Join(s.path(), e.Name()))
		}
	}
	at := sighting{settled: err == nil}
	for _, path := range paths {
		info, err := s.fs.Stat(path)
		if err != nil {
			continue
		}
		at.settled = at.settled && now.Sub(info.ModTime()) > followAgain
		// What is written through a mapping does not show.
		at.settled = at.settled && filepath.Base(path) != tail.FileName
		at.files = append(at.files, sightedFile{path: path, size: info.Size(), changed: info.ModTime().UnixNano()})
	}
	return at
}

// await waits until the files may hold more than was loaded, and loads them
// again. The error is that of the context if it ended the wait.
func (s *source) await(ctx context.Context) error {
	pause := time.NewTimer(max(followEvery, followRest*s.took))
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
		now := s.sight()
		if s.seen.settled && slices.Equal(now.files, s.seen.files) {
			pause.Reset(followEvery)
			continue
		}
		return s.load()
	}
}
