package overlay

import (
	"io"

	"github.com/oncelog/oncelog/internal/vfs"
)

// file is a file with pieces over it.
type file struct {
	vfs.File // nil if only the pieces are there
	name     string
	pieces   []Piece
	under    int64 // bytes of File
	size     int64
}

func (f *file) Name() string         { return f.name }
func (f *file) Size() (int64, error) { return f.size, nil }

// ReadAt reads what the file holds and, over that, the pieces. What neither
// holds is a hole of zeros.
func (f *file) ReadAt(b []byte, pos int64) (int, error) {
	if pos >= f.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), f.size-pos))
	want := b[:n]
	clear(want[min(max(f.under-pos, 0), int64(n)):])
	if under := min(int64(n), f.under-pos); under > 0 {
		if read, err := f.File.ReadAt(want[:under], pos); int64(read) < under && err != nil && err != io.EOF {
			return 0, err
		}
	}
	for _, p := range f.pieces {
		from, to := max(p.Pos, pos), min(p.Pos+p.Length, pos+int64(n))
		if from >= to {
			continue
		}
		if err := p.ReadAt(want[from-pos:to-pos], from-p.Pos); err != nil {
			return 0, err
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt([]byte, int64) (int, error)    { return 0, refuse("write", f.name) }
func (f *file) WriteVAt([][]byte, int64) (int, error) { return 0, refuse("write", f.name) }
func (f *file) Truncate(int64) error                  { return refuse("truncate", f.name) }
func (f *file) Allocate(int64) error                  { return refuse("allocate", f.name) }
func (f *file) Sync() error                           { return refuse("sync", f.name) }
func (f *file) Datasync() error                       { return refuse("sync", f.name) }
func (f *file) Map(int64, bool) (vfs.Mapping, error)  { return nil, refuse("map", f.name) }

func (f *file) Close() error {
	if f.File == nil {
		return nil
	}
	return f.File.Close()
}
