package journal

import (
	"errors"
	"os"
)

// Harden makes durable what Read found, before anything is built on it: the
// last whole run may be whole in the page cache only, after a sync of it that
// failed or never came. All runs before it were synced before it was begun.
// It is written again in place, so that its pages are dirty again, and synced.
// It may be repeated, also after a crash in it. The store must not be running.
func (c *Contents) Harden() error {
	if c.Runs == 0 {
		return nil
	}
	f, err := c.fs.OpenFile(c.file.Name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	w := walker{file: f, buffer: make([]byte, walkBufferBytes)}
	var writeErr error
	readErr := w.pieces(c.last, func(pos int64, p []byte) bool {
		_, writeErr = f.WriteAt(p, pos)
		return writeErr == nil
	})
	if err := errors.Join(readErr, writeErr); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Datasync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
