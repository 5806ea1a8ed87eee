package catalog

import (
	"sync"
	"time"
)

// progressInterval is how far apart reports of progress are, and how often
// recovery records how far it is, so that a restart does not begin at zero.
const progressInterval = time.Second

// progress counts partitions for the embedding program.
type progress struct {
	c     *Catalog
	stage string
	total int

	mu   sync.Mutex // leaf
	n    int
	told time.Time
	last time.Time // that due said yes
}

func (c *Catalog) progress(stage string, total int) *progress {
	now := time.Now()
	return &progress{c: c, stage: stage, total: total, told: now, last: now}
}

// step counts one more.
func (p *progress) step() {
	p.mu.Lock()
	p.n++
	n, tell := p.n, time.Since(p.told) >= progressInterval
	if tell {
		p.told = time.Now()
	}
	p.mu.Unlock()
	if tell {
		p.c.event(Event{Kind: EventProgress, File: p.stage, Count: n, Total: p.total})
	}
}

// due tells one caller an interval.
func (p *progress) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < progressInterval && !p.c.o.Manual {
		return false
	}
	p.last = time.Now()
	return true
}
