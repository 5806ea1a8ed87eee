// Package faultfs is a file system that fails on demand. It stands in front of
// another one and counts every operation on it, its files and its mappings; a
// Plan says which of them fail and how, or is asked before each.
//
// A test of a write path runs it with the n-th operation failing, n = 0, 1,
// 2 … until it succeeds and nothing fired:
//
//	for n := 0; ; n++ {
//		mem := vfs.NewMem()
//		fsys := faultfs.New(mem, faultfs.FailNth(n, nil))
//		err := run(fsys)
//		check(mem, err)
//		if !fsys.Fired() {
//			break
//		}
//	}
//
// Memory of mappings is written and read without any operation: a fault cannot
// hit there. All types are safe for concurrent use as those under them.
package faultfs

import (
	"io"
	"io/fs"
	"sync"

	"github.com/oncelog/oncelog/internal/vfs"
)

// FS is a file system that fails.
type FS struct {
	inner vfs.FS

	mu    sync.Mutex // guards all below
	plan  Plan
	seen  []int      // for each fault of the plan: operations that it counted
	n     int        // operations since the plan was set
	count [kinds]int // the same by kind
	fired int
}

var _ vfs.FS = (*FS)(nil)

// New puts a failing file system in front of inner.
func New(inner vfs.FS, plan Plan) *FS {
	f := &FS{inner: inner}
	f.SetPlan(plan)
	return f
}

// SetPlan replaces the plan. All counts begin again at 0, and nothing has fired.
// It serves to arm faults once a test is set up.
func (f *FS) SetPlan(plan Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
	f.seen = make([]int, len(plan.Faults))
	f.n, f.count, f.fired = 0, [kinds]int{}, 0
}

// Fired says whether a fault hit an operation, or a hook gave an error, since
// the plan was set.
func (f *FS) Fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired > 0
}

// Count gives the number of operations of the kinds (none: of all) since the
// plan was set, those that failed included.
func (f *FS) Count(kinds ...Kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(kinds) == 0 {
		return f.n
	}
	total := 0
	for _, k := range kinds {
		total += f.count[k]
	}
	return total
}

// before counts op, asks the hook and looks for a fault that hits it. The error
// is what the operation must return; a fault whose effect is not Fail comes
// with it, for the operation to have that effect first.
func (f *FS) before(op Op) (*Fault, error) {
	f.mu.Lock()
	op.N = f.n
	f.n++
	f.count[op.Kind]++
	hook := f.plan.Hook
	var hit *Fault
	for i := range f.plan.Faults {
		fault := &f.plan.Faults[i]
		if !fault.hits(op) {
			continue
		}
		n := f.seen[i]
		f.seen[i]++
		if hit == nil && (n == fault.N || n > fault.N && fault.Forever) {
			hit = fault
			f.fired++
		}
	}
	f.mu.Unlock()
	if hook != nil {
		if err := hook(op); err != nil {
			f.mu.Lock()
			f.fired++
			f.mu.Unlock()
			return nil, op.error(err)
		}
	}
	if hit != nil {
		return hit, op.error(hit.Err)
	}
	return nil, nil
}

// fail is before for operations that fail without any other effect.
func (f *FS) fail(op Op) error {
	_, err := f.before(op)
	return err
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) {
	if err := f.fail(Op{Kind: Open, Name: name}); err != nil {
		return nil, err
	}
	inner, err := f.inner.Open(name)
	if err != nil {
		return nil, err
	}
	return &file{fs: f, inner: inner}, nil
}

// OpenFile implements vfs.FS.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := f.fail(Op{Kind: Open, Name: name, Flag: flag}); err != nil {
		return nil, err
	}
	inner, err := f.inner.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{fs: f, inner: inner}, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if err := f.fail(Op{Kind: Remove, Name: name}); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	if err := f.fail(Op{Kind: Rename, Name: oldname, To: newname}); err != nil {
		return err
	}
	return f.inner.Rename(oldname, newname)
}

// Mkdir implements vfs.FS.
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	if err := f.fail(Op{Kind: Mkdir, Name: name}); err != nil {
		return err
	}
	return f.inner.Mkdir(name, perm)
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.fail(Op{Kind: ReadDir, Name: name}); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if err := f.fail(Op{Kind: Stat, Name: name}); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(name string) error {
	fault, err := f.before(Op{Kind: SyncDir, Name: name})
	if err == nil {
		return f.inner.SyncDir(name)
	}
	if mem, ok := f.inner.(*vfs.Mem); ok && fault != nil && fault.Effect == Lose {
		mem.LoseSyncDir(name, fault.lost())
	}
	return err
}

// Lock implements vfs.FS. Giving a lock back never fails.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := f.fail(Op{Kind: Lock, Name: name}); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// Place implements vfs.FS. It never fails.
func (f *FS) Place(dir string) (vfs.Place, error) { return f.inner.Place(dir) }
