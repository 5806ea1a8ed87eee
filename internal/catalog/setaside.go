package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/log"
)

// keptSuffix ends the names of journal, tail and rescue that were set aside.
const keptSuffix = ".kept"

// acceptable tells whether an error of reading the directory is one that
// Options.AcceptForeign is for: another program worked in it after our crash, or
// setting aside what it wrote over was begun before, and not ended.
func (c *Catalog) acceptable(err error) bool {
	if !c.o.AcceptForeign || c.o.ReadOnly {
		return false
	}
	_, foreign := errors.AsType[*log.ForeignWriterError](err)
	gone := errors.Is(err, ErrJournalMissing) || errors.Is(err, ErrTailMissing)
	return foreign || gone && c.keptBefore()
}

// keptBefore tells whether something was set aside and the manifest does not say
// so yet.
func (c *Catalog) keptBefore() bool {
	entries, err := c.fs.ReadDir(c.dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == keptSuffix {
			return true
		}
	}
	return false
}

// SetAside tells whether Open set journal, rescue or tail aside: what transactions
// wrote may be gone in any partition.
func (c *Catalog) SetAside() bool { return c.keptAside }

// keepMemory renames journal, rescue and tail, as a whole, and keeps them: what the
// segments hold counts from here on.
func (c *Catalog) keepMemory() error {
	c.keptAside = true
	stamp := c.o.Log.Now().UnixMilli()
	for _, name := range []string{journal.Name, journal.RescueName, tail.FileName} {
		path := filepath.Join(c.dir, name)
		kept := fmt.Sprintf("%s.%d%s", path, stamp, keptSuffix)
		err := c.fs.Rename(path, kept)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("set %s aside: %w%s", path, err, advice(err))
		}
		c.event(Event{Kind: EventSetAside, File: kept})
	}
	// The names first: a manifest that names none would have the files removed.
	if err := c.fs.SyncDir(c.dir); err != nil {
		return err
	}
	return c.commit(c.manifest.withMemory(memoryState{}))
}
