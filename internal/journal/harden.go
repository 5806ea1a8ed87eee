package journal

import (
	"errors"
	"os"

	"github.com/oncelog/oncelog/internal/vfs"
)

// Harden makes durable what Read found, before anything is built on it: the
// last whole run may be whole in the page cache only, after a sync of it that
// failed or never came. All runs before it were synced before it was begun.
// It is written again in place, so that its pages are dirty again, and synced. So
// is the copy of the header that counts: whoever writes the other one next relies
// on it. It may be repeated, also after a crash in it. The store must not be
// running.
func (c *Contents) Harden() error {
	f, err := c.fs.OpenFile(c.file.Name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := rewriteHeader(f, c.magic); err != nil {
		return errors.Join(err, f.Close())
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

// rewriteHeader writes the copy of the header that counts again in place.
func rewriteHeader(f vfs.File, magic string) error {
	_, counts, err := readHeader(f, magic)
	if err != nil {
		return err
	}
	block := make([]byte, blockBytes)
	if _, err := f.ReadAt(block, int64(counts)*blockBytes); err != nil {
		return err
	}
	_, err = f.WriteAt(block, int64(counts)*blockBytes)
	return err
}
