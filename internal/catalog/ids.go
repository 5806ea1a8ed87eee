package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/checkpoint"
)

// idRange are producer ids: from first on, below end.
type idRange struct{ first, end int64 }

// kafkaIDs is where ids begin in a directory of a Kafka node. Its cluster hands out
// others, from 0 on, and does not know of ours: two producers with one id would be
// taken for one, and what the second sends for a duplicate.
const kafkaIDs = 1 << 48

// ReserveIDs makes sure, durably, that n producer ids are handed out once: those from
// first on. All are above least and all that were reserved before. Errors:
// log.ErrReadOnly, log.ErrClosed, those of the file system.
func (c *Catalog) ReserveIDs(ctx context.Context, n int, least int64) (first int64, err error) {
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	if err := errors.Join(c.changeable(), ctx.Err()); err != nil {
		return 0, err
	}
	m := *c.manifest
	first = max(m.ids.end, least+1)
	if m.ids == (idRange{}) {
		switch _, err := c.fs.Stat(filepath.Join(c.dir, checkpoint.MetaFile)); {
		case err == nil:
			first = max(first, kafkaIDs)
		case !errors.Is(err, fs.ErrNotExist):
			return 0, err
		}
		m.ids.first = first
	}
	if first > math.MaxInt64-int64(n) {
		return 0, fmt.Errorf("catalog: producer ids end at %d, there are not %d above %d", int64(math.MaxInt64), n, first)
	}
	m.ids.end = first + int64(n)
	if err := c.commit(&m); err != nil {
		return 0, err
	}
	return first, nil
}

// ReservedIDs are the least id that was ever reserved, and the one behind the last;
// equal if none was.
func (c *Catalog) ReservedIDs() (first, end int64) {
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	return c.manifest.ids.first, c.manifest.ids.end
}
