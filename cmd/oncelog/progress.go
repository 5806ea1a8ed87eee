package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// When progress is shown first, and how often then.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// progress tells a person at a terminal how far a long work is. It shows
// nothing for the first second, and nothing at all if standard error is not a
// terminal. The zero value is silent. Not safe for concurrent use.
type progress struct {
	w       io.Writer // nil: silent
	started time.Time
	shown   time.Time
	bytes   int64 // done
	total   int64 // 0: unknown
}

// newProgress gives the progress of a work that begins now.
func newProgress(stderr io.Writer) *progress {
	p := &progress{started: time.Now()}
	if f, ok := stderr.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w = stderr
		}
	}
	return p
}

// add counts n more bytes, of the file of that name.
func (p *progress) add(name string, n int64) {
	p.bytes += n
	if p.w == nil {
		return
	}
	now := time.Now()
	if now.Sub(p.started) < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	rate := float64(p.bytes) / (1 << 20) / now.Sub(p.started).Seconds()
	if p.total > 0 {
		fmt.Fprintf(p.w, "\r\x1b[K%3d%%  %.0f MiB  %.0f MiB/s  %s", 100*min(p.bytes, p.total)/p.total, float64(p.bytes)/(1<<20), rate, name)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%.0f MiB  %.0f MiB/s  %s", float64(p.bytes)/(1<<20), rate, name)
}

// done clears the line, so that what is printed next starts on a clean one.
func (p *progress) done() {
	if p.w != nil && !p.shown.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
