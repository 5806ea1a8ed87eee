package tail

import "github.com/oncelog/oncelog/internal/vfs"

// The rest of vfs.File is the file's own. What these say of bytes holds for
// those written; a size is that of the file, which memory does not extend.

// Name implements vfs.File.
func (t *Tail) Name() string { return t.file.Name() }

// WriteAt writes straight into the file. The bytes must not be in a chunk: the
// appender calls Skip first, or the writer writes what no chunk has.
func (t *Tail) WriteAt(p []byte, pos int64) (int, error) { return t.file.WriteAt(p, pos) }

// WriteVAt is WriteAt for several buffers.
func (t *Tail) WriteVAt(bufs [][]byte, pos int64) (int, error) { return t.file.WriteVAt(bufs, pos) }

// Size implements vfs.File, for the file.
func (t *Tail) Size() (int64, error) { return t.file.Size() }

// Truncate implements vfs.File, for the file. What chunks hold above size is
// written again by a WriteBack: Cut comes first.
func (t *Tail) Truncate(size int64) error { return t.file.Truncate(size) }

// Allocate implements vfs.File.
func (t *Tail) Allocate(size int64) error { return t.file.Allocate(size) }

// Sync implements vfs.File, for what is written.
func (t *Tail) Sync() error { return t.file.Sync() }

// Datasync implements vfs.File, for what is written.
func (t *Tail) Datasync() error { return t.file.Datasync() }

// Map implements vfs.File, for what is written.
func (t *Tail) Map(size int64, writable bool) (vfs.Mapping, error) {
	return t.file.Map(size, writable)
}
