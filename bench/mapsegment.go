package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/oncelog/oncelog/batch"
)

// mapSync says how a mapped segment is flushed after each append.
type mapSync uint8

const (
	mapSyncNone mapSync = iota
	mapSyncRange
	mapSyncFile
)

// populateBytes is the window that is populated ahead of the appends.
const populateBytes = 4 << 20

// mapSegment appends into segments that are mapped for writing: what the name
// "mapped log" suggests, and what the engine does not do.
type mapSegment struct {
	dir          string
	segmentBytes int64
	populated    bool // have the kernel map the pages ahead, a window at a time
	sync         mapSync

	mu        sync.Mutex
	current   *mapped
	old       []string // segments that are full
	pos       int64
	populates int64 // populated up to here
	rolls     int
}

func (m *mapSegment) open(context.Context) error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	return m.roll()
}

// roll begins the next segment. The last one stays until reset.
func (m *mapSegment) roll() (err error) {
	if m.current != nil {
		m.old = append(m.old, m.current.file.Name())
		if err := m.current.unmap(); err != nil {
			return err
		}
	}
	m.rolls++
	m.current, err = mapFile(filepath.Join(m.dir, fmt.Sprintf("mapped-%d", m.rolls)), m.segmentBytes)
	m.pos, m.populates = 0, 0
	return err
}

func (m *mapSegment) append(_ context.Context, _ writer, b batch.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := int64(len(b))
	if m.pos+size > m.segmentBytes {
		if err := m.roll(); err != nil {
			return err
		}
	}
	for m.populated && m.pos+size > m.populates {
		next := min(m.populates+populateBytes, m.segmentBytes)
		if err := populate(m.current.bytes[m.populates:next]); err != nil {
			return err
		}
		m.populates = next
	}
	stored := batch.Batch(m.current.bytes[m.pos : m.pos+size])
	copy(stored, b)
	if batch.CRC(stored) != b.CRC() {
		return fmt.Errorf("the batch at %d was not copied right", m.pos)
	}
	pos := m.pos
	m.pos += size
	switch m.sync {
	case mapSyncRange:
		return m.current.sync(pos, size)
	case mapSyncFile:
		return datasync(m.current.file)
	}
	return nil
}

func (m *mapSegment) flush(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return datasync(m.current.file)
}

func (m *mapSegment) drain(ctx context.Context) error { return m.flush(ctx) }

func (m *mapSegment) reset(context.Context) (fresh bool, err error) {
	for _, name := range m.old {
		err = errors.Join(err, os.Remove(name))
	}
	m.old = m.old[:0]
	return false, err
}

func (m *mapSegment) close() error {
	err := m.current.close()
	m.current = nil
	return errors.Join(err, os.RemoveAll(m.dir))
}
