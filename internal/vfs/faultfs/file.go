package faultfs

import (
	"github.com/oncelog/oncelog/internal/vfs"
)

// sectorSize is what a disk writes as one.
const sectorSize = 512

// file is an open file of a failing file system.
type file struct {
	// Set by Open and OpenFile.
	fs    *FS
	inner vfs.File
}

func (f *file) Name() string { return f.inner.Name() }

func (f *file) ReadAt(p []byte, pos int64) (int, error) {
	if err := f.fs.fail(f.op(Read, pos, len(p))); err != nil {
		return 0, err
	}
	return f.inner.ReadAt(p, pos)
}

func (f *file) WriteAt(p []byte, pos int64) (int, error) {
	fault, err := f.fs.before(f.op(Write, pos, len(p)))
	if err == nil {
		return f.inner.WriteAt(p, pos)
	}
	return f.failWrite(fault, p, pos, err)
}

func (f *file) WriteVAt(bufs [][]byte, pos int64) (int, error) {
	size := 0
	for _, buf := range bufs {
		size += len(buf)
	}
	fault, err := f.fs.before(f.op(Write, pos, size))
	if err == nil {
		return f.inner.WriteVAt(bufs, pos)
	}
	var whole []byte
	if fault != nil && fault.Effect != Fail {
		whole = make([]byte, 0, size)
		for _, buf := range bufs {
			whole = append(whole, buf...)
		}
	}
	return f.failWrite(fault, whole, pos, err)
}

// failWrite does as much of a write as its fault lets pass. fault is nil if a
// hook failed it.
func (f *file) failWrite(fault *Fault, p []byte, pos int64, err error) (int, error) {
	if fault == nil {
		return 0, err
	}
	switch fault.Effect {
	case Short:
		n, innerErr := f.inner.WriteAt(p[:len(p)/2], pos)
		if innerErr != nil {
			return n, innerErr
		}
		return n, err
	case Torn:
		for _, piece := range f.fs.sectors(fault, pos, len(p)) {
			if _, innerErr := f.inner.WriteAt(p[piece.from:piece.to], pos+int64(piece.from)); innerErr != nil {
				return 0, innerErr
			}
		}
	}
	return 0, err
}

// piece is a range of the bytes of a write.
type piece struct{ from, to int }

// sectors draws which sectors of the disk a torn write of n bytes reaches.
func (f *FS) sectors(fault *Fault, pos int64, n int) []piece {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pieces []piece
	for from, i := 0, 0; from < n; i++ {
		to := min(n, from+sectorSize-int((pos+int64(from))%sectorSize))
		keep := i%2 == 1
		if fault.Rand != nil {
			keep = fault.Rand.IntN(2) == 1
		}
		if keep {
			pieces = append(pieces, piece{from, to})
		}
		from = to
	}
	return pieces
}

func (f *file) Size() (int64, error) {
	if err := f.fs.fail(f.op(Stat, 0, 0)); err != nil {
		return 0, err
	}
	return f.inner.Size()
}

func (f *file) Truncate(size int64) error {
	if err := f.fs.fail(Op{Kind: Truncate, Name: f.inner.Name(), Size: size}); err != nil {
		return err
	}
	return f.inner.Truncate(size)
}

func (f *file) Allocate(size int64) error {
	if err := f.fs.fail(Op{Kind: Allocate, Name: f.inner.Name(), Size: size}); err != nil {
		return err
	}
	return f.inner.Allocate(size)
}

func (f *file) Sync() error { return f.sync(f.inner.Sync) }

func (f *file) Datasync() error { return f.sync(f.inner.Datasync) }

func (f *file) sync(do func() error) error {
	fault, err := f.fs.before(f.op(Sync, 0, 0))
	if err == nil {
		return do()
	}
	fault.lose(f.inner)
	return err
}

func (f *file) Close() error {
	err := f.fs.fail(f.op(Close, 0, 0))
	if innerErr := f.inner.Close(); innerErr != nil {
		return innerErr
	}
	return err
}

func (f *file) Map(size int64, writable bool) (vfs.Mapping, error) {
	if err := f.fs.fail(Op{Kind: Map, Name: f.inner.Name(), Size: size}); err != nil {
		return nil, err
	}
	inner, err := f.inner.Map(size, writable)
	if err != nil {
		return nil, err
	}
	return &mapping{fs: f.fs, inner: inner, name: f.inner.Name()}, nil
}

func (f *file) op(kind Kind, pos int64, size int) Op {
	return Op{Kind: kind, Name: f.inner.Name(), Pos: pos, Size: int64(size)}
}

// mapping is an open mapping of a failing file system.
type mapping struct {
	// Set by Map.
	fs    *FS
	inner vfs.Mapping
	name  string
}

func (m *mapping) Bytes() []byte { return m.inner.Bytes() }

func (m *mapping) Populate() error {
	if err := m.fs.fail(Op{Kind: Populate, Name: m.name}); err != nil {
		return err
	}
	return m.inner.Populate()
}

func (m *mapping) Sync(pos, n int64) error {
	fault, err := m.fs.before(Op{Kind: Sync, Name: m.name, Pos: pos, Size: n})
	if err == nil {
		return m.inner.Sync(pos, n)
	}
	fault.lose(m.inner)
	return err
}

func (m *mapping) Close() error {
	err := m.fs.fail(Op{Kind: Close, Name: m.name})
	if innerErr := m.inner.Close(); innerErr != nil {
		return innerErr
	}
	return err
}

// lose has the effect Lose, if it is f's, on a file or mapping.
func (f *Fault) lose(inner any) {
	if f == nil || f.Effect != Lose {
		return
	}
	if l, ok := inner.(vfs.Loser); ok {
		l.LoseSync(f.lost())
	}
}

// lost says what of a lost sync is stored all the same.
func (f *Fault) lost() vfs.CrashOptions {
	if f.Rand == nil {
		return vfs.CrashOptions{KeepUnsynced: vfs.KeepNone}
	}
	return vfs.CrashOptions{Rand: f.Rand, KeepUnsynced: 0.5}
}
